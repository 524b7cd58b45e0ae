package store

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"
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
//
// The buffer is in the form of Pebble's batches, which can take it as it is.
type Batch struct {
	data []byte
	ops  []span
	live int // writes that are not dropped
	size int // bytes of keys and values of those
	idle int // uses in a row that needed little of a large buffer
	bulk bool
	rows [][]int32 // writes each in the order of their keys, that begin alike and that no others do
}

// headLen is the length of the head of a batch: a number that Pebble writes, and
// how many writes there are.
const headLen = 12

// span is where a write lies in the buffer: the key from at, then the value
// behind its length. Before the key are its kind and length.
type span struct {
	at         int
	key, value uint32 // lengths
	kind       kind
	indexed    bool // of one in a row: it is in the index
}

// kind is what a write does, in Pebble's numbers.
type kind uint8

const (
	kindDelete  = kind(pebble.InternalKeyKindDelete)
	kindSet     = kind(pebble.InternalKeyKindSet)
	kindDropped = kind(pebble.InternalKeyKindLogData) // a later write of the same batch replaces it
)

// begin is where the write begins in the buffer.
func (s *span) begin() int { return s.at - sizeUvarint(s.key) - 1 }

// valueAt is where the value begins, or where the write ends that has none.
func (s *span) valueAt() int {
	if s.kind == kindDelete {
		return s.at + int(s.key)
	}
	return s.at + int(s.key) + sizeUvarint(s.value)
}

func (s *span) end() int { return s.valueAt() + int(s.value) }

func sizeUvarint(n uint32) int { return (bits.Len32(n|1) + 6) / 7 }

// Set adds a write.
func (b *Batch) Set(key, value []byte) { b.add(key, value, kindSet) }

// Delete adds a delete.
func (b *Batch) Delete(key []byte) { b.add(key, nil, kindDelete) }

// Grow makes room for so many bytes of keys and values: before a large write in
// pieces, so that the buffer does not grow piece by piece.
func (b *Batch) Grow(bytes int) { b.data = slices.Grow(b.data, bytes) }

// Bulk says that much of what is in the batch lies in a row where nothing was
// before. Then a store may take its time to apply it, if it costs less that way.
func (b *Batch) Bulk() { b.bulk = true }

// InBulk tells whether [Batch.Bulk] was said of it.
func (b *Batch) InBulk() bool { return b.bulk }

func (b *Batch) add(key, value []byte, k kind) {
	if len(b.data) == 0 {
		b.data = append(b.data, make([]byte, headLen)...)
	}
	b.data = binary.AppendUvarint(append(b.data, byte(k)), uint64(len(key)))
	b.ops = append(b.ops, span{len(b.data), uint32(len(key)), uint32(len(value)), k, false})
	b.data = append(b.data, key...)
	if k == kindSet {
		b.data = append(binary.AppendUvarint(b.data, uint64(len(value))), value...)
	}
	b.live++
	b.size += len(key) + len(value)
}

// drop takes a write out. Its bytes stay in the buffer until Reset, as one that
// does nothing.
func (b *Batch) drop(i int) {
	s := &b.ops[i]
	whole := b.data[s.begin():s.end()]
	whole[0] = byte(kindDropped)
	// One length for all that follows, in as many bytes as it takes; it may be
	// written in more than it needs.
	width := 1
	for len(whole)-1-width >= 1<<(7*width) {
		width++
	}
	for i, rest := 0, len(whole)-1-width; i < width; i, rest = i+1, rest>>7 {
		whole[1+i] = byte(rest&0x7f) | 0x80
	}
	whole[width] &= 0x7f
	s.kind = kindDropped
	b.live--
	b.size -= int(s.key) + int(s.value)
}

// repr gives the batch in Pebble's form, without a copy. It is valid until the
// batch changes.
func (b *Batch) repr() []byte {
	binary.LittleEndian.PutUint32(b.data[headLen-4:], uint32(b.live))
	return b.data
}

// Len is the number of writes.
func (b *Batch) Len() int { return b.live }

// Size is the number of bytes in keys and values.
func (b *Batch) Size() int { return b.size }

// maxKept and maxKeptOps are the largest buffers kept for reuse, in bytes and
// writes: a rare large batch must not hold its memory for ever. While a replica
// is filled one follows the other: what is up to maxBusy is kept until maxIdle
// uses in a row needed little of it. To make it anew each time, piece by piece,
// was a quarter of what filling cost.
const (
	maxKept    = 512 << 10
	maxBusy    = 32 << 20
	maxIdle    = 64
	maxKeptOps = 64 << 10
)

// Reset empties the batch.
func (b *Batch) Reset() {
	b.idle++
	if cap(b.data) <= maxKept || len(b.data) > cap(b.data)/8 {
		b.idle = 0
	}
	if b.idle == maxIdle || cap(b.data) > maxBusy || cap(b.ops) > maxKeptOps {
		*b = Batch{}
	}
	clear(b.rows)
	b.rows = b.rows[:0]
	b.data, b.ops, b.live, b.size, b.bulk = b.data[:0], b.ops[:0], 0, 0, false
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
	end := s.end()
	return Op{Key: b.keyOf(i), Value: b.data[s.valueAt():end:end]}
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
