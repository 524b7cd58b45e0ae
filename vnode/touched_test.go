package vnode

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// TestTheTreeIsRightAfterACrash: also where it was not written since its leaves changed, and
// whichever leaves these are.
func TestTheTreeIsRightAfterACrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	cfg := Config{Partitions: 1, Buffer: time.Second, HeadSize: 2, Tree: true, Random: func() float64 { return 0 }}
	ids := id.NewGenerator(1, rng.Uint64)
	start := clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}
	noted, flushed := 0, 0
	for range 60 {
		mem := memstore.New()
		var tasks []id.ID
		for range 1 + rng.IntN(5) { // lives
			v, err := Open(0, cfg, mem, start)
			if err != nil {
				t.Fatal(err)
			}
			tx := store.NewOverlay(mem)
			for range rng.IntN(30) { // rounds
				for range 1 + rng.IntN(4) {
					switch n := rng.IntN(20); {
					case n == 0 && len(tasks) > 0:
						v.shelf.drop(tx, v.shelf.hold(tx, tasks[rng.IntN(len(tasks))]))
					case n == 1:
						Settled(v, tx)
					case n == 2 && len(tasks) > 0:
						removeEnqueue(t, v, tx, tasks[rng.IntN(len(tasks))])
					default:
						task := ids.Next(start.Wall + rng.Int64N(int64(5*time.Second)))
						tasks = append(tasks, task)
						v.shelf.put(tx, crdt.Fact{Task: task, Key: crdt.Key{Kind: crdt.KindEnqueued}, Body: []byte{1, byte(n)}}, nil)
					}
				}
				v.Flush(tx)
				mem.Apply(tx.Take())
			}
			if _, ok := mem.Get(appendPrefix(nil, tableTouched, 0)); ok {
				noted++
			}
			if v.shelf.tree.Node(mem, antientropy.Path{}).Count > 0 {
				flushed++
			}
			var want antientropy.Node
			prefix := appendPrefix(nil, tableFacts, 0)
			for key, value := range mem.Scan(prefix, after(prefix)) {
				f, err := StoredFact(key, value)
				if err != nil {
					t.Fatal(err)
				}
				want.Sum, want.Count = want.Sum.Add(crdt.HashFact(f)), want.Count+1
			}
			if got := Root(v, mem); got != want {
				t.Fatalf("the root is %v, the facts come to %v", got, want)
			}
			again, err := Open(0, cfg, mem, start)
			if err != nil {
				t.Fatal(err)
			}
			if got := Root(again, mem); got != want {
				t.Fatalf("after a crash the root is %v, the facts come to %v", got, want)
			}
			written := store.NewOverlay(mem)
			Settled(again, written)
			if at := again.shelf.tree.Node(written, antientropy.Path{}); at != want {
				t.Fatalf("written after a crash the root is %v, the facts come to %v", at, want)
			}
		}
	}
	if noted < 50 || flushed < 50 {
		t.Errorf("%d lives ended with leaves that were noted, %d with a tree that was written: that is no test", noted, flushed)
	}
}

// removeEnqueue deletes the enqueue of a task, if there is one.
func removeEnqueue(t *testing.T, v *Vnode, tx store.Tx, task id.ID) {
	t.Helper()
	f := crdt.Fact{Task: task, Key: crdt.Key{Kind: crdt.KindEnqueued}}
	body, err := v.shelf.get(tx, task, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	if f.Body = bytes.Clone(body); body != nil {
		v.shelf.remove(tx, f)
	}
}
