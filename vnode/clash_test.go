package vnode

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// TestTheSameOneStaysInAnyOrder: of what nodes take in under one key, by clients or from
// each other, the same stays in whichever order it comes, and the trees over it are the
// same: else replicas would find a difference that no exchange ends.
func TestTheSameOneStaysInAnyOrder(t *testing.T) {
	now := clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}
	task := id.NewGenerator(1, func() uint64 { return 1 }).Next(now.Wall)
	facts := []crdt.Fact{
		crdt.Update{Token: 1, Data: []byte("one"), At: 5}.Fact(task),
		crdt.Update{Token: 1, Data: []byte("two"), At: 5}.Fact(task),
		crdt.Update{Token: 1, Data: []byte("two"), At: 4}.Fact(task),
	}
	for name, take := range map[string]func(v *Vnode, tx store.Tx, f crdt.Fact) error{
		"by clients": func(v *Vnode, tx store.Tx, f crdt.Fact) error { _, err := v.Add(tx, f, now); return err },
		"from others": func(v *Vnode, tx store.Tx, f crdt.Fact) error {
			_, err := Merge(v, tx, []crdt.Fact{f}, now)
			return err
		},
	} {
		var stays []byte
		var root antientropy.Node
		for n, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
			mem := memstore.New()
			v, err := Open(0, Config{Partitions: 64, Buffer: time.Second, HeadSize: 2, Tree: true, Random: func() float64 { return 0 }}, mem, now)
			tx := store.NewOverlay(mem)
			for _, i := range order {
				if err == nil {
					err = take(v, tx, facts[i])
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			v.Flush(tx)
			mem.Apply(tx.Take())
			body, _ := mem.Get(appendFact(nil, 0, task, facts[0].Key))
			got := Root(v, mem)
			if n == 0 {
				stays, root = slices.Clone(body), got
			}
			if got.Count != 1 || got != root || !slices.Equal(body, stays) {
				t.Errorf("%s, in the order %v: %q stays under a root of %v; in another order %q under %v", name, order, body, got, stays, root)
			}
		}
	}
}
