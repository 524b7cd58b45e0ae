package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// TestAHandOverIsGivenUp after so many comparisons that went wrong.
func TestAHandOverIsGivenUp(t *testing.T) {
	r := newCluster(t, 5, time.Minute)
	for _, o := range r.peers[1:] {
		r.set(o.self, register.Joining) // known to all
	}
	r.tell()
	r.settle()
	cell := r.state().Cells[0]
	to := []register.Member{cell.Cohort[0], r.peers[3].self, r.peers[4].self}
	r.say(1, 0, &message.Elect{Stand: []message.Stand{{Epoch: cell.Epoch, Nonce: cell.Nonce, To: to}}})
	e := r.peers[0].core.elector
	for len(r.post) > 0 && e.Hands[0] == nil {
		r.deliver(0)
	}
	o := e.Hands[0]
	if o == nil {
		t.Fatal("nothing is handed over")
	}
	for _, failed := range []int{leadership.MaxHandFailures, leadership.MaxHandFailures + 1} {
		o.Failed, o.Busy = failed, register.Member{}
		e.Work(r.now)
		if goesOn := e.Hands[0] != nil; goesOn != (failed <= leadership.MaxHandFailures) {
			t.Errorf("after %d failures it goes on: %v", failed, goesOn)
		}
	}
}

// TestHowLongAMemberMaySayThatAClaimIsInTheWay: no longer than any claim lasts.
func TestHowLongAMemberMaySayThatAClaimIsInTheWay(t *testing.T) {
	for left, learns := range map[time.Duration]bool{leaseTime: true, clock.MaxLease + 2*time.Hour: false} {
		r := newTrio(t)
		i := r.leader(1)
		c, from := r.peers[i].core, (i+1)%3
		task := r.put(i, 1)
		other := heldFrom(task, (c.vnodes.See(1).Leading()-1)<<32|7, r.now.Wall)
		round := uint64(0)
		r.send(i, claimUpTo(1))
		r.settleBut(func(l letter) bool {
			m, is := l.message.(*message.Claims)
			if is {
				round = m.Round
			}
			return is
		})
		r.say(from, i, &message.ClaimsTaken{Round: round, Parts: []message.PartTaken{{Partition: 1, Refused: []message.Refusal{
			{Verdict: vnode.Busy, Claim: vnode.AppendHeld(nil, []vnode.Held{other}), Left: left},
		}}}})
		if known := lease.Held(c.vnodes, message.GrantRef{Partition: 1, Task: task, Token: other.Record.Token}); known != learns {
			t.Errorf("for %v: learned %v", left, known)
		}
	}
}

// TestWhatIsNoEnd: a state that is none; and nobody stands for a partition that it is deleting.
func TestWhatIsNoEnd(t *testing.T) {
	r := newCluster(t, 5, 0)
	c := r.peers[0].core
	if !c.elector.Able(0) {
		t.Fatal("it cannot lead what it keeps")
	}
	c.view.Dropping[0] = true
	if c.elector.Able(0) {
		t.Error("it stands for what it is deleting")
	}
	delete(c.view.Dropping, 0)
	task := r.at(1) // kept elsewhere
	w := c.dependency.Watches
	if w.Heard(&message.Outcomes{Outcomes: []message.Outcome{{Task: task, State: crdt.StateReady}}}); len(c.dependency.News) != 0 {
		t.Error("a task that is ready has ended")
	}
	if w.Heard(&message.Outcomes{Outcomes: []message.Outcome{{Task: task, State: crdt.StateDead}}}); len(c.dependency.News) != 1 {
		t.Error("one that is dead has not")
	}
}

// TestWhatIsMarked: what leaves when this round is on the disk, to who has told what it knows of
// this node, and not what waits for an earlier round.
func TestWhatIsMarked(t *testing.T) {
	r := newTrio(t)
	m := r.peers[0].core.standing.Disk
	m.Durable = 7
	to, stranger := r.peers[1].self, register.Member{Node: "x"}
	sends := []message.Send{{To: to, Message: &message.FactsTaken{}}, {To: to, Message: &message.FactsTaken{}, After: 5}, {To: stranger, Message: &message.FactsTaken{}}}
	m.Stamp(&message.Ready{Send: sends})
	for i, want := range []uint64{7, 0, 0} {
		if got := sends[i].Message.(*message.FactsTaken).Mark; got != want {
			t.Errorf("number %d bears %d, not %d", i, got, want)
		}
	}
}

// TestANewcomerCopiesAnew what it compared with long ago: tombstones may have gone since.
func TestANewcomerCopiesAnew(t *testing.T) {
	r := newGrowing(t)
	r.join()
	r.stock(0, 20)
	for range 200 {
		r.tell()
		r.settle()
		for _, o := range r.peers {
			m := o.core.transfer
			for p, move := range m.Incoming {
				now := r.now.Add(time.Hour)
				move.Busy, move.Pause = register.Member{}, 0
				move.Met = []transfer.Met{{With: r.peers[0].self, Began: r.now.Mono, Ended: now.Mono}}
				m.Bring(now, p, move, nil)
				if len(move.Met) != 0 {
					t.Error("what was copied an hour ago counts")
				}
				return
			}
		}
		r.pass(50 * time.Millisecond)
	}
	t.Fatal("nothing moves")
}
