package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestAPausedLeaderExpiresNoClaim: a process stands still for longer than a lease, while
// the others elect and the worker renews its claim with the next leader. When it goes on,
// the first thing that it sees is that the claim has lapsed, as far as it knows (track
// record).
func TestAPausedLeaderExpiresNoClaim(t *testing.T) {
	r := newTrio(t)
	r.beside = func(c *Config) { c.Retry.MaxAttempts = 1 }
	r.collecting().elect()
	task, i := r.put(1, 1), r.leader(1)
	ask := r.send(i, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(i, ask)
	r.peers[i].down = true
	r.elect()
	next := r.leader(1)
	renew := func() {
		t.Helper()
		if res := r.renew(next, task, grants[0].Token); res.Error != nil {
			t.Fatalf("after %v: %v", time.Duration(r.now.Mono), res.Error)
		}
	}
	for range 20 {
		renew()
		r.live(leaseTime/4, time.Second, nothing)
	}
	r.goesOn(i, 1)
	for range 10 {
		r.pass(100 * time.Millisecond)
	}
	r.tell()
	for range 10 {
		renew()
		r.live(leaseTime/4, time.Second, nothing)
	}
	for n, p := range r.peers {
		if s := r.stateOf(n, task); s != nornv1.State_STATE_CLAIMED {
			t.Errorf("its worker has renewed the claim all the time, and by %s it is %v", p.self.Node, s)
		}
	}
}

// TestAPausedLeaderCallsNoClaimLost: as above, and the first one is asked when it goes on,
// before it has heard that others have elected.
func TestAPausedLeaderCallsNoClaimLost(t *testing.T) {
	r := newTrio(t)
	r.collecting().elect()
	task, i := r.put(1, 1), r.leader(1)
	ask := r.send(i, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(i, ask)
	token := grants[0].Token
	r.peers[i].down = true
	r.elect()
	next := r.leader(1)
	for range 20 {
		if res := r.renew(next, task, token); res.Error != nil {
			t.Fatalf("after %v: %v", time.Duration(r.now.Mono), res.Error)
		}
		r.live(leaseTime/4, time.Second, nothing)
	}
	r.goesOn(i, 1)
	if res := r.renew(i, task, token); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("a renewal through it: %v", res.Error)
	}
}

// TestAPausedLeaderCancelsNothing: a process stands still, while the others elect, the
// next leader gives a dead task a new run, and a task comes that depends on it. When the
// first one goes on it hears of that task before it hears of anything else (track record).
func TestAPausedLeaderCancelsNothing(t *testing.T) {
	r := newTrio(t)
	dead, i := r.put(1, 1), r.leader(1)
	ask := r.send(i, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(i, ask)
	r.send(i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dead.Bytes(), Token: grants[0].Token, Discard: true}}})
	r.settle()
	r.peers[i].down = true
	r.elect()
	next := r.leader(1)
	if e := r.retry(next, dead); e != nil {
		t.Fatal(e)
	}
	task, s := r.at(1), after("q", onFailCancel, dead)
	s.Id = task.Bytes()
	r.send(next, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	var late *letter
	for k := range r.post {
		if _, facts := r.post[k].message.(*message.Facts); facts && r.post[k].to == i {
			late = &letter{next, i, r.post[k].message}
		}
	}
	r.settle()
	if late == nil {
		t.Fatal("it is not told of the task")
	}
	r.goesOn(i, 1)
	r.post = append(r.post, *late)
	r.settle()
	r.tell()
	r.live(10*time.Second, time.Second, nothing)
	for n, p := range r.peers {
		if s := r.stateOf(n, task); s != nornv1.State_STATE_WAITING {
			t.Errorf("what it depends on has been retried, and by %s it is %v", p.self.Node, s)
		}
	}
}

// TestALateDeathCancelsNothing: the leader of a task hears late that one that it depends
// on has died, and not yet that it had a new run by then. It came after that.
func TestALateDeathCancelsNothing(t *testing.T) {
	const other, own = ring.Partition(1), ring.Partition(2)
	r := newTrio(t)
	r.leadOf(other, 1)
	r.leadOf(own, 0)
	dead := r.put(1, other)
	ask := r.send(1, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(1, ask)
	var late []letter
	hold := func(l letter) bool {
		_, facts := l.message.(*message.Facts)
		if facts = facts && l.to == 0; facts {
			late = append(late, l)
		}
		return facts
	}
	r.send(1, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dead.Bytes(), Token: grants[0].Token, Discard: true}}})
	r.settleBut(hold)
	from := r.send(1, &nornv1.RetryRequest{Ids: [][]byte{dead.Bytes()}})
	r.settleBut(hold)
	if reply := r.peers[1].replies[from]; refusedWith(reply.Message, reply.Err) != nil || len(late) < 2 {
		t.Fatal(refusedWith(reply.Message, reply.Err))
	}
	task, s := r.at(own), after("q", onFailCancel, dead)
	s.Id = task.Bytes()
	r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	for _, l := range late {
		r.post = append(r.post, l)
		r.settle()
	}
	for n, p := range r.peers {
		if s := r.stateOf(n, task); s != nornv1.State_STATE_WAITING {
			t.Errorf("what it depends on has been retried, and by %s it is %v", p.self.Node, s)
		}
	}
}

// goesOn has a leader go on that stood still, and does not know yet that it leads no more.
func (r *trio) goesOn(i int, p ring.Partition) {
	r.t.Helper()
	r.peers[i].down = false
	if r.peers[i].core.vnodes.See(p).Leading() == 0 {
		r.t.Fatal("it knows already that it leads no more")
	}
}
