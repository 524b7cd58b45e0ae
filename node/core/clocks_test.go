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

// TestAStepOfTheClockEndsNoRecoveredClaim: a leader knows a claim by the election
// only, so that its wall clock may end it as long as others agree with that. It is
// set ahead by an hour between two beats: what they have said of it before does not
// count any more (track record, laboratory, clock-strobe, seed 11).
func TestAStepOfTheClockEndsNoRecoveredClaim(t *testing.T) {
	for _, off := range []time.Duration{eta, time.Minute, time.Hour} {
		r := newTrio(t)
		task := r.put(0, 1)
		old := r.leader(1)
		heir := (old + 1) % 3
		from := r.send(old, claimUpTo(1))
		r.settle()
		grants, _ := r.granted(old, from)
		if len(grants) != 1 {
			t.Fatalf("granted %v", grants)
		}
		r.depose(1, old, heir)
		if r.leader(1) != heir {
			t.Fatalf("node %d leads", r.leader(1)+1)
		}
		r.live(2*time.Second, 100*time.Millisecond, nothing)
		right := r.now
		r.now.Wall += int64(off + lease)
		p := r.peers[heir]
		r.check(p.core.Step(r.now, Tick{}))
		r.turn(heir)
		r.now = right
		r.live(time.Second, 100*time.Millisecond, nothing)
		if n := r.holders(task, grants[0].Token); n != 3 {
			t.Errorf("the clock of the leader was ahead by %v of the end for a moment: %d of 3 members still know the claim", off, n)
		}
		r.audit()
	}
}
