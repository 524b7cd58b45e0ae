package vnode

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode/recent"
	"github.com/norn-dev/norn/vnode/record"
)

// TestAFalseAlarmDoesNotLast: a task that the filter takes for a known one before
// it is stored is known for good once it is.
func TestAFalseAlarmDoesNotLast(t *testing.T) {
	r := newRig(t)
	r.v.recent = recent.New(4096, id.ID{})
	var tasks []id.ID
	for range 1500 {
		task := r.ids.Next(r.now.Wall)
		tasks = append(tasks, task)
		r.now.Wall += int64(time.Millisecond)
		if _, err := Merge(r.v, r.tx, []crdt.Fact{crdt.Update{Token: 1, At: 1}.Fact(task)}, r.now); err != nil {
			t.Fatal(err)
		}
		for _, old := range tasks[max(0, len(tasks)-200):] {
			if !r.v.recent.Maybe(old) {
				t.Fatalf("%s is stored and taken for new", old)
			}
		}
	}
}

// rig is a vnode over a store in memory.
type rig struct {
	t     *testing.T
	mem   *memstore.Mem
	tx    *store.Overlay
	v     *Vnode
	now   clock.Time
	ids   *id.Generator
	heard []id.ID
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, mem: memstore.New(), now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}}
	r.ids = id.NewGenerator(1, rand.New(rand.NewPCG(5, 5)).Uint64)
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	v, err := Open(0, Config{
		Partitions: 1, Buffer: 5 * time.Second, HeadSize: 3, Random: func() float64 { return 0 },
		OnFact: func(task id.ID) { r.heard = append(r.heard, task) },
	}, r.mem, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	r.v, r.tx = v, store.NewOverlay(r.mem)
	v.Lead(1)
}

func (r *rig) flush() {
	r.v.Flush(r.tx)
	b := r.tx.Take()
	r.mem.Apply(b)
	r.tx.Release(b)
	r.mem.Sync()
}

func (r *rig) enqueue(spec crdt.Enqueued) id.ID {
	r.t.Helper()
	spec.Queue = "q"
	if spec.Retry.MaxAttempts == 0 {
		spec.Retry = crdt.Retry{MaxAttempts: 2, Initial: time.Second, Max: time.Minute, Multiplier: 2000}
	}
	task := r.ids.Next(r.now.Wall)
	if _, err := r.v.Enqueue(r.tx, task, &spec, r.now); err != nil {
		r.t.Fatal(err)
	}
	return task
}

func (r *rig) grant() *Detail {
	r.t.Helper()
	d, err := r.v.Grant(r.tx, "q", Ask{Worker: "w", Lease: 10 * time.Second}, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r *rig) audit() {
	r.t.Helper()
	r.flush()
	if err := Audit(r.mem, 0); err != nil {
		r.t.Fatal(err)
	}
}

func TestGrantReadsNothingItHasInMemory(t *testing.T) {
	r := newRig(t)
	for range 10 {
		r.enqueue(crdt.Enqueued{Payload: []byte("p")})
	}
	r.flush()
	r.open() // the window is filled from the index, the bodies in one walk
	if e := r.v.queues["q"].head.Entries(); len(e) != 3 || e[0].Body == nil || e[2].Body == nil {
		t.Fatalf("the window after opening: %d entries", len(e))
	}
	for range 10 {
		if d := r.grant(); string(d.Task.Enqueued.Payload) != "p" {
			t.Fatalf("payload %q", d.Task.Enqueued.Payload)
		}
	}
	r.audit()
}

func TestUpdateOfAReadyTaskIsInItsGrant(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	u := crdt.Update{Token: 1, Data: []byte("checkpoint")}
	if _, err := r.v.Add(r.tx, u.Fact(task), r.now); err != nil {
		t.Fatal(err)
	}
	if d := r.grant(); string(d.Checkpoint) != "checkpoint" {
		t.Fatal("the grant does not know the update that came before it")
	}
	if len(r.heard) != 1 || r.heard[0] != task {
		t.Fatalf("facts heard of: %v", r.heard)
	}
	r.audit()
}

func TestRetryDiffersInTimeOnly(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	for i, want := range []Added{{}, {Existed: true}, {Clash: true}} {
		u := crdt.Update{Token: 1, Data: []byte("same"), At: int64(10 + i)}
		if want.Clash {
			u.Data = []byte("zzzz")
		}
		got, err := r.v.Add(r.tx, u.Fact(task), r.now)
		if err != nil || got != want {
			t.Fatalf("update %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	d, err := ReadTask(r.tx, 0, task, ReadOptions{})
	if err != nil || string(d.Task.VisibleUpdates()[0].Data) != "same" {
		t.Fatalf("the winner: %v %v", d.Task.VisibleUpdates(), err)
	}
	r.audit()
}

func TestClockSteppingBackMisplacesNothing(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{NotBefore: r.now.Wall + int64(time.Minute)})
	r.now = r.now.Add(time.Minute)
	if err := r.v.Tick(r.tx, r.now); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.now.Wall -= int64(time.Hour)
	r.open() // the moved watermark is on disk: the task is ready, not scheduled
	r.audit()
	if d := r.grant(); d.Task.ID != task {
		t.Fatalf("granted %s", d.Task.ID)
	}
	if _, err := r.v.Add(r.tx, crdt.Completed{Token: 1 << 32, At: 1}.Fact(task), r.now); err != nil {
		t.Fatal(err)
	}
	r.audit()
}

func TestTokensOfAnEpochRunOut(t *testing.T) {
	r := newRig(t)
	r.enqueue(crdt.Enqueued{})
	r.v.seq = 1<<32 - 1
	if _, err := r.v.Grant(r.tx, "q", Ask{Lease: time.Second}, r.now); !errors.Is(err, ErrExhausted) {
		t.Fatalf("grant past the last claim number: %v, want ErrExhausted", err)
	}
	r.v.Lead(2)
	if d := r.grant(); d.Claims[0].Token != 2<<32|1 {
		t.Fatalf("token %x in the next epoch", d.Claims[0].Token)
	}
}

// TestAuditFinds shows that the auditor can fail.
func TestAuditFinds(t *testing.T) {
	damage := map[string]func(r *rig, task id.ID, b *store.Batch){
		"missing index entry": func(r *rig, task id.ID, b *store.Batch) {
			rank := *r.v.Best("q")
			b.Delete(appendReady(nil, 0, "q", &rank))
		},
		"extra index entry": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendTimed(nil, tableScheduled, 0, 7, task), nil)
		},
		"wrong counter": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendQueue(nil, tableQueues, 0, "q"), record.AppendQueue(nil, &Counts{}, *r.v.Best("q"), true))
		},
		"lost fact": func(r *rig, task id.ID, b *store.Batch) {
			b.Delete(appendFact(nil, 0, task, crdt.Key{Kind: crdt.KindEnqueued}))
		},
		"unreadable fact": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendFact(nil, 0, task, crdt.Key{Kind: crdt.KindEnqueued}), []byte("?"))
		},
		"orphan without a mark": func(r *rig, task id.ID, b *store.Batch) {
			f := crdt.Cancelled{}.Fact(r.ids.Next(r.now.Wall))
			b.Set(appendFact(nil, 0, f.Task, f.Key), f.Body)
		},
		"claim on a finished task": func(r *rig, task id.ID, b *store.Batch) {
			f := crdt.Cancelled{}.Fact(r.ids.Next(r.now.Wall))
			b.Set(appendFact(nil, 0, f.Task, f.Key), f.Body)
			b.Set(appendTask(nil, tableOrphans, 0, f.Task), nil)
			b.Set(appendPrefix(nil, tablePartition, 0), (&partitionRecord{orphans: 1}).appendTo(nil))
			b.Set(appendClaim(nil, tableActive, 0, f.Task, 1), (&claim.Record{Token: 1}).AppendTo(nil))
		},
		"claim that is held and has ended": func(r *rig, task id.ID, b *store.Batch) {
			unknown := r.ids.Next(r.now.Wall)
			b.Set(appendClaim(nil, tableActive, 0, unknown, 1), (&claim.Record{Token: 1}).AppendTo(nil))
			b.Set(appendClaim(nil, tableEnded, 0, unknown, 1), (&claim.Record{Token: 1, Outcome: claim.Released}).AppendTo(nil))
		},
		"held claim with an outcome": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendClaim(nil, tableActive, 0, r.ids.Next(r.now.Wall), 1), (&claim.Record{Token: 1, Outcome: claim.Failed}).AppendTo(nil))
		},
		"ended claim without an outcome": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendClaim(nil, tableEnded, 0, task, 1), (&claim.Record{Token: 1}).AppendTo(nil))
		},
		"claim that nobody counted": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendClaim(nil, tableActive, 0, task, 1), (&claim.Record{Token: 1}).AppendTo(nil))
		},
		"unreadable claim": func(r *rig, task id.ID, b *store.Batch) {
			b.Set(appendClaim(nil, tableActive, 0, r.ids.Next(r.now.Wall), 1), []byte("?"))
		},
		"claims of a collected task": func(r *rig, task id.ID, b *store.Batch) {
			f := crdt.Tombstone{Outcome: crdt.StateCompleted}.Fact(r.ids.Next(r.now.Wall))
			b.Set(appendFact(nil, 0, f.Task, f.Key), f.Body)
			b.Set(appendTimed(nil, tableGraves, 0, 0, f.Task), nil)
			b.Set(appendClaim(nil, tableEnded, 0, f.Task, 1), (&claim.Record{Token: 1, Outcome: claim.Failed}).AppendTo(nil))
		},
	}
	for name, hurt := range damage {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			task := r.enqueue(crdt.Enqueued{})
			r.audit()
			var b store.Batch
			hurt(r, task, &b)
			r.mem.Apply(&b)
			if err := Audit(r.mem, 0); !errors.Is(err, ErrDamaged) {
				t.Fatalf("audit: %v, want ErrDamaged", err)
			}
		})
	}
}
