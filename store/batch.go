package store

import (
	"iter"
	"slices"
)

// Op is one write of a batch.
type Op struct {
	Delete bool
	Key    []byte
	Value  []byte // nil for a delete
}

// Batch is an ordered list of writes that are applied together. The zero Batch
// is empty. Keys and values are copied into one buffer that is kept for reuse;
// after a few rounds a batch allocates nothing. One write is less than 4 GiB.
type Batch struct {
	data []byte
	ops  []span
	live int // writes that are not dropped
	size int // bytes of keys and values of those
}

// span is where a write lies in the buffer: the key from at, then the value.
type span struct {
	at         int
	key, value uint32 // lengths
	kind       kind
}

type kind uint8

const (
	kindSet kind = iota
	kindDelete
	kindDropped // a later write of the same batch replaces it
)

// Set adds a write.
func (b *Batch) Set(key, value []byte) { b.add(key, value, kindSet) }

// Delete adds a delete.
func (b *Batch) Delete(key []byte) { b.add(key, nil, kindDelete) }

// Grow makes room for so many bytes of keys and values: before a large write in
// pieces, so that the buffer does not grow piece by piece.
func (b *Batch) Grow(bytes int) { b.data = slices.Grow(b.data, bytes) }

func (b *Batch) add(key, value []byte, k kind) {
	b.ops = append(b.ops, span{len(b.data), uint32(len(key)), uint32(len(value)), k})
	b.data = append(append(b.data, key...), value...)
	b.live++
	b.size += len(key) + len(value)
}

// drop takes a write out. Its bytes stay in the buffer until Reset.
func (b *Batch) drop(i int) {
	s := &b.ops[i]
	s.kind = kindDropped
	b.live--
	b.size -= int(s.key) + int(s.value)
}

// Len is the number of writes.
func (b *Batch) Len() int { return b.live }

// Size is the number of bytes in keys and values.
func (b *Batch) Size() int { return b.size }

// maxKept and maxKeptOps are the largest buffers kept for reuse, in bytes and
// writes: a rare large batch must not hold its memory for ever.
const (
	maxKept    = 4 << 20
	maxKeptOps = 64 << 10
)

// Reset empties the batch.
func (b *Batch) Reset() {
	if cap(b.data) > maxKept || cap(b.ops) > maxKeptOps {
		*b = Batch{}
	}
	b.data, b.ops, b.live, b.size = b.data[:0], b.ops[:0], 0, 0
}

// keyOf is the key of a write.
func (b *Batch) keyOf(i int) []byte {
	s := &b.ops[i]
	end := s.at + int(s.key)
	return b.data[s.at:end:end]
}

func (b *Batch) op(i int) Op {
	s := &b.ops[i]
	if s.kind == kindDelete {
		return Op{Delete: true, Key: b.keyOf(i)}
	}
	at := s.at + int(s.key)
	end := at + int(s.value)
	return Op{Key: b.keyOf(i), Value: b.data[at:end:end]}
}

// All gives the writes in order. The slices belong to the batch.
func (b *Batch) All() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for i := range b.ops {
			if b.ops[i].kind != kindDropped && !yield(b.op(i)) {
				return
			}
		}
	}
}
