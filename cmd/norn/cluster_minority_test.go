package main

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
)

// TestClusterMinority: the last of three nodes takes tasks with one copy, says
// what is missing for more, also after a restart, and hands them over.
func TestClusterMinority(t *testing.T) {
	thorough(t)
	c := startCompany(t, 3)
	n1, n2, n3 := c.all[0], c.all[1], c.all[2]
	n2.kill(t)
	n3.kill(t)
	acked := map[id.ID]bool{}
	enqueue := func() {
		t.Helper()
		r := n1.norn(t, "task", "enqueue", "-q", "q", "-w", "one", "hello")
		task, err := id.Parse(strings.TrimSpace(r.out))
		if r.code != 0 || err != nil {
			t.Fatalf("-w one exits with %d: %s%s", r.code, r.out, r.err)
		}
		acked[task] = true
	}
	refused := func() {
		t.Helper()
		r := n1.norn(t, "task", "enqueue", "-q", "refused", "-w", "quorum", "--timeout", "8s", "hello")
		if r.code != 4 || !strings.Contains(r.err, "copies") || !strings.Contains(r.err, "durable copies") {
			t.Errorf("-w quorum exits with %d, %q", r.code, r.err)
		}
	}
	for range 40 { // in all partitions, most likely
		enqueue()
	}
	refused()
	n1.kill(t)
	n1.launch(t)
	eventually(t, "the lone node answers", func() bool {
		return n1.norn(t, "task", "enqueue", "-q", "other", "-w", "one", "--timeout", "2s", "hello").code == 0
	})
	for range 10 {
		enqueue()
	}
	refused()
	n2.launch(t)
	n3.launch(t)
	c.settled(3)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "q", uint64(len(acked)))
	}
	for _, p := range c.all {
		p.stop(t)
	}
	for _, p := range c.all {
		has := p.tasks(t)
		for task := range acked { // Any order: all are to be there.
			if !has[task] {
				t.Errorf("%s lacks %s", p.name, task)
			}
		}
	}
}
