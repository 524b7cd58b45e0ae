package main

import (
	"testing"
	"time"
)

// TestClusterRestarts: all nodes are killed at once and started, then one after
// the other is stopped and started, under load. No client sees an error, nothing
// acknowledged is lost.
func TestClusterRestarts(t *testing.T) {
	beside(t)
	c := startCompany(t, 3)
	load := c.produce("q", 10, 20*time.Millisecond)
	load.more(t, 500)
	for _, p := range c.all {
		p.kill(t)
	}
	began := time.Now()
	for _, p := range c.all {
		p.launch(t)
	}
	for _, p := range c.all {
		if err := p.s.wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ready again after %v", time.Since(began).Round(10*time.Millisecond))
	if d := time.Since(began); timed() && d > 20*time.Second {
		t.Errorf("not ready for %v", d)
	}
	load.more(t, 500)
	for _, p := range c.all {
		began := time.Now()
		p.stop(t)
		p.start(t)
		c.settled(3)
		t.Logf("%s is back after %v", p.name, time.Since(began).Round(10*time.Millisecond))
		load.more(t, 100)
	}
	load.end(t)
	c.settled(3)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "q", uint64(len(load.acked)))
	}
	c.everywhere(load.acked, load.sent)
}

// TestClusterGrowsAndShrinks: two nodes come to three and leave again, under
// load, without an error to a client.
func TestClusterGrowsAndShrinks(t *testing.T) {
	thorough(t)
	c := startCompany(t, 3)
	load := c.produce("q", 10, 20*time.Millisecond)
	load.more(t, 500)
	began := time.Now()
	n4, n5 := c.add(), c.add()
	n4.start(t)
	n5.start(t)
	eventually(t, "five nodes have their share", func() bool {
		s := c.all[0].status(t)
		if s == nil || len(s.Nodes) != 5 || len(s.Voters) != 5 {
			return false
		}
		for _, n := range s.Nodes {
			if n.State != "up" || n.Vnodes < 7 || n.Vnodes > 12 {
				return false
			}
		}
		return whole(s, 3) == ""
	})
	t.Logf("five nodes after %v", time.Since(began).Round(10*time.Millisecond))
	load.more(t, 500)
	for _, p := range []*process{n4, n5} {
		began := time.Now()
		if r := c.all[0].norn(t, "cluster", "leave", p.name, "--wait", "2m"); r.code != 0 {
			t.Fatalf("%s does not leave: %d, %s%s", p.name, r.code, r.out, r.err)
		}
		t.Logf("%s has left after %v", p.name, time.Since(began).Round(10*time.Millisecond))
		if code := p.failed(t); code != 0 {
			t.Errorf("%s has left and ends with %d", p.name, code)
		}
	}
	c.all = c.all[:3]
	load.more(t, 500)
	load.end(t)
	c.settled(3)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "q", uint64(len(load.acked)))
	}
	c.everywhere(load.acked, load.sent)
}
