package peer

import (
	"fmt"

	"github.com/norn-dev/norn/ring"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message in proto's format.
type field struct {
	number protowire.Number
	value  uint64 // of a varint
	bytes  []byte // of what has a length; aliases the message
}

// fields calls visit for each field of a message. Fields of other shapes are
// passed over, as unknown ones are.
func fields(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		number, shape, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
		}
		b = b[n:]
		f := field{number: number}
		switch shape {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			f.number = 0
			n = protowire.ConsumeFieldValue(number, shape, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
		}
		b = b[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// appendVarint appends a number, 0 too.
func appendVarint(dst []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

// appendHead appends what precedes so many bytes of a field.
func appendHead(dst []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(size))
}

// fill copies a field of fixed length.
func fill(dst, b []byte) error {
	if len(b) != len(dst) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrMalformed, len(b), len(dst))
	}
	copy(dst, b)
	return nil
}

// appendPartitions appends a packed list.
func appendPartitions(dst []byte, number protowire.Number, all []ring.Partition) []byte {
	if len(all) == 0 {
		return dst
	}
	size := 0
	for _, p := range all {
		size += protowire.SizeVarint(uint64(p))
	}
	dst = appendHead(dst, number, size)
	for _, p := range all {
		dst = protowire.AppendVarint(dst, uint64(p))
	}
	return dst
}

// partitions appends what a field of a list holds: packed, or one element.
func (f field) partitions(to []ring.Partition) ([]ring.Partition, error) {
	rest, one := f.bytes, f.bytes == nil
	for one || len(rest) > 0 {
		v := f.value
		if !one {
			n := 0
			if v, n = protowire.ConsumeVarint(rest); n < 0 {
				return nil, fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
			}
			rest = rest[n:]
		}
		p, err := partitionOf(v)
		if err != nil {
			return nil, err
		}
		if len(to) >= ring.MaxPartitions {
			return nil, fmt.Errorf("%w: over %d partitions", ErrMalformed, ring.MaxPartitions)
		}
		to = append(to, p)
		one = false
	}
	return to, nil
}

func partitionOf(v uint64) (ring.Partition, error) {
	if v >= ring.MaxPartitions {
		return 0, fmt.Errorf("%w: partition %d", ErrMalformed, v)
	}
	return ring.Partition(v), nil
}
