package vnode

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// benchTasks is how many tasks wait in one partition; between two runs over them
// the clock stands still.
const benchTasks = 10_000

// benchmarkClaims measures what is done to each of many ready tasks, in batches
// of a hundred.
func benchmarkClaims(b *testing.B, lead bool, claim func(v *Vnode, tx store.Tx, task id.ID, n int, now clock.Time) error) {
	now := clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}
	var v *Vnode
	var mem *memstore.Mem
	var tx *store.Overlay
	var tasks []id.ID
	flush := func() {
		v.Flush(tx)
		batch := tx.Take()
		mem.Apply(batch)
		tx.Release(batch)
	}
	begin := func() {
		ids := id.NewGenerator(1, rand.New(rand.NewPCG(1, 2)).Uint64)
		mem, tasks = memstore.New(), tasks[:0]
		var err error
		v, err = Open(0, Config{Partitions: 64, Buffer: time.Second, HeadSize: 256, Random: func() float64 { return 0 }}, mem, now)
		if err != nil {
			b.Fatal(err)
		}
		tx = store.NewOverlay(mem)
		if lead {
			v.Lead(1)
		}
		spec := crdt.Enqueued{Queue: "q", Payload: make([]byte, 100), Retry: crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Minute, Multiplier: 2000}}
		for n := range benchTasks {
			task := ids.Next(now.Wall)
			tasks = append(tasks, task)
			if _, err := Merge(v, tx, []crdt.Fact{spec.Fact(task)}, now); err != nil {
				b.Fatal(err)
			}
			if n%100 == 99 {
				flush()
			}
		}
	}
	b.ReportAllocs()
	for n := range b.N {
		if n%benchTasks == 0 {
			b.StopTimer()
			begin()
			b.StartTimer()
		}
		if err := claim(v, tx, tasks[n%benchTasks], n%benchTasks+1, now); err != nil {
			b.Fatal(err)
		}
		if n%100 == 99 {
			b.StopTimer() // what the store does is not the vnode's
			flush()
			b.StartTimer()
		}
	}
}

// BenchmarkGrant is what a claim costs the leader.
func BenchmarkGrant(b *testing.B) {
	benchmarkClaims(b, true, func(v *Vnode, tx store.Tx, _ id.ID, _ int, now clock.Time) error {
		_, err := v.Grant(tx, "q", Ask{Worker: "w", Lease: time.Second}, now)
		return err
	})
}

// BenchmarkAccept is what it costs a follower.
func BenchmarkAccept(b *testing.B) {
	benchmarkClaims(b, false, func(v *Vnode, tx store.Tx, task id.ID, n int, now clock.Time) error {
		r := claim.Record{Token: 1<<32 | uint64(n), Worker: "w", Start: now.Wall, End: now.Wall + int64(time.Second), Lease: time.Second}
		_, _, err := Accept(v, tx, Proposed{task, r}, Judge{HalfEta: time.Second}, now)
		return err
	})
}
