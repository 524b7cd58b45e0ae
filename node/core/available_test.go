package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// TestWhatIsMissing: what a node shows to operators of copies, leaders and nodes out of
// its reach, while a cluster grows and when a node dies.
func TestWhatIsMissing(t *testing.T) {
	type missing struct{ unled, short, nodes, down int }
	r := newGrowing(t)
	look := func(when string, want missing) {
		t.Helper()
		for i := range r.peers {
			if r.peers[i].down {
				continue
			}
			a := r.peers[i].core.Available(Sight{})
			if got := (missing{a.Unled, a.Short, a.Nodes, a.Down}); got != want {
				t.Errorf("%s: node %d shows %+v, want %+v", when, i+1, got, want)
			}
			if cut := want.unled == testPartitions; a.CutOff != cut {
				t.Errorf("%s: node %d says that it is cut off: %v", when, i+1, a.CutOff)
			}
		}
	}
	look("one node", missing{nodes: 1})
	r.fill()
	r.join()
	r.join()
	r.tell()
	look("two that have nothing yet", missing{short: testPartitions, nodes: 3})
	r.run(3)
	look("three nodes", missing{nodes: 3})
	before := r.peers[0].core.Available(Sight{})
	if again := r.peers[0].core.Available(before.Seen); again != nil {
		t.Errorf("nothing has changed: %+v", again)
	}
	const dead = 0
	led := int(nodeOf(r.status(1), "n1").Led)
	if led == 0 {
		t.Fatal("the first node leads nothing")
	}
	r.leads = 1
	r.kill(dead)
	r.tell()
	look("one is dead", missing{unled: led, short: testPartitions, nodes: 3, down: 1})
	r.elect()
	look("others lead", missing{short: testPartitions, nodes: 3, down: 1})
	r.set(r.peers[dead].self, register.Leaving)
	r.set(r.peers[dead].self, register.Removed)
	for range 100 {
		r.pass(time.Second)
		r.tell()
		r.settle()
	}
	look("it is removed", missing{nodes: 2})
}

// TestTheRegisterIsLost: where nobody leads it a node says so; one that is alone keeps it
// by itself.
func TestTheRegisterIsLost(t *testing.T) {
	r := newGrowing(t)
	c := r.peers[0].core
	if !c.Available(Sight{}).Majority {
		t.Error("a cluster of one has its register")
	}
	r.join()
	r.tell()
	was := c.Available(Sight{})
	e := message.Changed{State: c.view.State, Voters: []register.Member{r.peers[0].self, r.peers[1].self}, Majority: true}
	for _, there := range []bool{true, false} {
		e.Majority = there
		r.check(c.Step(r.now, e))
		now := c.Available(was.Seen)
		if now == nil || now.Majority != there {
			t.Fatalf("told %v it says %+v", there, now)
		}
		was = now
	}
}

// TestANodeThatStopsIsNotReady: whoever balances load sends it nothing from then on, as it
// refuses all, whoever leads by then.
func TestANodeThatStopsIsNotReady(t *testing.T) {
	r := newGrowing(t)
	r.join()
	r.join()
	c := r.peers[0].core
	was := c.Available(Sight{})
	if !was.Enqueue || !was.Claim {
		t.Fatalf("before it stops: %+v", was)
	}
	r.check(c.Step(r.now, message.Drain{}))
	now := c.Available(was.Seen)
	if now == nil || now.Enqueue || now.Claim || slices.ContainsFunc(now.Enqueueable, func(b byte) bool { return b != 0 }) {
		t.Fatalf("while it stops: %+v", now)
	}
}
