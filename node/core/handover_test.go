package core

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// changing is a cluster whose first partition gets another cohort while tasks
// come in.
type changing struct {
	*trio
	chance  *rand.Rand
	waiting []waitingTask
	acked   []id.ID
	to      []register.Member
}

type waitingTask struct {
	through int
	from    message.Origin
	task    id.ID
}

// checkAcked asks for every acknowledged task on a majority of the cohort that the
// register names now.
func (c *changing) checkAcked() {
	c.t.Helper()
	c.waiting = slices.DeleteFunc(c.waiting, func(w waitingTask) bool {
		reply, ok := c.peers[w.through].replies[w.from]
		if ok && reply.Err == nil && reply.Message.(*nornv1.EnqueueReply).Results[0].GetReceipt() != nil {
			c.acked = append(c.acked, w.task)
		}
		return ok
	})
	cell := &c.state().Cells[0]
	for _, task := range c.acked {
		n := 0
		for _, o := range c.peers {
			if slices.Contains(cell.Cohort, o.self) && vnode.Known(o.store, 0, task) {
				n++
			}
		}
		if n < 2 {
			c.t.Fatalf("an acknowledged task is on %d disks of the cohort of epoch %d", n, cell.Epoch)
		}
	}
}

func (c *changing) step() {
	switch n := c.chance.IntN(100); {
	case n < 8 && len(c.acked)+len(c.waiting) < 25:
		i, task := c.chance.IntN(len(c.peers)), c.at(0)
		c.waiting = append(c.waiting, waitingTask{i, c.enqueue(i, task, nil), task})
	case n < 14:
		c.pass(20 * time.Millisecond)
	case n < 16:
		c.tell()
	case n < 18 && len(c.post) > 0:
		i := c.chance.IntN(len(c.post))
		c.post = slices.Delete(c.post, i, i+1)
	case len(c.post) > 0:
		c.deliver(c.chance.IntN(len(c.post)))
	default:
		c.pass(20 * time.Millisecond)
	}
}

// TestWhatIsAcknowledgedWhileACohortChangesIsKept: on a majority of the cohort
// that the register names, at any moment: what came before the votes is handed
// over, what came after them is fenced.
func TestWhatIsAcknowledgedWhileACohortChangesIsKept(t *testing.T) {
	changed, acked := 0, 0
	for seed := range uint64(8) {
		c := &changing{trio: newCluster(t, 5, time.Second), chance: rand.New(rand.NewPCG(seed, 8))}
		cell := c.state().Cells[0]
		c.to = []register.Member{cell.Cohort[0], c.peers[3].self, c.peers[4].self}
		for range 60 {
			c.step()
			c.checkAcked()
		}
		c.say(1, 0, &message.Elect{Stand: []message.Stand{{Epoch: cell.Epoch, Nonce: cell.Nonce, To: c.to}}})
		left := 100 // steps after the change
		for range 1500 {
			c.step()
			c.checkAcked()
			if slices.Equal(c.state().Cells[0].Cohort, c.to) {
				if left--; left == 0 {
					changed++
					break
				}
			}
		}
		acked += len(c.acked)
	}
	t.Logf("%d of 8 cohorts were changed, %d tasks acknowledged", changed, acked)
	if changed < 4 || acked < 50 {
		t.Fatalf("too little has happened: %d changes, %d tasks", changed, acked)
	}
}

// TestAnAckWaitsForTheCohortThatWasVotedFor: while its proposal is open a task
// needs a majority of both cohorts.
func TestAnAckWaitsForTheCohortThatWasVotedFor(t *testing.T) {
	r := newCluster(t, 5, time.Second)
	cell := r.state().Cells[0]
	to := []register.Member{cell.Cohort[0], r.peers[3].self, r.peers[4].self}
	r.say(0, 1, &message.Ballots{Ballots: []message.Ballot{{Epoch: 9, Nonce: 3, Old: cell.Epoch, From: cell.Cohort, To: to, Transfer: true}}})
	r.post = nil
	outside := func(l letter) bool { return l.from >= 3 || l.to >= 3 }
	task := r.at(0)
	from := r.enqueue(1, task, nil) // its own acceptor has voted
	r.settleBut(outside)
	if res := r.result(1, from); res != nil {
		t.Fatalf("answered with the old cohort alone: %v", res)
	}
	late := r.at(0)
	other := r.enqueue(2, late, nil) // hears of it with the ack
	r.settleBut(func(l letter) bool { return outside(l) || l.from == 0 })
	if res := r.result(2, other); res != nil {
		t.Fatalf("answered with the old cohort alone: %v", res)
	}
	r.live(3*time.Second, 100*time.Millisecond, nothing)
	if r.result(1, from).GetReceipt() == nil || r.result(2, other).GetReceipt() == nil {
		t.Fatalf("%v and %v with everybody in reach", r.result(1, from), r.result(2, other))
	}
}

// TestAnAckNamesTheWayBack: a member has not heard of the newest cell yet, and has voted for
// a candidate who leads back from there to the cohort that it knows. To whoever writes by the
// newest cell that cohort is another one, and is named: what is acknowledged without it may
// be on one disk of it.
func TestAnAckNamesTheWayBack(t *testing.T) {
	r := newCluster(t, 5, time.Second)
	old := r.state().Cells[0]
	next := register.Cell{Epoch: old.Epoch + 1, Nonce: 7, Leader: old.Leader, Cohort: []register.Member{old.Cohort[0], old.Cohort[1], r.peers[3].self}}
	r.peers[1].deaf = true
	r.register.Do(register.Request{Changes: []register.Change{{Partition: 0, Old: old, New: next}}}, func(res register.Result) {
		if !res.Won[0] {
			t.Fatal("the cell is not changed")
		}
	})
	r.tell()
	r.say(0, 1, &message.Ballots{Ballots: []message.Ballot{{Epoch: 40, Nonce: 3, Old: next.Epoch, From: next.Cohort, To: old.Cohort, Transfer: true}}})
	if a := r.peers[1].core.acceptors.All[0]; a.Promise != 40 || a.Seen != old.Epoch {
		t.Fatalf("it has not voted, or has heard of the newest cell: %+v", a)
	}
	r.post = nil
	away := func(l letter) bool { return l.from == 0 || l.to == 0 || l.from == 2 || l.to == 2 }
	from := r.enqueue(3, r.at(0), nil)
	r.settleBut(away)
	if res := r.result(3, from); res != nil {
		t.Fatalf("answered with one copy in the cohort that was voted for: %v", res)
	}
	r.peers[1].deaf = false
	r.live(3*time.Second, 100*time.Millisecond, nothing)
	if res := r.result(3, from); res.GetReceipt() == nil {
		t.Fatalf("with everybody in reach: %v", res)
	}
}

// TestAWriteDoesNotUndoAMove: a leader that is to leave the cohort takes a task in, while a
// member of the next cohort stands for that. The write reaches both cohorts. It had the leader
// elected anew each time before, so that the other one could not win.
func TestAWriteDoesNotUndoAMove(t *testing.T) {
	for _, through := range []int{0, 1} { // the leader; who stands
		r := newCluster(t, 5, time.Minute)
		for _, o := range r.peers[1:] {
			r.set(o.self, register.Joining) // known to all
		}
		r.lead(0)
		cell := r.state().Cells[0]
		to := []register.Member{r.peers[1].self, r.peers[2].self, r.peers[3].self}
		r.say(0, 1, &message.Elect{Stand: []message.Stand{{Epoch: cell.Epoch, Nonce: cell.Nonce, To: to}}})
		hands := func() bool { return r.peers[1].core.elector.Hands[0] != nil }
		for len(r.post) > 0 && !hands() {
			r.deliver(0)
		}
		if !hands() || r.peers[0].core.acceptors.All[0].Promise <= cell.Epoch {
			t.Fatal("nothing is handed over, or the leader has not voted")
		}
		from := r.enqueue(through, r.at(0), nil)
		r.settleBut(func(l letter) bool {
			if _, asks := l.message.(*message.Ballots); asks && l.from == 0 {
				t.Errorf("through node %d: the leader before stands for the cohort before", through+1)
			}
			return false
		})
		if res := r.result(through, from); res.GetReceipt() == nil {
			t.Errorf("through node %d: the task is not acknowledged: %v", through+1, res)
		}
		if now := r.state().Cells[0]; !slices.Equal(now.Cohort, to) {
			t.Errorf("through node %d: the cohort is %v", through+1, now.Cohort)
		}
	}
}

// TestAZombieKeepsWhatItPromised: a node outside the cohort does not delete below
// its promise. It has the leader elected anew, above it, and may then.
func TestAZombieKeepsWhatItPromised(t *testing.T) {
	r := newCluster(t, 5, time.Second)
	r.set(r.peers[3].self, register.Joining) // else nobody compares with it
	task, cell := r.put(0, 0), r.state().Cells[0]
	facts, err := vnode.Facts(r.peers[0].store, 0, task)
	r.check(err)
	to := []register.Member{cell.Cohort[1], cell.Cohort[2], r.peers[3].self}
	r.say(1, 3, &message.Ballots{Ballots: []message.Ballot{{Epoch: 50, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: to, Transfer: true}}})
	r.say(0, 3, &message.Facts{Write: 1, Parts: []message.PartFacts{{Epoch: cell.Epoch, Facts: facts}}})
	asked := 0
	r.live(30*time.Second, 500*time.Millisecond, func(l letter) bool {
		_, ok := l.message.(*message.Elect)
		if ok && l.from == 3 {
			asked++
		}
		return ok
	})
	if vnode.Empty(r.peers[3].store, 0) || r.peers[3].core.acceptors.All[0].Promise != 50 {
		t.Fatal("it has deleted what it may have been counted for")
	}
	if asked == 0 || r.state().Cells[0].Epoch >= 50 {
		t.Fatalf("it asked %d times, and epoch %d is registered", asked, r.state().Cells[0].Epoch)
	}
	for range 60 {
		if r.live(500*time.Millisecond, 500*time.Millisecond, nothing); vnode.Empty(r.peers[3].store, 0) {
			break
		}
	}
	if epoch := r.state().Cells[0].Epoch; epoch <= 50 || !vnode.Empty(r.peers[3].store, 0) || r.peers[3].core.acceptors.All[0].Promise < 50 {
		t.Fatalf("epoch %d, empty: %v, promise %d", epoch, vnode.Empty(r.peers[3].store, 0), r.peers[3].core.acceptors.All[0].Promise)
	}
	r.leader(0)
	if n := r.copies(task); n != 3 {
		t.Fatalf("%d copies are left", n)
	}
}
