package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// take enqueues a task with unique key k.
func (r *trio) takeKey(i int) *nornv1.EnqueueResult {
	r.t.Helper()
	res := ask[*nornv1.EnqueueReply](r, i, withKey("k", 0)).Results[0]
	for range 40 { // a new leader asks the others first
		if res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			break
		}
		r.live(50*time.Millisecond, 10*time.Millisecond, nothing)
		res = ask[*nornv1.EnqueueReply](r, i, withKey("k", 0)).Results[0]
	}
	if res.Error != nil {
		r.t.Fatal(res.Error)
	}
	return res
}

// TestARetriedTaskHasItsKeyWithAnotherLeader: an older task of a key, dead, is
// retried after a younger one of the same key was completed. It holds the key, whoever leads.
func TestARetriedTaskHasItsKeyWithAnotherLeader(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	first := r.takeKey(0)
	task := parse(t, first.Receipt.Id)
	g := ask[*nornv1.ClaimReply](r, 0, claimUpTo(1)).Grants[0]
	ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
	if r.takeKey(0).Receipt.Id == first.Receipt.Id {
		t.Fatal("the key of a dead task is not free")
	}
	r.finish(0, "q")
	if res := ask[*nornv1.WriteReply](r, 0, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}}).Results[0]; res.Error != nil {
		t.Fatal(res.Error)
	}
	r.settle()
	if res := r.takeKey(0); !res.Receipt.Existed || res.Receipt.Id != first.Receipt.Id {
		t.Fatalf("the leader that has retried it: %v", res)
	}
	r.lead(1)
	if s := r.stateOf(1, task); s != nornv1.State_STATE_READY {
		t.Fatalf("it is %v", s)
	}
	if res := r.takeKey(1); !res.Receipt.Existed || res.Receipt.Id != first.Receipt.Id {
		t.Fatalf("the key is taken twice: by %s, which is ready, and by %v", task, res.Receipt)
	}
}

// TestANewcomerKnowsAKeyThatWasUsedOften: a newcomer leads a partition in which
// a task holds a unique key that has been used more than learnGenerations times.
func TestANewcomerKnowsAKeyThatWasUsedOften(t *testing.T) {
	for _, uses := range []int{3, 1000, 1100} {
		r := newGrowing(t).collecting()
		r.settle()
		for p := range ring.Partition(testPartitions) { // something to copy
			r.add(0, r.in(p), spec("z"))
		}
		for range uses {
			r.takeKey(0)
			r.finish(0, "q")
		}
		holder := r.takeKey(0)
		r.linger(2 * shortGrace) // the others are collected and forgotten
		if stones, live := r.peers[0].have(); stones > 0 || live != testPartitions+1 {
			t.Fatalf("%d tombstones and %d tasks are left", stones, live)
		}
		r.join()
		r.join()
		r.run(3)
		r.lead(1)
		if res := r.takeKey(1); !res.Receipt.Existed || res.Receipt.Id != holder.Receipt.Id {
			t.Errorf("after %d uses the key is taken twice: by %s (%v), and by %v", uses, holder.Receipt.Id, r.stateOf(1, parse(t, holder.Receipt.Id)), res.Receipt)
		}
	}
}

// TestANewcomerBeginsAKeyAnew: a newcomer has no record of a key that nobody
// holds, and begins at a forgotten ID; the other members go on after the last one.
func TestANewcomerBeginsAKeyAnew(t *testing.T) {
	r := newGrowing(t).collecting()
	r.settle()
	for p := range ring.Partition(testPartitions) { // something to copy
		r.add(0, r.in(p), spec("z"))
	}
	r.takeKey(0)
	r.finish(0, "q")
	r.linger(shortGrace / 2)
	r.takeKey(0)
	r.finish(0, "q")
	r.linger(shortGrace/2 + 40*time.Second) // the first one is forgotten, the second not
	if stones, live := r.peers[0].have(); stones != 1 || live != testPartitions {
		t.Fatalf("%d tombstones and %d tasks are left", stones, live)
	}
	r.join()
	r.join()
	r.run(3)
	r.lead(1)
	holder := r.takeKey(1)
	r.settle()
	r.lead(0)
	if res := r.takeKey(0); !res.Receipt.Existed || res.Receipt.Id != holder.Receipt.Id {
		t.Errorf("the key is taken twice: by %s (%v), and by %v", holder.Receipt.Id, r.stateOf(1, parse(t, holder.Receipt.Id)), res.Receipt)
	}
}

// TestADeadTaskWithAKeyIsRetriedLater
func TestADeadTaskWithAKeyIsRetriedLater(t *testing.T) {
	r := newCollecting(t)
	r.tryEnqueue(keyed("q", "k", 0))
	r.finish("q")
	r.pass(30 * time.Minute)
	r.tryEnqueue(keyed("q", "k", 0))
	task := r.die("q")
	r.pass(9 * 24 * time.Hour)
	if res := r.retry(task)[0]; res.Error != nil {
		t.Errorf("the newest task of the key, which is dead, is not retried: %v", res.Error)
	}
}

// TestAnOlderDeadTaskIsRetriedWhenItsKeyIsForgotten: the tasks before it and after it are
// forgotten, and the key with them. A dead task stays for as long as nobody retries it.
func TestAnOlderDeadTaskIsRetriedWhenItsKeyIsForgotten(t *testing.T) {
	r := newCollecting(t)
	first := parse(t, r.tryEnqueue(keyed("q", "k", 0)).Receipt.Id)
	r.finish("q")
	r.tryEnqueue(keyed("q", "k", 0))
	task := r.die("q")
	r.tryEnqueue(keyed("q", "k", 0))
	r.finish("q")
	r.pass(9 * 24 * time.Hour)
	if _, known := vnode.KeyTask(r.core.round.Tx, ring.Of(first, testPartitions), first); known {
		t.Fatal("the key is remembered")
	}
	if res := r.retry(task)[0]; res.Error != nil {
		t.Fatalf("a dead task of the key is not retried: %v", res.Error)
	}
	r.want(task, "ready")
	if res := r.tryEnqueue(keyed("q", "k", 0)); !res.GetReceipt().GetExisted() || parse(t, res.Receipt.Id) != task {
		t.Errorf("the key is taken twice: %v", res)
	}
	r.audit()
}

// TestAnOlderDeadTaskHasItsKeyWithAnotherLeader when it is retried after that.
func TestAnOlderDeadTaskHasItsKeyWithAnotherLeader(t *testing.T) {
	r := newTrio(t).collecting()
	r.settle()
	r.lead(0)
	r.takeKey(0)
	r.finish(0, "q")
	task := r.dieKeyed(0)
	r.takeKey(0)
	r.finish(0, "q")
	r.linger(3 * shortGrace)
	if e := r.retry(0, task); e != nil {
		t.Fatal(e)
	}
	r.settle()
	for _, i := range []int{0, 1} {
		r.lead(i)
		if res := r.takeKey(i); !res.Receipt.Existed || parse(t, res.Receipt.Id) != task {
			t.Errorf("node %d leads, and the key is taken twice: by %s, which is %v, and by %v", i, task, r.stateOf(i, task), res.Receipt)
		}
	}
}

// TestCompletionOfATaskThatIsNotKnownHere: a worker's node dies, and the next one was
// away while the task was enqueued and claimed. It takes completions of tasks of today;
// the one of a task with a unique key, whose ID has no time, was refused for good, and so
// was that of a task that had waited for longer than gc_grace.
func TestCompletionOfATaskThatIsNotKnownHere(t *testing.T) {
	for _, what := range []string{"of today", "with a key", "scheduled long ago"} {
		r := newTrio(t)
		r.kill(2)
		r.elect()
		r.agree()
		s := spec("q")
		if what == "with a key" {
			s.Key = "k"
		}
		res := ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
		if res.Error != nil {
			t.Fatal(res.Error)
		}
		task, err := id.Parse(res.Receipt.Id)
		r.check(err)
		if what == "scheduled long ago" {
			r.now = r.now.Add(8 * 24 * time.Hour)
			r.elect()
		}
		g := ask[*nornv1.ClaimReply](r, 0, claimUpTo(1)).Grants
		if len(g) != 1 {
			t.Fatal(g)
		}
		r.kill(0)
		r.open(2)
		r.tell()
		var last *nornv1.Error
		for range 20 { // as a client does
			from := r.send(2, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: g[0].Token, AutoSeq: true}}})
			r.live(time.Second, 50*time.Millisecond, nothing)
			reply := r.peers[2].replies[from]
			if reply.Err != nil {
				last = reply.Err.Proto()
			} else {
				last = reply.Message.(*nornv1.WriteReply).Results[0].Error
			}
			if last.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
				break
			}
		}
		if last != nil {
			t.Errorf("%s: the completion is answered with %v", what, last)
		}
		r.elect()
		r.live(2*leaseTime, time.Second, nothing)
		if s := r.stateOf(1, task); s != nornv1.State_STATE_COMPLETED {
			t.Errorf("%s: the task is %v", what, s)
		}
	}
}

// TestALeaderThatHasNotHeardOfAKeysTask: a task with a key was enqueued and completed
// on a majority; then one that has heard of neither leads. The next task of the key is done.
func TestALeaderThatHasNotHeardOfAKeysTask(t *testing.T) {
	r := newRepairingTrio(t, 30*time.Second)
	r.lead(0)
	r.cut[[2]int{0, 1}], r.cut[[2]int{2, 1}] = true, true
	first := r.takeKey(0)
	r.finish(0, "q")
	r.settle()
	clear(r.cut)
	r.lead(1)
	second := r.takeKey(1)
	r.settle()
	t.Log(first.Receipt, second.Receipt)
	r.live(2*time.Minute, time.Second, nothing)
	if s := r.stateOf(1, parse(t, second.Receipt.Id)); s != nornv1.State_STATE_READY || second.Receipt.Existed {
		t.Errorf("the second task of the key (existed: %v) is %v before anybody has claimed it", second.Receipt.Existed, s)
	}
}

// TestALeaderThatHasNotHeardOfAKeysTaskRetriesNone: the key of a dead task has been given
// to another one, on a majority, of which the next leader has not heard yet. It was compared
// with the others before, in the first seconds of its process.
func TestALeaderThatHasNotHeardOfAKeysTaskRetriesNone(t *testing.T) {
	r := newRepairingTrio(t, 30*time.Second)
	r.lead(0)
	r.agree()
	dead := r.dieKeyed(0)
	r.cut[[2]int{0, 1}], r.cut[[2]int{2, 1}] = true, true
	second := parse(t, r.takeKey(0).Receipt.Id)
	r.settle()
	clear(r.cut)
	r.now = r.now.Add(time.Second)
	r.lead(1)
	if e := r.retry(1, dead); e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("before it has heard of the other one: %v", e)
	}
	r.live(time.Minute, time.Second, nothing)
	if e := r.retry(1, dead); e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Errorf("when it has: %v", e)
	}
	for n := range r.peers {
		if a, b := r.stateOf(n, dead), r.stateOf(n, second); a != nornv1.State_STATE_DEAD || b != nornv1.State_STATE_READY {
			t.Errorf("two tasks have one key: by node %d they are %v and %v", n, a, b)
		}
	}
	r.finish(1, "q")
	if e := r.retry(1, dead); e != nil {
		t.Errorf("when the key is free: %v", e)
	}
}

// TestAComparisonBeforeItLedIsNotEnough: a node is compared with the others in the first
// seconds of its process, and leads some seconds later. It has not heard of what has been
// acknowledged in between, and gives no key.
func TestAComparisonBeforeItLedIsNotEnough(t *testing.T) {
	r := newRepairingTrio(t, 30*time.Second)
	r.lead(0)
	r.agree()
	r.cut[[2]int{0, 1}], r.cut[[2]int{2, 1}] = true, true
	r.takeKey(0)
	r.finish(0, "q")
	r.settle()
	clear(r.cut)
	r.now = r.now.Add(time.Second)
	r.lead(1)
	second := r.takeKey(1)
	r.settle()
	r.live(2*time.Minute, time.Second, nothing)
	if s := r.stateOf(1, parse(t, second.Receipt.Id)); s != nornv1.State_STATE_READY || second.Receipt.Existed {
		t.Errorf("the second task of the key (existed: %v) is %v before anybody has claimed it", second.Receipt.Existed, s)
	}
}
