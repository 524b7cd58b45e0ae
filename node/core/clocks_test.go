package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/ring"
)

// TestTheClockIsJudgedBeforeTheFirstVote: a node that starts may vote and lead only
// once others have told what they know of it. With the same answer it learns how
// far its clock is off, in both directions, and judges it at once: it waited for
// the next second before, and voted meanwhile.
func TestTheClockIsJudgedBeforeTheFirstVote(t *testing.T) {
	for _, off := range []time.Duration{0, -eta, eta, time.Hour} {
		r := newTrio(t).spread()
		r.kill(2)
		r.elect()
		r.open(2)
		k := r.peers[2].core.clocks
		voting := func() (n int) {
			for p := range ring.Partition(partitions) {
				if k.c.marks.trusts(p) && !k.bad[p] {
					n++
				}
			}
			return n
		}
		r.tell()
		r.pass(2 * time.Second) // it asks for the time
		for len(r.post) > 0 {
			if m, is := r.post[0].message.(*Beaten); is && r.post[0].to == 2 {
				m.Received, m.Answered = m.Received-int64(off), m.Answered-int64(off)
			}
			r.deliver(0)
			if off != 0 && voting() > 0 {
				t.Fatalf("a node whose clock is %v ahead votes for %d partitions", off, voting())
			}
		}
		if off == 0 && voting() != partitions {
			t.Errorf("a node with a good clock votes for %d partitions", voting())
		}
	}
}

// TestElectionsEndAfterAnyDeath: whichever node dies, all partitions are led again
// within a second, and so they are where each node keeps a part of them only.
func TestElectionsEndAfterAnyDeath(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		for dead := range nodes {
			r := newCluster(t, nodes, 0)
			if nodes == 3 {
				r.spread()
			}
			r.kill(dead)
			began := r.now.Mono
			r.elect()
			if took := time.Duration(r.now.Mono - began); took > time.Second {
				t.Errorf("node %d of %d is dead: all partitions are led after %v", dead+1, nodes, took)
			}
		}
	}
}
