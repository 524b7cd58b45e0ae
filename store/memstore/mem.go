package memstore

import (
	"bytes"
	"iter"

	"github.com/norn-dev/norn/store"

	"github.com/google/btree"
)

// pair is what the tree keeps. Its bytes are never written again: walks hand
// them out as they are.
type pair struct {
	key, value []byte
}

type tree = btree.BTreeG[pair]

func newTree() *tree {
	return btree.NewG(32, func(a, b pair) bool { return bytes.Compare(a.key, b.key) < 0 })
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
	p, ok := v.tree.Get(pair{key: key})
	return p.value, ok
}

// Scan gives the pairs of a range in ascending order.
func (v view) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		visit := func(p pair) bool { return yield(p.key, p.value) }
		if upper == nil {
			v.tree.AscendGreaterOrEqual(pair{key: lower}, visit)
			return
		}
		v.tree.AscendRange(pair{key: lower}, pair{key: upper}, visit)
	}
}

// Back gives the pairs of a range in descending order.
func (v view) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		visit := func(p pair) bool {
			switch {
			case upper != nil && bytes.Compare(p.key, upper) >= 0:
				return true
			case bytes.Compare(p.key, lower) < 0:
				return false
			}
			return yield(p.key, p.value)
		}
		if upper == nil {
			v.tree.Descend(visit)
			return
		}
		v.tree.DescendLessOrEqual(pair{key: upper}, visit)
	}
}

// Last gives the greatest key of a range.
func (v view) Last(lower, upper []byte) (key []byte, ok bool) {
	visit := func(p pair) bool {
		if upper != nil && bytes.Equal(p.key, upper) {
			return true
		}
		if ok = bytes.Compare(p.key, lower) >= 0; ok {
			key = bytes.Clone(p.key)
		}
		return false
	}
	if upper == nil {
		v.tree.Descend(visit)
		return key, ok
	}
	v.tree.DescendLessOrEqual(pair{key: upper}, visit)
	return key, ok
}

func write(t *tree, ops []store.Op) {
	for _, op := range ops {
		if op.Delete {
			t.Delete(pair{key: op.Key})
			continue
		}
		t.ReplaceOrInsert(pair{op.Key, op.Value})
	}
}

// Apply makes the batch visible.
func (m *Mem) Apply(b *store.Batch) {
	size := 0
	for op := range b.All() {
		size += len(op.Key) + len(op.Value)
	}
	ops, space := make([]store.Op, 0, b.Len()), make([]byte, 0, size)
	kept := func(b []byte) []byte { // one space for all of them
		from := len(space)
		space = append(space, b...)
		return space[from:len(space):len(space)]
	}
	for op := range b.All() {
		ops = append(ops, store.Op{Key: kept(op.Key), Value: kept(op.Value), Delete: op.Delete})
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

// Harden makes the first n of the batches durable that are not.
func (m *Mem) Harden(n int) {
	n = max(0, min(n, len(m.pending)))
	for _, ops := range m.pending[:n] {
		write(m.synced, ops)
	}
	m.pending = m.pending[n:]
}

// Synced reads what is durable.
func (m *Mem) Synced() store.View { return view{m.synced} }

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
