package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// longLog is how many updates the tasks have that go here.
const longLog = 3000

// long gives a task of partition 0 a log of longLog updates.
func (r *rig) long(task id.ID, token uint64) {
	r.t.Helper()
	all := make([]crdt.Fact, longLog)
	for seq := range all {
		all[seq] = crdt.Update{Token: token, Seq: uint64(seq), Output: true}.Fact(task)
	}
	if _, err := vnode.Merge(r.core.vnode(task), r.core.round.Tx, all, r.now); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) inFirst() id.ID {
	for {
		if task := r.ids.Next(r.now.Wall); ring.Of(task, testPartitions) == 0 {
			return task
		}
	}
}

// inSteps does steps until one says that there are no more, and fails when one of them writes
// more than a step and the last of its tasks need.
func (r *rig) inSteps(step func() (more bool)) (steps int) {
	r.t.Helper()
	for more := true; more; steps++ {
		before := r.core.round.Tx.Pending()
		more = step()
		if n := r.core.round.Tx.Pending() - before; n > retention.WritesPerStep+2*longLog+100 {
			r.t.Fatalf("step %d writes %d records", steps, n)
		}
		if steps > 1000 {
			r.t.Fatal("it never ends")
		}
	}
	return steps
}

// TestAStepOfTheCollectorIsBoundedInUpdates: however long the logs are of the tasks that go,
// archived before or not, and with an enqueue or without.
func TestAStepOfTheCollectorIsBoundedInUpdates(t *testing.T) {
	const n = 12
	finished := func(r *rig) {
		for range n {
			s := spec("a")
			s.Id = r.inFirst().Bytes()
			r.enqueue(s)
			g := r.claim("a", 1)[0]
			task, _ := id.Parse(g.Task.Id)
			r.long(task, g.Token)
			r.complete(task, g.Token)
		}
	}
	later := func(r *rig, d time.Duration) *vnode.Vnode {
		r.now = r.now.Add(d)
		return r.core.vnodes.Use(0)
	}
	t.Run("collected", func(t *testing.T) {
		r := newCollecting(t)
		finished(r)
		v := later(r, 2*time.Hour)
		r.inSteps(func() bool { return r.core.retention.Look(r.now, v) })
		r.turn()
		r.audit()
		if got := r.core.retention.Collected; got != n || r.total() != 0 {
			t.Errorf("%d tasks of %d were collected, %d are left", got, n, r.total())
		}
	})
	t.Run("archived", func(t *testing.T) {
		r := newCollecting(t)
		finished(r)
		v, a := later(r, 2*time.Hour), &r.core.retention.Archiving
		a.Safe, _ = vnode.Dues(v, r.core.round.Tx, &vnode.DuesCursor{}, r.core.retention.Cutoff(r.now, 0, nornv1.Retention_RETENTION_DELETE), clock.Never, n)
		r.inSteps(func() bool {
			a.At = r.now.Mono
			r.core.retention.WorkArchived(r.now)
			return len(a.Safe) > 0
		})
		if got := r.core.retention.Archived; got != n {
			t.Errorf("%d tasks of %d have gone", got, n)
		}
	})
	t.Run("orphans", func(t *testing.T) {
		r := newCollecting(t)
		for range n {
			r.long(r.inFirst(), 1<<32)
		}
		v, gone := later(r, 8*24*time.Hour), 0
		r.inSteps(func() bool { gone++; return r.core.retention.Tombstones.Orphans(r.now, v) })
		r.turn()
		r.audit()
		for f := range vnode.FactsAfter(v.Partition, r.store, antientropy.Position{}, id.ID{}) {
			t.Fatalf("after %d steps there is %v", gone, f)
		}
	})
}

// TestThePassOfTheCollectorEnds: with more unique keys on record than a step looks at, and
// more finished tasks that are needed, it went round for ever, 100 µs apart.
func TestThePassOfTheCollectorEnds(t *testing.T) {
	r := newCollecting(t)
	const n = retention.Batch + 10
	var some []*nornv1.TaskSpec
	for range n {
		s := spec("a")
		s.Id = r.inFirst().Bytes()
		some = append(some, s)
	}
	needed := r.enqueue(some...)
	r.enqueue(after("w", onFailWait, append(needed, r.ids.Next(r.now.Wall))...))
	for range n {
		vnode.SetKey(r.core.round.Tx, 0, vnode.Key{First: r.inFirst(), Current: needed[0], Changed: r.now.Wall})
	}
	r.turn()
	for range n {
		r.finish("a")
	}
	r.now = r.now.Add(2 * time.Hour)
	k := r.core.retention
	k.Pass.Partition, k.Pass.Over = 0, [6]bool{}
	k.Pass.Keys = vnode.Keys(r.core.round.Tx, 0, id.ID{}, retention.Batch)[retention.Batch-1].First // a step ahead of the rest
	steps := 0
	for ; k.Pass.Partition == 0; steps++ {
		if steps == 20 {
			t.Fatalf("after %d steps the collector is still with its first partition", steps)
		}
		r.now = r.now.Add(retention.Pause)
		k.At = 0
		k.Seen = r.now
		k.Work(r.now)
	}
	r.turn()
	if r.total() != n+1 {
		t.Errorf("%d tasks are left, want those that are needed and the one that needs them", r.total())
	}
}
