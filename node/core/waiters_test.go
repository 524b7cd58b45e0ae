package core

import (
	"math"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// TestARequestWaitsUntilItsDeadline, not for as long as it says: its client has given up then,
// and is granted nothing.
func TestARequestWaitsUntilItsDeadline(t *testing.T) {
	r := newRig(t)
	from := message.Origin{Conn: 1, Request: 4711}
	body := &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 60}
	r.step(&message.Request{From: from, Body: body, Received: r.now.Mono, Deadline: r.now.Mono + int64(time.Second)})
	r.turn()
	r.pass(time.Second)
	if reply, is := r.replies[from]; !is || len(reply.Message.(*nornv1.ClaimReply).Grants) > 0 {
		t.Errorf("answered %v: %v", is, reply)
	}
	task := r.enqueue(spec("q"))[0]
	r.want(task, "ready")
}

// TestWhoWaitsNoMoreTakesNoRoom: what it has taken is given back.
func TestWhoWaitsNoMoreTakesNoRoom(t *testing.T) {
	r := newRig(t)
	d := r.core.dispatch
	waits := func() message.Origin {
		from := r.send(1, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 60})
		r.turn()
		return from
	}
	from := waits()
	if d.Held().Bytes == 0 {
		t.Fatal("it takes nothing")
	}
	r.step(message.Cancel{From: from})
	if r.turn(); d.Held() != (dispatch.Held{}) || d.Due() < r.now.Mono+int64(time.Hour) || d.Waiting() != 0 {
		t.Errorf("left is %+v", d.Held())
	}
}

// TestARepeatedRequestGetsNoMoreThanItAsksFor: it was granted two, and asks for one this time.
func TestARepeatedRequestGetsNoMoreThanItAsksFor(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"), spec("q"))
	for most := uint32(2); most > 0; most-- {
		m := asking(7)
		m.MaxTasks = most
		if got := must[*nornv1.ClaimReply](r, m).Grants; len(got) != int(most) {
			t.Errorf("%d of %d", len(got), most)
		}
	}
}

// TestWhoIsGoneIsGrantedNothing: while its grant is on its way to a majority that it does not
// reach, or before it is tried again.
func TestWhoIsGoneIsGrantedNothing(t *testing.T) {
	for _, when := range []string{"postponed", "on its way"} {
		r := newTrio(t)
		task, i := r.put(0, 1), r.leader(1)
		var from message.Origin
		if when == "postponed" {
			from = r.postponed(i, waiting60(7))
		} else {
			from = r.send(i, waiting60(7))
		}
		r.check(r.peers[i].core.Step(r.now, message.Gone{Conn: from.Conn}))
		r.turn(i)
		if when == "on its way" {
			r.live(lease.Timeout+time.Second, 50*time.Millisecond, isClaims)
		}
		r.live(5*time.Second, 50*time.Millisecond, nothing)
		if got, _ := r.granted(i, from); len(got) > 0 {
			t.Errorf("%s: granted %v", when, got)
		}
		if s := r.stateOf((i+1)%3, task); s != nornv1.State_STATE_READY {
			t.Errorf("%s: the task is %v", when, s)
		}
	}
}

// TestWhoTakesNoClaims: a node that was removed, and one that is deleting the partition.
func TestWhoTakesNoClaims(t *testing.T) {
	for _, why := range []string{"", "removed", "deleting"} {
		r := newTrio(t)
		i := r.leader(1)
		j := (i + 1) % 3
		m := r.peers[j].core.transfer
		switch why {
		case "removed":
			m.View.Dismissed = true
		case "deleting":
			m.View.Dropping[1] = true
		}
		epoch := r.state().Cells[1].Epoch
		if got := r.claims(i, j, 1, epoch, heldFrom(r.at(1), epoch<<32|900, r.now.Wall)); got.No != (why != "") {
			t.Errorf("%q: %+v", why, got)
		}
	}
}

// TestWhatIsTakenBackIsOfALeaderBefore, and is ended by the one of now alone.
func TestWhatIsTakenBackIsOfALeaderBefore(t *testing.T) {
	r := newTrio(t)
	i, epoch := r.leader(1), r.state().Cells[1].Epoch
	j := (i + 1) % 3
	task := r.put(0, 1)
	old := heldFrom(task, (epoch-1)<<32|5, r.now.Wall)
	holds := func(at int) bool {
		return len(vnode.Unheld(r.peers[at].core.vnodes.See(1), lease.Releases([]message.GrantRef{{Partition: 1, Task: task, Token: old.Record.Token}}))) == 0
	}
	for _, at := range []int{i, j} {
		c := r.peers[at].core
		r.check(vnode.Absorb(c.vnodes.Use(1), c.round.Tx, []vnode.Held{old}, r.now))
		r.turn(at)
	}
	word := func(h vnode.Held) *message.ReclaimLease {
		return &message.ReclaimLease{Parts: []message.PartClaims{{Partition: 1, Epoch: epoch, Claims: vnode.AppendHeld(nil, []vnode.Held{h})}}}
	}
	released := old
	released.Released = true
	if r.say((i+2)%3, j, word(released)); !holds(j) {
		t.Error("who does not lead has ended it")
	}
	if r.say((i+2)%3, i, word(old)); !holds(i) {
		t.Error("it is ended though nobody has taken it back")
	}
	records := func() (n int) {
		for range r.peers[i].store.Scan(nil, nil) {
			n++
		}
		return n
	}
	foreign, n := released, records()
	foreign.Task = r.at(2)
	if r.say((i+2)%3, i, word(foreign)); records() != n {
		t.Error("something is noted of a task of another partition")
	}
	r.post = nil
	if r.say((i+2)%3, i, word(released)); holds(i) {
		t.Error("its leader has not ended it")
	}
	if r.settle(); holds(j) {
		t.Error("the others have not heard of it")
	}
}

// TestRoundsOfAnotherLifeMatchNothing: answers to claims may be of the process before.
func TestRoundsOfAnotherLifeMatchNothing(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	number := func() (n uint64) {
		r.put(i, 1)
		r.send(i, claimUpTo(1))
		r.settleBut(func(l letter) bool {
			if m, is := l.message.(*message.Claims); is {
				n = m.Round
			}
			return false
		})
		return n
	}
	before := number()
	r.kill(i)
	r.open(i)
	r.leadOf(1, i)
	after := number()
	if apart := int64(after - before); apart > -1000 && apart < 1000 {
		t.Errorf("round %d, and round %d in the next life", before, after)
	}
}

// TestWhoWinsTooLateDoesNotLead: the cell is another one by now, or more was promised.
func TestWhoWinsTooLateDoesNotLead(t *testing.T) {
	r := newTrio(t)
	c := r.peers[(r.leader(1)+1)%3].core
	v := victory(1, c.view.Cells[1].Epoch+1)
	if c.elector.Lead(r.now, v); c.vnodes.See(1).Leading() != 0 {
		t.Error("it leads in an epoch that is not registered")
	}
	v = victory(1, c.view.Cells[1].Epoch)
	c.acceptors.All[1].Promise = v.Cell.Epoch + 1
	if c.elector.Lead(r.now, v); c.vnodes.See(1).Leading() != 0 {
		t.Error("it leads, and has promised more")
	}
}

// TestACopyThatWaitsIsAnswered: a request was granted a task that was cancelled before others had
// heard of the grant, and came again meanwhile. The two together wait as one, and each has an answer.
func TestACopyThatWaitsIsAnswered(t *testing.T) {
	r := newTrio(t)
	task, i := r.put(0, 1), r.leader(1)
	first := r.send(i, waiting60(7))
	r.send(i, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	again := message.Origin{Conn: 2, Request: 1}
	r.check(r.peers[i].core.Step(r.now, &message.Request{From: again, Body: waiting60(7), Received: r.now.Mono}))
	r.turn(i)
	if n := r.peers[i].core.dispatch.Waiting(); n != 1 {
		t.Fatalf("%d requests wait", n)
	}
	r.settle()
	next := r.put(0, 1)
	r.live(3*time.Second, 50*time.Millisecond, nothing)
	answers, granted := 0, 0
	for _, from := range []message.Origin{first, again} {
		if _, is := r.peers[i].replies[from]; is {
			answers++
		}
		got, _ := r.granted(i, from)
		granted += len(got)
	}
	if answers != 2 || granted != 1 {
		t.Errorf("%d answers, and task %s is granted %d times", answers, next, granted)
	}
}

// TestTheTokensOfAnEpochRunOut: there is another epoch then, and the request is granted its task.
func TestTheTokensOfAnEpochRunOut(t *testing.T) {
	r := newTrio(t)
	task, i := r.put(0, 1), r.leader(1)
	c := r.peers[i].core
	epoch := c.vnodes.See(1).Leading()
	last := heldFrom(r.at(1), epoch<<32|math.MaxUint32, r.now.Wall)
	r.check(vnode.Learn(c.vnodes.Use(1), c.round.Tx, last.Task, vnode.Blocker{Record: last.Record, Left: leaseTime}, r.now))
	r.turn(i)
	from := r.send(i, waiting60(7))
	r.live(5*time.Second, 50*time.Millisecond, nothing)
	if got, _ := r.granted(i, from); len(got) != 1 || got[0].Token>>32 <= epoch || got[0].Task.Id != task.String() {
		t.Errorf("after epoch %d it is granted %v", epoch, got)
	}
}

// TestWhoWaitsKeepsItsPlace: every now and then one of those who wait is sent to another node,
// should news have been lost, and comes back with nothing. It was there first all the same.
func TestWhoWaitsKeepsItsPlace(t *testing.T) {
	for _, waited := range []time.Duration{0, 700 * time.Millisecond, 1200 * time.Millisecond, 1700 * time.Millisecond, 2200 * time.Millisecond} {
		r := newTrio(t).spread()
		var all []message.Origin
		for number := range uint64(3) {
			all = append(all, r.send(1, waiting60(7+number)))
			r.settle()
		}
		r.live(waited, 50*time.Millisecond, nothing)
		for n, from := range all {
			r.put(1, 1) // led there
			if grants, _ := r.granted(1, from); len(grants) != 1 {
				t.Errorf("after %v: task %d is not for the request that came as number %d", waited, n+1, n+1)
			}
		}
	}
}
