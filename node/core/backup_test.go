package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// backedUp is all that a node gives of a partition.
func (r *trio) backedUp(i int, p ring.Partition) (all []backup.Task, replies []*nornv1.BackupReply) {
	r.t.Helper()
	var whole backup.Assembler
	for after, last := []byte(nil), false; !last; {
		m := ask[*nornv1.BackupReply](r, i, &nornv1.BackupRequest{Partition: uint32(p), After: after})
		after, last = m.Next, len(m.Next) == 0
		err := whole.Add(m.Tasks, last, func(t *backup.Task) error {
			all = append(all, t.Clone())
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		replies = append(replies, m)
	}
	return all, replies
}

// TestABackupHasWhatAMajorityHas: each replica lacks facts that the two others have; through
// each node comes the union, with the claims that are held.
func TestABackupHasWhatAMajorityHas(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	want := map[id.ID]bool{}
	for i := range r.peers { // of those that come through this one the next but one hears nothing
		cut := [2]int{i, (i + 2) % 3}
		r.cut[cut] = true
		for range 10 {
			task := r.ids.Next(r.now.Wall)
			r.enqueue(i, task, nil)
			r.settle()
			want[task] = true
		}
		delete(r.cut, cut)
	}
	for i := range r.peers {
		got, held := map[id.ID]int{}, 0
		for p := range ring.Partition(testPartitions) {
			tasks, replies := r.backedUp(i, p)
			for _, task := range tasks {
				got[task.ID] = len(task.Facts)
				held += len(task.Claims)
			}
			for _, m := range replies {
				if m.Cohort != 3 || m.Replicas < 2 || m.Epoch == 0 {
					t.Fatalf("through node %d: %d of %d, epoch %d", i+1, m.Replicas, m.Cohort, m.Epoch)
				}
			}
		}
		for task := range want {
			if got[task] == 0 {
				t.Errorf("through node %d: task %s is not there", i+1, task)
			}
		}
		if len(got) < 80 {
			t.Errorf("through node %d: %d tasks", i+1, len(got))
		}
		if held == 0 {
			t.Errorf("through node %d: no claims", i+1)
		}
	}
}

// TestARestoreIsOnAMajority: tasks with all that happened to them go to another cluster,
// twice, and are there once; what was completed stays so.
func TestARestoreIsOnAMajority(t *testing.T) {
	r, to := newTrio(t), newTrio(t)
	r.tell()
	to.tell()
	r.work()
	for p := range ring.Partition(testPartitions) {
		tasks, _ := r.backedUp(0, p)
		if len(tasks) == 0 {
			continue
		}
		var b []byte
		for i := range tasks {
			tasks[i].Free(0)
			b = backup.AppendTask(b, &tasks[i])
		}
		for again := range 2 {
			m := ask[*nornv1.RestoreReply](to, (int(p)+again)%3, &nornv1.RestoreRequest{Partition: uint32(p), Tasks: b})
			if fresh := len(tasks) * (1 - again); m.Result.Error != nil || int(m.Tasks) != len(tasks) || int(m.Fresh) != fresh || m.Result.Receipt.DurableCopies < 2 {
				t.Fatalf("partition %d, time %d: %v", p, again+1, m)
			}
		}
		got, _ := to.backedUp(1, p)
		if !slices.EqualFunc(got, tasks, func(a, b backup.Task) bool { return backup.SumOf(&a) == backup.SumOf(&b) }) {
			t.Errorf("partition %d: %d tasks there of %d", p, len(got), len(tasks))
		}
	}
	other := ring.Partition(testPartitions - 1)
	var task backup.Task
	for p := range ring.Partition(testPartitions - 1) {
		if all, _ := r.backedUp(0, p); len(all) > 0 {
			task = all[0]
		}
	}
	from := to.send(0, &nornv1.RestoreRequest{Partition: uint32(other), Tasks: backup.AppendTask(nil, &task)})
	to.settle()
	if e := to.peers[0].replies[from].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("a task of another partition: %v", e)
	}
}

// TestManyAreRestoredOnce: of a request with many tasks it is looked once whether any is there. Those that are stay as they
// are, also within the run of the others, and all come to each replica.
func TestManyAreRestoredOnce(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	const p, many = ring.Partition(1), 400
	var tasks []backup.Task
	for at := r.now.Wall - int64(time.Hour); len(tasks) < many; at += int64(time.Millisecond) {
		if task := r.ids.Next(at); ring.Of(task, testPartitions) == p {
			tasks = append(tasks, backup.Task{ID: task, Facts: []crdt.Fact{(&crdt.Enqueued{Queue: "old", Payload: make([]byte, 2000)}).Fact(task)}})
		}
	}
	restore := func(some []backup.Task, fresh int) {
		t.Helper()
		var b []byte
		for i := range some {
			b = backup.AppendTask(b, &some[i])
		}
		m := ask[*nornv1.RestoreReply](r, 0, &nornv1.RestoreRequest{Partition: uint32(p), Tasks: b})
		if m.Result.Error != nil || int(m.Tasks) != len(some) || int(m.Fresh) != fresh {
			t.Fatalf("%d tasks, of which %d are new: %v", len(some), fresh, m)
		}
	}
	restore(tasks[100:300], 200)
	for i := range r.peers { // as when its tasks had all gone
		r.peers[i].core.queues.Unuse("old")
	}
	restore(tasks[:200], 100)
	r.settle()
	for i := range r.peers {
		if !r.peers[i].core.queues.Knows("old") {
			t.Errorf("replica %d does not know the queue", i)
		}
	}
	restore(tasks[200:201], 0)
	restore(tasks, 100)
	restore(tasks, 0)
	r.settle()
	for i := range r.peers {
		v := r.peers[i].core.vnodes.Use(p)
		if n := v.Count("old"); n == nil || n[crdt.StateReady] != many {
			t.Errorf("replica %d counts %v", i, n)
		}
	}
	got, _ := r.backedUp(1, p)
	old := slices.DeleteFunc(got, func(g backup.Task) bool { return g.ID.Compare(tasks[many-1].ID) > 0 })
	if !slices.EqualFunc(old, tasks, func(a, b backup.Task) bool { return backup.SumOf(&a) == backup.SumOf(&b) }) {
		t.Errorf("%d tasks there of %d", len(old), many)
	}
}

// lookups counts what is looked for in a store.
type lookups struct {
	store.Reader
	n *int
}

func (l lookups) Get(key []byte) ([]byte, bool) {
	*l.n++
	return l.Reader.Get(key)
}

// TestARestoreThatIsRepeatedLooksForNothing: a request to restore that had timed out and was repeated looked for each of its tasks
// three times at each replica, took longer than the first one, and timed out, too.
func TestARestoreThatIsRepeatedLooksForNothing(t *testing.T) {
	r, n := newTrio(t), 0
	r.reads = func(of store.Reader) store.Reader { return lookups{of, &n} }
	for i := range r.peers {
		r.kill(i)
		r.open(i)
	}
	r.tell()
	const p, many = ring.Partition(1), 500
	var b []byte
	for at, tasks := r.now.Wall-int64(time.Hour), 0; tasks < many; at += int64(time.Millisecond) {
		if task := r.ids.Next(at); ring.Of(task, testPartitions) == p {
			b = backup.AppendTask(b, &backup.Task{ID: task, Facts: []crdt.Fact{(&crdt.Enqueued{Queue: "old", Payload: make([]byte, 2000)}).Fact(task)}})
			tasks++
		}
	}
	for try, fresh := range []uint32{many, 0, 0} {
		before := n
		m := ask[*nornv1.RestoreReply](r, try, &nornv1.RestoreRequest{Partition: uint32(p), Tasks: b})
		if m.Result.Error != nil || m.Tasks != many || m.Fresh != fresh || m.Result.Receipt.DurableCopies < 2 {
			t.Fatalf("try %d: %v", try+1, m)
		}
		if n-before > many/2 {
			t.Errorf("try %d: %d keys are looked for to restore %d tasks on three replicas", try+1, n-before, many)
		}
	}
}

// TestMissedTasksAreNotLookedForOneByOne: a replica that had fallen behind while tasks came in fast looked for each
// of those that it had missed four times, took twenty times as long as for new ones, and fell further behind.
func TestMissedTasksAreNotLookedForOneByOne(t *testing.T) {
	r, n := newTrio(t), 0
	r.reads = func(of store.Reader) store.Reader { return lookups{of, &n} }
	const p, many = ring.Partition(1), 200
	var half [2][]crdt.Fact // what is there, and what was missed in between
	for at, tasks := r.now.Wall-int64(time.Hour), 0; tasks < 2*many; at += int64(time.Millisecond) {
		if task := r.ids.Next(at); ring.Of(task, testPartitions) == p {
			half[tasks%2] = append(half[tasks%2], (&crdt.Enqueued{Queue: "old"}).Fact(task))
			tasks++
		}
	}
	for i, facts := range half {
		r.kill(2) // what comes below what is there is looked for from now on
		r.open(2)
		r.tell()
		before := n
		r.check(r.peers[2].core.Step(r.clock(2), &message.FromPeer{From: r.peers[0].self, Message: &message.Facts{Write: uint64(i + 1), Parts: []message.PartFacts{{Partition: p, Epoch: 1, Facts: facts}}}}))
		if n-before > many/4 {
			t.Errorf("%d keys are looked for to keep %d tasks", n-before, many)
		}
		r.turn(2)
	}
	for _, facts := range half {
		for _, f := range facts {
			if !vnode.Known(r.peers[2].store, p, f.Task) {
				t.Fatalf("%s is not there", f.Task)
			}
		}
	}
}
