package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
)

// TestNodesThatStartTogetherFormAtOnce: nodes with bootstrap-expect make one cluster, all of them
// in one step, and once a partition takes and gives out tasks it goes on doing so while the cluster
// forms and grows by another node: leaders went home, and cohorts changed, with up to two thirds of
// the partitions unserved for tenths of a second.
func TestNodesThatStartTogetherFormAtOnce(t *testing.T) {
	beside(t)
	const nodes = 5
	c := newCompany(t, "--bootstrap-expect", fmt.Sprint(nodes))
	var all []string
	for range nodes {
		all = append(all, c.add().reached())
	}
	join := []string{"--join", strings.Join(all, ",")}
	began := time.Now()
	for _, p := range c.all {
		p.args = append(slices.Clone(c.args), join...)
		p.launch(t)
	}
	for _, p := range c.all {
		if err := p.s.wait(); err != nil {
			t.Fatal(err)
		}
	}
	longest := c.gaps(func() { c.settled(3) })
	formed := time.Since(began)
	grown := c.gaps(func() {
		last := c.add()
		last.args = append(slices.Clone(c.args), join...)
		last.start(t)
		c.settled(3)
	})
	t.Logf("%d nodes have formed a cluster after %v; no partition was unserved for longer than %v, and %v while one more joined", nodes, formed, longest, grown)
	most, slowest := 200*time.Millisecond, 8*time.Second
	if !timed() { // other tests run beside it
		most, slowest = time.Second, patience
	}
	if longest > most || grown > most || formed > slowest {
		t.Errorf("%v without service at most, %v to form: more than %v and %v", max(longest, grown), formed, most, slowest)
	}
}

// gaps is for how long a partition was unserved at most after it was served first, as the first
// node says it, while something is done.
func (c *company) gaps(while func()) (longest time.Duration) {
	c.t.Helper()
	dialled, err := client.Dial(c.t.Context(), c.addresses()[:1])
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = dialled.Close() }()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		good := map[uint32]time.Time{}
		for tick := time.Tick(10 * time.Millisecond); ; <-tick {
			asked := time.Now()
			if s, err := dialled.Status(c.t.Context()); err == nil {
				for _, p := range s.GetPartitions() {
					if p.GetLeader() == "" || !p.GetClaimAvailable() {
						continue
					}
					if last, known := good[p.GetId()]; known {
						longest = max(longest, asked.Sub(last))
					}
					good[p.GetId()] = time.Now()
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	while()
	close(done)
	<-ended
	return longest
}
