package store

import "iter"

// Op is one write of a batch.
type Op struct {
	Delete bool
	Key    []byte
	Value  []byte // nil for a delete
}

// Batch is an ordered list of writes that are applied together. The zero Batch
// is empty. Keys and values are copied into one buffer that is kept for reuse.
type Batch struct {
	data []byte
	ops  []span
}

// span is where a write lies in the buffer.
type span struct {
	key, value, end int
	deleted         bool
}

// Set adds a write.
func (b *Batch) Set(key, value []byte) {
	at := len(b.data)
	b.data = append(append(b.data, key...), value...)
	b.ops = append(b.ops, span{at, at + len(key), len(b.data), false})
}

// Delete adds a delete.
func (b *Batch) Delete(key []byte) {
	at := len(b.data)
	b.data = append(b.data, key...)
	b.ops = append(b.ops, span{at, len(b.data), len(b.data), true})
}

// Len is the number of writes.
func (b *Batch) Len() int { return len(b.ops) }

// Size is the number of bytes in keys and values.
func (b *Batch) Size() int { return len(b.data) }

// maxKept is the largest buffer kept for reuse: a rare large batch must not
// hold its memory for ever.
const maxKept = 4 << 20

// Reset empties the batch.
func (b *Batch) Reset() {
	if cap(b.data) > maxKept {
		*b = Batch{}
	}
	b.data, b.ops = b.data[:0], b.ops[:0]
}

func (b *Batch) op(i int) Op {
	s := &b.ops[i]
	if s.deleted {
		return Op{Delete: true, Key: b.data[s.key:s.value:s.value]}
	}
	return Op{Key: b.data[s.key:s.value:s.value], Value: b.data[s.value:s.end:s.end]}
}

// All gives the writes in order. The slices belong to the batch.
func (b *Batch) All() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for i := range b.ops {
			if !yield(b.op(i)) {
				return
			}
		}
	}
}
