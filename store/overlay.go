package store

import (
	"bytes"
	"iter"

	"github.com/google/btree"
)

// Overlay is a [Tx] over a view: reads see the pending writes, which wait in a
// batch until [Overlay.Take]. It lets a machine do many steps and have them
// written at once.
type Overlay struct {
	base  View
	batch *Batch
	last  map[string]int // key -> its last write in the batch
	order *btree.BTreeG[string]
	fresh []string // keys that are not in order yet: only scans need it
	free  []*Batch
}

// NewOverlay makes an overlay without pending writes.
func NewOverlay(base View) *Overlay {
	return &Overlay{base: base, batch: &Batch{}, last: make(map[string]int), order: btree.NewOrderedG[string](32)}
}

// Set writes a pair.
func (o *Overlay) Set(key, value []byte) {
	o.note(key)
	o.batch.Set(key, value)
}

// Delete deletes a key.
func (o *Overlay) Delete(key []byte) {
	o.note(key)
	o.batch.Delete(key)
}

func (o *Overlay) note(key []byte) {
	n := o.batch.Len()
	if _, ok := o.last[string(key)]; ok {
		o.last[string(key)] = n
		return
	}
	k := string(key)
	o.last[k] = n
	o.fresh = append(o.fresh, k)
}

// Get reads a key.
func (o *Overlay) Get(key []byte) ([]byte, bool) {
	if i, ok := o.last[string(key)]; ok {
		op := o.batch.op(i)
		return op.Value, !op.Delete
	}
	return o.base.Get(key)
}

// Scan reads a range.
func (o *Overlay) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	if len(o.last) == 0 {
		return o.base.Scan(lower, upper)
	}
	pending := o.pending(lower, upper)
	if len(pending) == 0 {
		return o.base.Scan(lower, upper)
	}
	return func(yield func([]byte, []byte) bool) {
		i := 0
		// give yields the pending pairs below the key, or all with a nil key.
		give := func(below []byte) bool {
			for ; i < len(pending); i++ {
				op := o.batch.op(pending[i])
				if below != nil && bytes.Compare(op.Key, below) >= 0 {
					break
				}
				if !op.Delete && !yield(op.Key, op.Value) {
					return false
				}
			}
			return true
		}
		for key, value := range o.base.Scan(lower, upper) {
			if !give(key) {
				return
			}
			if i < len(pending) && bytes.Equal(o.batch.op(pending[i]).Key, key) {
				continue // the pending write replaces it and comes next
			}
			if !yield(key, value) {
				return
			}
		}
		give(nil)
	}
}

// pending lists the last pending write of each key in the range, by key.
func (o *Overlay) pending(lower, upper []byte) (at []int) {
	for _, k := range o.fresh {
		o.order.ReplaceOrInsert(k)
	}
	o.fresh = o.fresh[:0]
	visit := func(k string) bool {
		at = append(at, o.last[k])
		return true
	}
	if upper == nil {
		o.order.AscendGreaterOrEqual(string(lower), visit)
		return at
	}
	o.order.AscendRange(string(lower), string(upper), visit)
	return at
}

// Pending is the number of pending writes.
func (o *Overlay) Pending() int { return o.batch.Len() }

// Take hands over the pending writes; reads go to the base again, so apply the
// batch before the next read.
func (o *Overlay) Take() *Batch {
	b := o.batch
	o.batch = &Batch{}
	if n := len(o.free); n > 0 {
		o.batch, o.free = o.free[n-1], o.free[:n-1]
	}
	clear(o.last)
	clear(o.fresh)
	o.fresh = o.fresh[:0]
	o.order.Clear(true)
	return b
}

// Release gives a taken batch back for reuse.
func (o *Overlay) Release(b *Batch) {
	if len(o.free) < 4 {
		b.Reset()
		o.free = append(o.free, b)
	}
}
