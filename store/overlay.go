package store

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"
)

// Overlay is a [Tx] over a view: reads see the pending writes, which wait in a
// batch until [Overlay.Take]. It lets a machine do many steps and have them
// written at once. Of several writes to one key the batch holds the last.
//
// It is used from one goroutine. Once warm it allocates nothing but for scans.
type Overlay struct {
	base  View
	batch *Batch
	keys  index
	order orders
	rows  rows
	free  []*Batch
	small int    // batches given back in a row that a small buffer was enough for
	space []byte // for the next batch that is put in order
	spans []span
	// shared is what walks share until [Overlay.Together] is done; nil: nothing.
	shared *walk
}

// NewOverlay makes an overlay without pending writes.
func NewOverlay(base View) *Overlay {
	return &Overlay{base: base, batch: &Batch{}, keys: index{seed: maphash.MakeSeed()}}
}

// Set writes a pair.
func (o *Overlay) Set(key, value []byte) {
	if o.batch.bulk && o.inRow(key, value) {
		return
	}
	at, hash, known := o.keys.find(o.batch, key)
	if known && o.overwrite(o.keys.last[at], value) {
		return
	}
	o.note(key, at, hash, known)
	o.batch.Set(key, value)
}

// Delete deletes a key.
func (o *Overlay) Delete(key []byte) {
	if o.batch.bulk {
		if r := o.rows.or(key); r != nil && !r.closed {
			o.close(r)
		}
	}
	at, hash, known := o.keys.find(o.batch, key)
	o.note(key, at, hash, known)
	o.batch.Delete(key)
}

// overwrite replaces a pending value by one of the same length: a counter that
// changes with every step takes no new space.
func (o *Overlay) overwrite(i int32, value []byte) bool {
	s := &o.batch.ops[i]
	if s.kind != kindSet || int(s.value) != len(value) {
		return false
	}
	copy(o.batch.data[s.valueAt():], value)
	return true
}

// note enters the write that comes next as the last one of its key.
func (o *Overlay) note(key []byte, at int, hash uint64, known bool) {
	next := int32(len(o.batch.ops))
	if known {
		o.batch.drop(int(o.keys.last[at]))
		o.keys.last[at] = next
		return
	}
	o.keys.add(hash, next)
	o.order.add(key, int32(len(o.keys.last)-1))
}

// Get reads a key.
func (o *Overlay) Get(key []byte) ([]byte, bool) {
	if o.batch.bulk {
		if r := o.rows.of(key); r != nil && !r.closed {
			if i := r.find(o.batch, key); i < len(r.ops) && bytes.Equal(o.batch.keyOf(int(r.ops[i])), key) {
				return o.batch.op(int(r.ops[i])).Value, true
			}
			return o.base.Get(key)
		}
	}
	if len(o.keys.last) == 0 {
		return o.base.Get(key)
	}
	if at, _, ok := o.keys.find(o.batch, key); ok {
		op := o.batch.op(int(o.keys.last[at]))
		return op.Value, !op.Delete
	}
	return o.base.Get(key)
}

// Scan reads a range.
func (o *Overlay) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	if len(o.keys.last) == 0 && !o.batch.bulk {
		return o.below(lower, upper)
	}
	return func(yield func([]byte, []byte) bool) {
		o.meet(lower, upper)
		pending, first, last := o.order.between(o.batch, &o.keys, lower, upper, 1)
		// A scan within this walk, after a write, must not sort under it.
		o.order.walk(first, last, 1)
		defer o.order.walk(first, last, -1)
		o.merge(o.below(lower, upper), pending, yield)
	}
}

// Back reads a range from its end.
func (o *Overlay) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	if len(o.keys.last) == 0 && !o.batch.bulk {
		return o.base.Back(lower, upper)
	}
	return func(yield func([]byte, []byte) bool) {
		o.meet(lower, upper)
		pending, first, last := o.order.between(o.batch, &o.keys, lower, upper, -1)
		o.order.walk(first, last, 1)
		defer o.order.walk(first, last, -1)
		o.merge(o.base.Back(lower, upper), pending, yield)
	}
}

// merge gives the pairs of the base and the pending ones, in the order of those; a pending
// write hides what the base has.
func (o *Overlay) merge(base iter.Seq2[[]byte, []byte], pending keyWalk, yield func([]byte, []byte) bool) {
	give := func() bool {
		op := o.batch.op(int(o.keys.last[pending.key()]))
		pending.step()
		return op.Delete || yield(op.Key, op.Value)
	}
	for key, value := range base {
		order := -1
		for pending.more() && order < 0 {
			if order = pending.way * bytes.Compare(o.batch.keyOf(int(o.keys.last[pending.key()])), key); order <= 0 && !give() {
				return
			}
		}
		if order == 0 {
			continue
		}
		if !yield(key, value) {
			return
		}
	}
	for pending.more() {
		if !give() {
			return
		}
	}
}

// Pending is the number of pending writes.
func (o *Overlay) Pending() int { return o.batch.Len() }

// Take hands over the pending writes; reads go to the base again, so apply the
// batch before the next read.
func (o *Overlay) Take() *Batch {
	if o.shared != nil {
		o.shared.close() // the next walk sees what is applied meanwhile
	}
	b := o.batch
	o.arrange(b)
	o.rows.give(b)
	if n := len(o.free); n > 0 {
		o.batch, o.free = o.free[n-1], o.free[:n-1]
	} else {
		o.batch = &Batch{}
	}
	o.keys.reset()
	o.order.reset()
	return b
}

// maxFree is the number of batches kept for reuse: one that fills, one that is
// applied, and some to spare.
const maxFree = 4

// Release gives a taken batch back for reuse. Where one is enough the others would
// keep for ever what they needed under load: after maxIdle small ones in a row large
// buffers go.
func (o *Overlay) Release(b *Batch) {
	if o.small++; len(b.data) > maxKept {
		o.small = 0
	}
	if len(o.free) < maxFree {
		b.Reset()
		o.free = append(o.free, b)
	}
	if o.small == maxIdle {
		o.free = slices.DeleteFunc(o.free, func(f *Batch) bool { return cap(f.data) > maxKept })
		o.small = 0
	}
}

// Rest gives up the buffers that are kept for later writes.
func (o *Overlay) Rest() {
	if o.Pending() > 0 || o.batch.bulk {
		o.free, o.space, o.spans = nil, nil, nil
		return
	}
	*o = *NewOverlay(o.base)
}

// maxArranged is the largest batch that is put in order, in bytes. What is larger is
// a page of a copy, which lies in order as far as it matters.
const maxArranged = 512 << 10

// arrange puts the writes of a batch in the order of their keys, without those that
// others have replaced: a memtable takes in a key next to the one before for a
// fraction of what one somewhere else costs, and the log is shorter.
func (o *Overlay) arrange(b *Batch) {
	if b.live < few || b.bulk || len(b.data) > maxArranged {
		return
	}
	slices.Sort(o.order.used)
	data := append(o.space[:0], b.data[:headLen]...)
	ops := o.spans[:0]
	for _, g := range o.order.used {
		s := &o.order.groups[g]
		s.update(b, &o.keys)
		for w := s.walk(1); w.more(); w.step() {
			span := b.ops[o.keys.last[w.key()]]
			from := len(data)
			data = append(data, b.data[span.begin():span.end()]...)
			span.at += from - span.begin()
			ops = append(ops, span)
		}
	}
	o.space, b.data = b.data, data
	o.spans, b.ops = b.ops, ops
}
