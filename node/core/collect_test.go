package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func newCollecting(t *testing.T) *rig {
	r := newRig(t)
	r.collect = time.Minute
	r.crash(0) // the interval is read at the start
	return r
}

func (r *rig) total() uint64 {
	r.t.Helper()
	return must[*nornv1.CountReply](r, &nornv1.CountRequest{}).Total.Total
}

func TestFinishedTasksGoAfterTheirRetention(t *testing.T) {
	r := newCollecting(t)
	r.enqueue(spec("a"), spec("a"), spec("d"), spec("k"), spec("live"))
	r.set("k", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_KEEP}, "retention")
	done := r.finish("a")
	cancelled := r.claim("a", 1)[0].Task.Id
	gone, _ := id.Parse(cancelled)
	r.cancel(gone)
	dead, kept := r.die("d"), r.finish("k")
	r.pass(50 * time.Minute)
	if n := r.total(); n != 5 {
		t.Fatalf("%d tasks before the retention is over", n)
	}
	r.pass(15 * time.Minute)
	if n := r.total(); n != 3 {
		t.Fatalf("%d tasks left, want the dead, the kept and the live one", n)
	}
	r.audit()
	r.want(done, "completed") // the tombstone knows
	r.want(gone, "cancelled")
	r.want(dead, "dead")
	r.want(kept, "completed")
	// What a client has seen of it is over, and no reason to ask on and on.
	later := &nornv1.Consistency{AtLeast: true, AtLeastToken: 1 << 32, AtLeastSeq: 3}
	if got := must[*nornv1.GetReply](r, &nornv1.GetRequest{Id: done.Bytes(), Consistency: later}).Task; got.State != nornv1.State_STATE_COMPLETED {
		t.Fatalf("after an update of it: %v", got)
	}
	// Nothing collected comes back (K8).
	again := spec("a")
	again.Id = done.Bytes()
	if res := r.tryEnqueue(again); res.Error != nil || !res.Receipt.Existed {
		t.Fatalf("a repeated send of a collected task: %v", res)
	}
	late := must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: done.Bytes(), Token: 1 << 32, Data: []byte("late")}).Results[0]
	for _, res := range []*nornv1.WriteResult{late, r.complete(gone, 1<<32)} { // what is not kept is not acknowledged (track record, simulator B5)
		if res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST {
			t.Fatalf("a late fact of a collected task: %v", res)
		}
	}
	if res := r.complete(done, 1<<32); res.Error != nil || !res.Receipt.Existed {
		t.Fatalf("a repeated completion of a collected task: %v", res)
	}
	if e := must[*nornv1.ExplainReply](r, &nornv1.ExplainRequest{Id: gone.Bytes()}); e.State != nornv1.State_STATE_CANCELLED || len(e.Reasons) != 1 {
		t.Fatalf("a collected task is explained as %v", e)
	}
	r.crash(time.Second)
	r.audit()
	if n := r.total(); n != 3 {
		t.Fatalf("%d tasks after late facts of collected ones", n)
	}
	// What depends on it is let go by the tombstone.
	r.want(r.enqueue(after("b", onFailCancel, done))[0], "ready")
	r.pass(8 * 24 * time.Hour)
	if reply := r.ask(&nornv1.GetRequest{Id: done.Bytes()}); reply.Err == nil {
		t.Fatal("the tombstone never goes")
	}
	if res := r.tryEnqueue(again); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW {
		t.Fatalf("below the horizon: %v", res)
	}
	r.audit()
}

func TestWhatAnUnfinishedTaskDependsOnStays(t *testing.T) {
	r := newCollecting(t)
	dep := r.enqueue(spec("a"))[0]
	task := r.enqueue(after("b", onFailCancel, dep))[0]
	r.finish("a")
	r.pass(2 * time.Hour)
	if got := r.get(dep); got.Queue != "a" {
		t.Fatal("a task was collected although another one that depends on it is not finished")
	}
	if r.finish("b") != task {
		t.Fatal("another task was handed out")
	}
	r.pass(2 * time.Hour)
	if n := r.total(); n != 0 {
		t.Fatalf("%d tasks left", n)
	}
	r.audit()
}

// TestWhatIsCollectedDependsOnNothing: the retention of tasks is over before all of the
// many edges have gone that they had, as after a node was down for that long in the middle
// of it. What they depended on goes as well.
func TestWhatIsCollectedDependsOnNothing(t *testing.T) {
	r := newCollecting(t)
	var needed, tasks []id.ID
	for range 300 {
		needed = append(needed, r.enqueue(spec("a"))...)
	}
	for range 20 {
		tasks = append(tasks, r.enqueue(after("b", onFailCancel, needed...))...)
	}
	var raw [][]byte
	for _, task := range tasks {
		raw = append(raw, task.Bytes())
	}
	r.send(1, &nornv1.CancelRequest{Ids: raw})
	ready, err := r.core.Ready(r.now) // one round of the loop
	if err != nil || ready.Persist == nil {
		t.Fatal(err)
	}
	r.store.Apply(ready.Persist)
	r.core.Recycle(ready.Persist)
	r.now = r.now.Add(2 * time.Hour)
	r.step(message.Tick{})
	r.turn()
	r.pass(time.Hour)
	r.audit()
	r.cancel(needed...)
	r.pass(2 * time.Hour)
	if n := r.total(); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	r.audit()
}

func TestNothingIsDeletedBeforeItIsArchived(t *testing.T) {
	r := newCollecting(t)
	r.broken = true
	r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 60}, "retention", "retention_seconds")
	r.enqueue(spec("a"))
	done := r.finish("a")
	r.pass(time.Hour)
	if r.total() != 1 || len(r.archives) != 0 {
		t.Fatal("a task was deleted although it could not be archived")
	}
	r.broken = false
	r.pass(5 * time.Minute)
	if r.total() != 0 || len(r.archives) != 1 || r.archives[0].Id != done.String() || len(r.archives[0].Claims) != 1 {
		t.Fatalf("%d tasks left, archived %v", r.total(), r.archives)
	}
	r.audit()
}

func TestACollectedKeyNeverGetsItsIDAgain(t *testing.T) {
	r := newCollecting(t)
	first := r.tryEnqueue(keyed("q", "k", 0)).Receipt.Id
	r.finish("q")
	r.pass(2 * time.Hour)
	if r.total() != 0 {
		t.Fatal("not collected")
	}
	second := r.tryEnqueue(keyed("q", "k", 0))
	if second.Error != nil || second.Receipt.Existed || second.Receipt.Id == first {
		t.Fatalf("after the task was collected: %v", second)
	}
	r.finish("q")
	r.pass(9 * 24 * time.Hour)
	third := r.tryEnqueue(keyed("q", "k", 0))
	if third.Error != nil || third.Receipt.Existed {
		t.Fatalf("after its tombstone went: %v", third)
	}
	r.audit()
}

func TestAWindowStaysTakenAfterItsTaskWasCollected(t *testing.T) {
	r := newCollecting(t)
	const window = 30 * 24 * time.Hour
	first := r.tryEnqueue(keyed("q", "k", window))
	r.finish("q")
	start := r.key("q", "k", window)
	for range 5 {
		r.pass(4 * 24 * time.Hour)
		if now := r.key("q", "k", window); string(now.Id) != string(start.Id) {
			return // the next window has begun
		}
		if res := r.tryEnqueue(keyed("q", "k", window)); res.Error != nil || !res.Receipt.Existed || res.Receipt.Id != first.Receipt.Id {
			t.Fatalf("taken twice in one window: %v", res)
		}
	}
}
