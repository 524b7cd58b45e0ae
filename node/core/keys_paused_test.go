package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// dieKeyed has a task with unique key k die, claimed at some node.
func (r *trio) dieKeyed(i int) id.ID {
	r.t.Helper()
	task := parse(r.t, r.takeKey(i).Receipt.Id)
	g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants
	if len(g) != 1 || g[0].Task.Id != task.String() {
		r.t.Fatalf("granted %v", g)
	}
	ask[*nornv1.WriteReply](r, i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g[0].Token, Error: "e", Discard: true}}})
	r.settle()
	return task
}

// pauseKeyed has the leader of a key's partition stand still while the others elect.
func (r *trio) pauseKeyed(task id.ID) (p ring.Partition, paused, next int) {
	r.t.Helper()
	p = ring.Of(task, testPartitions)
	paused = r.leader(p)
	r.peers[paused].down = true
	r.elect()
	r.agree()
	return p, paused, r.leader(p)
}

// TestAPausedLeaderRetriesNoTaskWhoseKeyIsTaken: a process stands still, and the others
// give the key of a dead task to another one. When the first one goes on it is asked to
// retry the dead task, before it hears of anything.
func TestAPausedLeaderRetriesNoTaskWhoseKeyIsTaken(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	dead := r.dieKeyed(0)
	p, paused, next := r.pauseKeyed(dead)
	second := parse(t, r.takeKey(next).Receipt.Id)
	r.settle()
	r.goesOn(paused, p)
	from := r.send(paused, &nornv1.RetryRequest{Ids: [][]byte{dead.Bytes()}})
	r.settle()
	r.tell()
	r.live(30*time.Second, time.Second, nothing)
	reply := r.peers[paused].replies[from]
	if e := refusedWith(reply.Message, reply.Err); e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("who leads no more answers %v", reply)
	}
	for n, o := range r.peers {
		if a, b := r.stateOf(n, dead), r.stateOf(n, second); a != nornv1.State_STATE_DEAD || b != nornv1.State_STATE_READY {
			t.Errorf("two tasks have one key: by %s they are %v and %v", o.self.Node, a, b)
		}
	}
}

// TestAPausedLeaderGivesNoKeyThatWasUsed: the same, and the others have given the key to
// another task that is completed by now. The first one is asked to enqueue another one.
func TestAPausedLeaderGivesNoKeyThatWasUsed(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	p, paused, next := r.pauseKeyed(r.dieKeyed(0))
	second := parse(t, r.takeKey(next).Receipt.Id)
	r.finish(next, "q")
	r.settle()
	r.goesOn(paused, p)
	from := r.send(paused, withKey("k", 0))
	r.settle()
	r.tell()
	r.live(10*time.Second, time.Second, nothing)
	if res := r.result(paused, from); res.GetReceipt() != nil && !res.Receipt.Existed && res.Receipt.Id == second.String() {
		t.Errorf("acknowledged as new, and done before it came: %v", res)
	}
	third := r.takeKey(paused)
	r.settle()
	if s := r.stateOf(next, parse(t, third.Receipt.Id)); third.Receipt.Existed || s != nornv1.State_STATE_READY {
		t.Errorf("the next one is %v: %v", s, third)
	}
}

// TestAPausedLeaderGivesNoKeyOfARetriedTask: the same, and the others have given the dead
// task a new run.
func TestAPausedLeaderGivesNoKeyOfARetriedTask(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	dead := r.dieKeyed(0)
	p, paused, next := r.pauseKeyed(dead)
	if e := r.retry(next, dead); e != nil {
		t.Fatal(e)
	}
	r.goesOn(paused, p)
	from := r.send(paused, withKey("k", 0))
	r.settle()
	r.tell()
	r.live(10*time.Second, time.Second, nothing)
	if res := r.result(paused, from); res.GetError() == nil {
		t.Errorf("task %s, retried, has the key, and another one took it: %v", dead, res)
	}
	if res := r.takeKey(next); !res.Receipt.Existed || res.Receipt.Id != dead.String() {
		t.Errorf("the key is taken by %s, and by %v", dead, res)
	}
}

// TestARetryThatComesLateGivesNoKeyBack: a leader retries a dead task while a majority
// still says that it leads. Then another one is elected, to whom nothing of that has come,
// and gives the key to another task; what the first one has written comes after that, in
// any order, once or twice, or when it starts again.
func TestARetryThatComesLateGivesNoKeyBack(t *testing.T) {
	for _, how := range []string{"late", "twice", "by repair", "after a restart"} {
		r := newRepairingTrio(t, 2*time.Second)
		r.lead(0)
		r.agree()
		dead := r.dieKeyed(0)
		p := ring.Of(dead, testPartitions)
		var late []letter
		r.send(0, &nornv1.RetryRequest{Ids: [][]byte{dead.Bytes()}})
		r.settleBut(func(l letter) bool {
			m, facts := l.message.(*message.Facts)
			if facts = facts && m.Write != 0; facts && how != "by repair" {
				late = append(late, l)
			}
			return facts
		})
		if s := r.peers[0].core.keys.State(dead); s != crdt.StateReady { // a read would tell the others
			t.Fatalf("%s: by who retries it, it is %v", how, s)
		}
		r.peers[0].down = true
		r.elect()
		next := r.leader(p)
		second := parse(t, r.takeKey(next).Receipt.Id)
		r.settle()
		if how == "after a restart" {
			r.kill(0)
			r.open(0)
		}
		r.peers[0].down = false
		if how == "twice" {
			late = append(late, late...)
		}
		r.post = append(r.post, late...)
		r.settle()
		r.tell()
		r.live(time.Minute, time.Second, nothing)
		for n, o := range r.peers {
			if a, b := r.stateOf(n, dead), r.stateOf(n, second); a != nornv1.State_STATE_DEAD || b != nornv1.State_STATE_READY {
				t.Errorf("%s: two tasks have one key: by %s they are %v and %v", how, o.self.Node, a, b)
			}
		}
		if d := r.differs(); d != "" {
			t.Error(d)
		}
		r.finish(r.leader(p), "q")
		if e := r.retry(r.leader(p), dead); e != nil {
			t.Errorf("%s: a retry, when the key is free again: %v", how, e)
		}
		r.settle()
		for n, o := range r.peers {
			if s := r.stateOf(n, dead); s != nornv1.State_STATE_READY {
				t.Errorf("%s: it is retried, and by %s it is %v", how, o.self.Node, s)
			}
		}
		r.audit()
	}
}

// TestARetryOfWhatDiedAgainElsewhere: a task was retried and has died again. A leader that
// has heard of its second death alone gives it another run.
func TestARetryOfWhatDiedAgainElsewhere(t *testing.T) {
	r := newTrio(t)
	task, i := r.put(1, 1), r.leader(1)
	die := func(token uint64, err string) {
		ask[*nornv1.WriteReply](r, i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: token, Error: err, Discard: true}}})
	}
	die(ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0].Token, "one")
	next := (i + 1) % 3
	from := r.send(i, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}})
	r.settleBut(func(l letter) bool { _, facts := l.message.(*message.Facts); return facts && l.to == next })
	if reply := r.peers[i].replies[from]; refusedWith(reply.Message, reply.Err) != nil {
		t.Fatal(refusedWith(reply.Message, reply.Err))
	}
	from = r.send(i, claimUpTo(1))
	r.settleBut(func(l letter) bool { return isFacts(l) && l.to == next }) // nor of what it refuses the claim for
	die(r.got(i, from)[0].Token, "two")
	r.settle()
	r.deposeBut(1, i, next, func(l letter) bool { _, repair := l.message.(*message.Repair); return repair }) // it has not heard of what it missed yet
	known, err := vnode.LoadTask(r.peers[next].store, 1, task)                                               // a read would ask the others
	r.check(err)
	if r.leader(1) != next || known.Outcome() != crdt.StateDead || known.Retries() != 0 {
		t.Fatalf("node %d leads, and it is %v after %d retries", r.leader(1), known.Outcome(), known.Retries())
	}
	if e := r.retry(next, task); e != nil {
		t.Fatal(e)
	}
	if s := r.stateOf(next, task); s != nornv1.State_STATE_READY {
		t.Errorf("it was retried, as acknowledged, and is %v", s)
	}
}

// TestAPausedLeaderRetriesNothingTwice: a task was retried by the next leader, and has died
// again, when the first one goes on and is asked to retry it.
func TestAPausedLeaderRetriesNothingTwice(t *testing.T) {
	r := newTrio(t)
	task, paused := r.put(1, 1), r.leader(1)
	die := func(i int) {
		t.Helper()
		g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants
		if len(g) != 1 {
			t.Fatalf("granted %v", g)
		}
		ask[*nornv1.WriteReply](r, i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g[0].Token, Error: "e", Discard: true}}})
		r.settle()
	}
	die(paused)
	r.peers[paused].down = true
	r.elect()
	next := r.leader(1)
	if e := r.retry(next, task); e != nil {
		t.Fatal(e)
	}
	die(next)
	r.goesOn(paused, 1)
	e := r.retry(paused, task)
	r.tell()
	r.live(5*time.Second, time.Second, nothing)
	if s := r.stateOf(next, task); e == nil && s != nornv1.State_STATE_READY {
		t.Errorf("its retry was acknowledged, and it is %v", s)
	}
	if e := r.retry(next, task); e != nil || r.stateOf(next, task) != nornv1.State_STATE_READY {
		t.Errorf("retried by who leads (%v) it is %v", e, r.stateOf(next, task))
	}
}

// TestARetryWaitsForAMajority: the question whether its leader still leads is lost, and
// asked again; when nobody answers it for two seconds nothing is retried.
func TestARetryWaitsForAMajority(t *testing.T) {
	r := newTrio(t)
	task, i := r.put(1, 1), r.leader(1)
	die := func() {
		t.Helper()
		g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants
		if len(g) != 1 {
			t.Fatalf("granted %v", g)
		}
		ask[*nornv1.WriteReply](r, i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g[0].Token, Error: "e", Discard: true}}})
		r.settle()
	}
	die()
	lost := func(l letter) bool { _, is := l.message.(*message.Claims); return is }
	m := &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}}
	from := r.send(i, m)
	r.settleBut(lost)
	if reply, is := r.peers[i].replies[from]; is || r.stateOf(i, task) != nornv1.State_STATE_DEAD {
		t.Fatalf("nobody was asked, and it is answered with %v", reply)
	}
	r.live(lease.AskAgain+200*time.Millisecond, 100*time.Millisecond, nothing)
	if reply, is := r.peers[i].replies[from]; !is || refusedWith(reply.Message, reply.Err) != nil || r.stateOf(i, task) != nornv1.State_STATE_READY {
		t.Fatalf("answered (%t) with %v", is, reply)
	}
	die()
	from = r.send(i, m)
	r.live(lease.Timeout+200*time.Millisecond, 100*time.Millisecond, lost)
	reply, is := r.peers[i].replies[from]
	if e := refusedWith(reply.Message, reply.Err); !is || e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || r.stateOf(i, task) != nornv1.State_STATE_DEAD {
		t.Errorf("nobody has answered: %v, and it is %v", reply, r.stateOf(i, task))
	}
	if s := &r.peers[i].core.replication.Confirms; len(s.Waits) > 0 {
		t.Errorf("%d requests wait still", len(s.Waits))
	}
}

// TestWhatBacksOffIsRetried: in a cluster that collects finished tasks, which this is none of.
func TestWhatBacksOffIsRetried(t *testing.T) {
	r := newTrio(t).collecting()
	r.elect()
	r.live(2*dependency.WatchFor, time.Second, nothing) // each leader knows what others need
	task, i := r.put(1, 1), r.leader(1)
	g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants
	f := &nornv1.Failure{Id: task.Bytes(), Token: g[0].Token, Error: "e", AtLeastSeconds: 3600}
	ask[*nornv1.WriteReply](r, i, &nornv1.FailRequest{Failures: []*nornv1.Failure{f}})
	if s := r.stateOf(i, task); s != nornv1.State_STATE_SCHEDULED {
		t.Fatalf("it is %v", s)
	}
	if e := r.retry(i, task); e != nil || r.stateOf(i, task) != nornv1.State_STATE_READY {
		t.Errorf("retried (%v) it is %v", e, r.stateOf(i, task))
	}
}

// TestALateRetryIsNotAcknowledged: a majority says that a leader still leads, and then
// elects another one, which gives the key of the task to another. What the first one has
// written meanwhile gets to the others after that, and nothing will come of it.
func TestALateRetryIsNotAcknowledged(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newTrio(t)
		r.lead(0)
		r.agree()
		dead := r.dieKeyed(0)
		p := ring.Of(dead, testPartitions)
		var late []letter
		keep := func(l letter) bool {
			m, facts := l.message.(*message.Facts)
			if facts = facts && m.Write != 0; facts {
				late = append(late, l)
			}
			return facts
		}
		m := &nornv1.RetryRequest{Ids: [][]byte{dead.Bytes()}}
		from := r.send(0, m)
		r.settleBut(keep)
		if again { // it has a new run already, as far as is known here
			from = r.send(0, m)
			r.settleBut(keep)
		}
		r.peers[0].down = true
		r.elect()
		second := parse(t, r.takeKey(r.leader(p)).Receipt.Id)
		r.settle()
		r.now = r.now.Add(time.Millisecond)
		r.goesOn(0, p)
		r.post = append(r.post, late...)
		r.settle()
		r.tell()
		r.live(10*time.Second, time.Second, nothing)
		reply, is := r.peers[0].replies[from]
		if !is {
			t.Fatal("no answer")
		}
		s, e := r.stateOf(1, dead), refusedWith(reply.Message, reply.Err)
		if s != nornv1.State_STATE_DEAD || r.stateOf(1, second) != nornv1.State_STATE_READY {
			t.Fatalf("they are %v and %v", s, r.stateOf(1, second))
		}
		if e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Effect != nornv1.Effect_EFFECT_UNKNOWN {
			t.Errorf("again: %t. It is %v, and its retry is answered with %v, %v", again, s, reply.Message, e)
		}
	}
}

// TestAPausedLeaderDoesNotSayWhatIsReady: a task is ready when its leader stands still, and
// dies with another one. The first one, asked for a retry, knows nothing of that, and those
// whom it asks whether it still leads do not answer.
func TestAPausedLeaderDoesNotSayWhatIsReady(t *testing.T) {
	r := newTrio(t)
	task, paused := r.put(1, 1), r.leader(1)
	r.peers[paused].down = true
	r.elect()
	next := r.leader(1)
	g := ask[*nornv1.ClaimReply](r, next, claimUpTo(1)).Grants
	ask[*nornv1.WriteReply](r, next, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g[0].Token, Error: "e", Discard: true}}})
	r.settle()
	r.goesOn(paused, 1)
	from := r.send(paused, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}})
	for range 30 { // nobody tells it of the next leader
		r.now = r.now.Add(100 * time.Millisecond)
		r.check(r.peers[paused].core.Step(r.clock(paused), message.Tick{}))
		r.turn(paused)
		r.settleBut(func(l letter) bool {
			_, facts := l.message.(*message.Facts)
			_, taken := l.message.(*message.FactsTaken)
			return !facts && !taken
		})
	}
	reply, is := r.peers[paused].replies[from]
	if e := refusedWith(reply.Message, reply.Err); !is || e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("by who leads it is %v; who does not know of that answers %v", r.stateOf(next, task), reply)
	}
}
