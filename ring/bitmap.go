package ring

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// Bitmap is a set of partitions: those that take enqueues now, say. The zero
// Bitmap is of no partitions; methods on it find nothing.
type Bitmap struct {
	partitions int
	bits       []byte // bit p%8 of byte p/8; bits past the last partition are 0
}

// NewBitmap gives the empty set for a cluster of so many partitions. Returns
// ErrPartitions.
func NewBitmap(partitions int) (*Bitmap, error) {
	if err := ValidPartitions(partitions); err != nil {
		return nil, err
	}
	return &Bitmap{partitions: partitions, bits: make([]byte, (partitions+7)/8)}, nil
}

// DecodeBitmap reads the wire form, which has 1 bit per partition: bit p%8 of
// byte p/8. Returns ErrPartitions, or ErrMalformed when the length does not
// fit the number of partitions or a bit past the last is set. It keeps nothing
// of b.
func DecodeBitmap(partitions int, b []byte) (*Bitmap, error) {
	m, err := NewBitmap(partitions)
	if err != nil {
		return nil, err
	}
	if len(b) != len(m.bits) {
		return nil, fmt.Errorf("%w: %d bytes for %d partitions", ErrMalformed, len(b), partitions)
	}
	if used := partitions % 8; used != 0 && b[len(b)-1]>>used != 0 {
		return nil, fmt.Errorf("%w: bits past partition %d", ErrMalformed, partitions-1)
	}
	copy(m.bits, b)
	return m, nil
}

// AppendTo appends the wire form, see [DecodeBitmap]: up to 512 bytes.
func (m *Bitmap) AppendTo(dst []byte) []byte { return append(dst, m.bits...) }

// Partitions is the number of partitions of the cluster.
func (m *Bitmap) Partitions() int { return m.partitions }

// Set puts a partition in or takes it out. One past the last is ignored.
func (m *Bitmap) Set(p Partition, in bool) {
	switch {
	case int(p) >= m.partitions:
	case in:
		m.bits[p/8] |= 1 << (p % 8)
	default:
		m.bits[p/8] &^= 1 << (p % 8)
	}
}

// Has says whether a partition is in.
func (m *Bitmap) Has(p Partition) bool {
	return int(p) < m.partitions && m.bits[p/8]&(1<<(p%8)) != 0
}

// Len is the number of partitions that are in.
func (m *Bitmap) Len() int {
	n := 0
	for _, b := range m.bits {
		n += bits.OnesCount8(b)
	}
	return n
}

// All goes through the partitions that are in, in order.
func (m *Bitmap) All() iter.Seq[Partition] {
	return func(yield func(Partition) bool) {
		for at, b := range m.bits {
			for ; b != 0; b &= b - 1 {
				if !yield(Partition(at*8 + bits.TrailingZeros8(b))) {
					return
				}
			}
		}
	}
}

// Equal says whether two sets are the same, of the same number of partitions.
func (m *Bitmap) Equal(o *Bitmap) bool {
	return m.partitions == o.partitions && slices.Equal(m.bits, o.bits)
}
