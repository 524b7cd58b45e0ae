package memstore

import (
	"iter"

	"github.com/norn-dev/norn/store"

	"github.com/google/btree"
)

type pair struct {
	key   string
	value []byte
}

type tree = btree.BTreeG[pair]

func newTree() *tree {
	return btree.NewG(32, func(a, b pair) bool { return a.key < b.key })
}

// view reads a tree.
type view struct{ tree *tree }

// Mem is an in-memory [store.Store]. It is used from one goroutine and is the
// same for the same calls.
type Mem struct {
	view
	synced  *tree
	pending [][]store.Op // applied and not synced, in order
}

var _ store.Store = (*Mem)(nil)

// New makes an empty store.
func New() *Mem { return &Mem{view: view{newTree()}, synced: newTree()} }

// Get gives the value of a key.
func (v view) Get(key []byte) ([]byte, bool) {
	p, ok := v.tree.Get(pair{key: string(key)})
	return p.value, ok
}

// Scan gives the pairs of a range in ascending order.
func (v view) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		visit := func(p pair) bool { return yield([]byte(p.key), p.value) }
		if upper == nil {
			v.tree.AscendGreaterOrEqual(pair{key: string(lower)}, visit)
			return
		}
		v.tree.AscendRange(pair{key: string(lower)}, pair{key: string(upper)}, visit)
	}
}

// Last gives the greatest key of a range.
func (v view) Last(lower, upper []byte) (key []byte, ok bool) {
	visit := func(p pair) bool {
		if p.key == string(upper) && upper != nil {
			return true
		}
		if ok = p.key >= string(lower); ok {
			key = []byte(p.key)
		}
		return false
	}
	if upper == nil {
		v.tree.Descend(visit)
		return key, ok
	}
	v.tree.DescendLessOrEqual(pair{key: string(upper)}, visit)
	return key, ok
}

func write(t *tree, ops []store.Op) {
	for _, op := range ops {
		if op.Delete {
			t.Delete(pair{key: string(op.Key)})
			continue
		}
		t.ReplaceOrInsert(pair{string(op.Key), op.Value})
	}
}

// Apply makes the batch visible.
func (m *Mem) Apply(b *store.Batch) {
	ops := make([]store.Op, 0, b.Len())
	for op := range b.All() {
		op.Key = append([]byte(nil), op.Key...)
		op.Value = append([]byte{}, op.Value...)
		ops = append(ops, op)
	}
	write(m.tree, ops)
	m.pending = append(m.pending, ops)
}

// Commit applies the batch; the wait is a sync.
func (m *Mem) Commit(b *store.Batch) (wait func()) {
	m.Apply(b)
	return m.Sync
}

// Sync makes everything applied durable.
func (m *Mem) Sync() {
	for _, ops := range m.pending {
		write(m.synced, ops)
	}
	m.pending = nil
}

// Unsynced is the number of batches that a crash may lose.
func (m *Mem) Unsynced() int { return len(m.pending) }

// Crash gives the store as a machine finds it after losing power: what was
// synced and the first keep unsynced batches. The old store must not be used.
func (m *Mem) Crash(keep int) *Mem {
	for _, ops := range m.pending[:max(0, min(keep, len(m.pending)))] {
		write(m.synced, ops)
	}
	return &Mem{view: view{m.synced.Clone()}, synced: m.synced}
}

type snapshot struct{ view }

func (snapshot) Close() {}

// Snapshot gives the store as it is now.
func (m *Mem) Snapshot() store.Snapshot { return snapshot{view{m.tree.Clone()}} }

// Close ends the store; what is not synced is lost with it.
func (m *Mem) Close() error { return nil }
