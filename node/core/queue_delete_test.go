package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/queues"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// names are the queues that a list shows.
func (r *rig) names() (all []string) {
	r.t.Helper()
	for _, q := range must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{}).Queues {
		all = append(all, q.Name)
	}
	return all
}

func (r *rig) deletes(queue string) *nornv1.Queue {
	r.t.Helper()
	return must[*nornv1.QueuesReply](r, &nornv1.SetQueueRequest{Name: queue, Delete: true}).Queues[0]
}

// TestDeleteAQueue: its settings, its finished tasks and its name go, also after a restart.
func TestDeleteAQueue(t *testing.T) {
	r := newCollecting(t)
	keep := r.enqueue(spec("other"))[0]
	r.set("q", &nornv1.QueueSettings{Paused: true, MaxTasks: 3}, "paused", "max_tasks")
	tasks := r.enqueue(spec("q"), spec("q"), spec("q"))
	e := r.ask(&nornv1.SetQueueRequest{Name: "q", Delete: true}).Err
	if e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT || !strings.Contains(e.Message, "3 tasks that are not finished") || !strings.Contains(e.Message, "norn queue purge q") {
		t.Fatalf("with unfinished tasks: %v", e)
	}
	r.set("q", &nornv1.QueueSettings{}, "paused")
	done, dead := r.finish("q"), r.die("q")
	for _, task := range tasks {
		if task != done && task != dead {
			r.cancel(task)
		}
	}
	r.pass(time.Millisecond)
	if got := r.deletes("q"); got.Settings.GetMaxTasks() != 0 || got.Settings.GetDeleted() == nil {
		t.Fatalf("deleted it is %v", got)
	}
	for range 2 {
		if names := r.names(); len(names) != 1 || names[0] != "other" {
			t.Fatalf("queues: %v", names)
		}
		if e := r.ask(&nornv1.SetQueueRequest{Name: "q", Delete: true}).Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			t.Fatalf("deleted again: %v", e)
		}
		r.crash(time.Second)
		r.turn()
	}
	r.pass(3 * time.Minute)
	if n := r.total(); n != 1 {
		t.Errorf("%d tasks left, long before their retention is over; want that of the other queue", n)
	}
	r.want(dead, "dead") // the tombstone knows
	r.want(keep, "ready")
	r.audit()
	// What comes later is a new queue's: it is listed, and its tasks stay.
	r.enqueue(spec("q"))
	r.finish("q")
	r.pass(30 * time.Minute)
	if names := r.names(); len(names) != 2 || r.total() != 2 {
		t.Errorf("used again: queues %v, %d tasks", names, r.total())
	}
}

// TestADeletedQueueLeavesTheRegister: at once where it has no tasks, else when nobody can
// bring them back.
func TestADeletedQueueLeavesTheRegister(t *testing.T) {
	r := newCollecting(t)
	r.set("empty", &nornv1.QueueSettings{Paused: true}, "paused")
	r.deletes("empty")
	if s := r.registered(); len(s.Queues) != 0 || r.core.queues.Settings("empty") != nil {
		t.Fatalf("left is %v", s.Queues)
	}
	r.enqueue(spec("q"))
	r.finish("q")
	r.deletes("q")
	r.set("live", &nornv1.QueueSettings{Paused: true}, "paused")
	if s := r.registered(); len(s.Queues) != 2 {
		t.Fatalf("%v", s.Queues)
	}
	r.pass(r.core.cfg.GCGrace + 10*time.Second)
	r.set("live", &nornv1.QueueSettings{Draining: true}, "draining")
	if s := r.registered(); len(s.Queues) != 1 || r.core.queues.Settings("q") != nil {
		t.Errorf("left is %v", s.Queues)
	}
}

// TestWhatDeletesChangesNothingElse: and nobody but the server says when that was.
func TestWhatDeletesChangesNothingElse(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	for _, m := range []*nornv1.SetQueueRequest{
		{Name: "q", Delete: true, Fields: []string{"paused"}, Settings: &nornv1.QueueSettings{Paused: true}},
		{Name: "q", Delete: true, Settings: &nornv1.QueueSettings{}},
		{Name: "q", Fields: []string{"deleted"}},
		{Name: "q", Fields: []string{"deleted.seconds"}},
		{Name: "-", Delete: true},
	} {
		if e := r.ask(m).Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%v: %v", m, e)
		}
	}
	if e := r.ask(&nornv1.SetQueueRequest{Name: "q", Delete: true, IfVersion: 7}).Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Errorf("another version: %v", e)
	}
}

// TestDeletedByOneNode: the tasks of a queue are kept by others than who is asked, and all of
// them forget it.
func TestDeletedByOneNode(t *testing.T) {
	r := newCluster(t, 5, 0)
	var tasks []*nornv1.TaskSpec
	for range 20 {
		tasks = append(tasks, spec("q"))
	}
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks})
	remove := &nornv1.SetQueueRequest{Name: "q", Delete: true}
	from := r.send(1, remove)
	r.settle()
	if e := r.peers[1].replies[from].Err; e == nil || !strings.Contains(e.Message, "20 tasks") {
		t.Fatalf("%v", e)
	}
	var ids [][]byte
	for _, task := range tasks {
		ids = append(ids, task.Id)
	}
	for _, res := range ask[*nornv1.WriteReply](r, 2, &nornv1.CancelRequest{Ids: ids}).Results {
		if res.Error != nil {
			t.Fatal(res.Error)
		}
	}
	r.settle()
	ask[*nornv1.QueuesReply](r, 1, remove)
	r.tell()
	for i := range r.peers {
		if all := ask[*nornv1.QueuesReply](r, i, &nornv1.QueuesRequest{}).Queues; len(all) != 0 {
			t.Errorf("node %d lists %v", i+1, all)
		}
	}
}

// TestAnEmptyQueueDoesNotCount: a name of which nothing is set and no task is left to do held
// its place until its last finished task was collected, a day later.
func TestAnEmptyQueueDoesNotCount(t *testing.T) {
	r := newRig(t)
	fill := func(from int) (refused *nornv1.Error) {
		for n := range r.core.cfg.MaxQueues {
			if e := r.tryEnqueue(spec(fmt.Sprint("q", from+n))).Error; e != nil {
				return e
			}
		}
		return nil
	}
	if e := fill(0); e != nil {
		t.Fatal(e)
	}
	full := func(what string) {
		t.Helper()
		if e := r.tryEnqueue(spec("another")).Error; e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || !e.GetLasting() {
			t.Fatalf("%s: %v", what, e)
		}
	}
	full("at the limit")
	r.pass(2 * time.Minute)
	full("all have a task")
	for n := range 3 {
		r.finish(fmt.Sprint("q", n))
	}
	r.set("q2", &nornv1.QueueSettings{MaxTasks: 5}, "max_tasks")
	r.enqueue(spec("q1"))
	r.finish("q1")
	r.pass(50 * time.Second)
	if q := must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{Names: []string{"q0"}}).Queues; len(q) != 1 {
		t.Fatal("it is not listed")
	}
	if e := r.tryEnqueue(spec("another")).Error; e != nil { // q0 has not been used for two minutes
		t.Fatal(e)
	}
	full2 := spec("yet-another")
	if e := r.tryEnqueue(full2).Error; e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Fatalf("q1 was used a while ago, q2 has settings: %v", e)
	}
	r.pass(15 * time.Second)
	if e := r.tryEnqueue(full2).Error; e != nil {
		t.Fatal(e)
	}
	if e := r.tryEnqueue(spec("q0")).Error; e != nil {
		t.Errorf("the name of before: %v", e)
	}
	if e := r.ask(&nornv1.SetQueueRequest{Name: "new", Settings: &nornv1.QueueSettings{Paused: true}, Fields: []string{"paused"}}).Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("settings of one more: %v", e)
	}
}

// TestNamesThatDoNotCountAreBounded: the counters of all are one answer.
func TestNamesThatDoNotCountAreBounded(t *testing.T) {
	r := newRig(t)
	r.pass(2 * queues.UnusedFor)
	for n := range queues.MostNames {
		r.core.queues.Known[fmt.Sprint("q", n)] = 1
	}
	if e := r.core.queues.Room(r.now, "another"); e == nil {
		t.Error("one more than an answer can have")
	}
	delete(r.core.queues.Known, "q1")
	if e := r.core.queues.Room(r.now, "another"); e != nil {
		t.Error(e)
	}
}
