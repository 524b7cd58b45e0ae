package peer

import (
	"fmt"
	"unicode/utf8"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	"google.golang.org/protobuf/encoding/protowire"
)

// coder goes through the fields of a message: it adds up what they take, appends them, or
// reads them. So the format of each message is said once, by a function that names its fields.
//
// The format is that of the message's proto: what is zero is left out, and what comes twice
// counts as it came last. These messages are the hot path; a message of Go objects per fact
// would cost more than the facts.
type coder struct {
	phase phase
	err   error // the first one; nothing counts after it

	size int // sizing: bytes so far
	// Invariant: sizing and writing go through the same fields in the same order, so that each
	// length that was added up is found where it is written. A message must not change between
	// the two.
	sizes []int // of the fields that have a length, in the order in which they are written
	next  int   // writing: which of these is next
	out   []byte

	arrived
}

// arrived is what has been read of a message.
type arrived struct {
	in    field  // the field that has come; number 0: all have
	came  uint64 // a bit for each number that has come
	count uint64 // a number that goes with raw
	raw   []byte // bytes that are read when all has come
}

type phase uint8

const (
	sizing phase = iota
	writing
	reading
)

// field is one field of a message in proto's format.
type field struct {
	number protowire.Number
	value  uint64 // of a number
	bytes  []byte // of what has a length; aliases the message
}

// anything is the limit of numbers that have none but their size.
const anything = 1<<64 - 1

// manyElements is the limit of lists that the bytes of their message bound.
const manyElements = 1 << 30

// malformed makes an error that wraps [ErrMalformed].
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// fail keeps the first error.
func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// comes tells whether a field is the one that is to be read now.
func (c *coder) comes(n protowire.Number) bool {
	return c.phase == reading && c.in.number == n && c.err == nil
}

// ends tells whether all fields have come.
func (c *coder) ends() bool { return c.phase == reading && c.in.number == 0 && c.err == nil }

// varint writes a number, 0 too.
func (c *coder) varint(n protowire.Number, v uint64) {
	switch c.phase {
	case sizing:
		c.size += protowire.SizeTag(n) + protowire.SizeVarint(v)
	case writing:
		c.out = appendVarint(c.out, n, v)
	}
}

// whole is a whole number from 0 to most, or one of int64 where anything may come.
func whole[T ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~int64](c *coder, n protowire.Number, v *T, most uint64) {
	switch {
	case c.comes(n) && c.in.value > most:
		c.fail(malformed("field %d is %d, over %d", n, c.in.value, most))
	case c.comes(n):
		*v = T(c.in.value)
	case *v != 0:
		c.varint(n, uint64(*v))
	}
}

// partition is the number of a partition.
func (c *coder) partition(n protowire.Number, p *ring.Partition) {
	whole(c, n, p, ring.MaxPartitions-1)
}

// fixed64 is a number that takes eight bytes.
func (c *coder) fixed64(n protowire.Number, v *uint64) {
	switch {
	case c.comes(n):
		*v = c.in.value
	case *v == 0:
	case c.phase == sizing:
		c.size += protowire.SizeTag(n) + protowire.SizeFixed64()
	case c.phase == writing:
		c.out = protowire.AppendFixed64(protowire.AppendTag(c.out, n, protowire.Fixed64Type), *v)
	}
}

// flag is a boolean; false is left out.
func (c *coder) flag(n protowire.Number, is *bool) {
	switch {
	case c.comes(n):
		*is = c.in.value != 0
	case *is:
		c.varint(n, 1)
	}
}

// head writes what precedes so many bytes of a field.
func (c *coder) head(n protowire.Number, size int) {
	switch c.phase {
	case sizing:
		c.sizes = append(c.sizes, size)
		c.size += protowire.SizeTag(n) + protowire.SizeBytes(size)
	case writing:
		c.out = appendHead(c.out, n, c.sizes[c.next])
		c.next++
	}
}

// blob is a field of bytes in a form of its own: so many as size says, which is asked once, as
// put appends them and get reads them. None of them are left out.
func (c *coder) blob(n protowire.Number, some bool, size func() int, put func(dst []byte) []byte, get func(b []byte) error) {
	switch {
	case c.comes(n):
		c.fail(get(c.in.bytes))
	case !some:
	case c.phase == sizing:
		c.head(n, size())
	case c.phase == writing:
		c.head(n, 0)
		c.out = put(c.out)
	}
}

// data is bytes; those that are read alias the message.
func (c *coder) data(n protowire.Number, v *[]byte) {
	c.blob(n, len(*v) > 0, func() int { return len(*v) }, func(dst []byte) []byte { return append(dst, *v...) }, func(b []byte) error {
		*v = b
		return nil
	})
}

// text is a name.
func (c *coder) text(n protowire.Number, v *string) {
	c.blob(n, *v != "", func() int { return len(*v) }, func(dst []byte) []byte { return append(dst, *v...) }, func(b []byte) error {
		if len(b) > register.MaxName || !utf8.Valid(b) {
			return malformed("a name of %d bytes", len(b))
		}
		*v = string(b)
		return nil
	})
}

// exact is a field of fixed length that has to be there.
func (c *coder) exact(n protowire.Number, v []byte) {
	c.blob(n, true, func() int { return len(v) }, func(dst []byte) []byte { return append(dst, v...) }, func(b []byte) error { return fill(v, b) })
	if c.ends() && c.came&(1<<n) == 0 {
		c.fail(malformed("field %d is missing", n))
	}
}

// records are elements of fixed length, one after the other.
func records[T any](c *coder, n protowire.Number, all *[]T, each int, put func(dst []byte, x *T) []byte, get func(x *T, b []byte)) {
	c.blob(n, len(*all) > 0, func() int { return each * len(*all) }, func(dst []byte) []byte {
		for i := range *all {
			dst = put(dst, &(*all)[i])
		}
		return dst
	}, func(b []byte) error {
		if len(b)%each != 0 {
			return malformed("%d bytes of elements of %d", len(b), each)
		}
		*all = make([]T, len(b)/each)
		for i := range *all {
			get(&(*all)[i], b[i*each:])
		}
		return nil
	})
}

// partitions is a list of them, packed or not.
func (c *coder) partitions(n protowire.Number, all *[]ring.Partition) {
	c.blob(n, len(*all) > 0, func() (size int) {
		for _, p := range *all {
			size += protowire.SizeVarint(uint64(p))
		}
		return size
	}, func(dst []byte) []byte {
		for _, p := range *all {
			dst = protowire.AppendVarint(dst, uint64(p))
		}
		return dst
	}, func(b []byte) (err error) {
		*all, err = c.in.partitions(*all)
		return err
	})
}

// nested is a field that is a message of its own.
func nested[T any](c *coder, n protowire.Number, m *T, format func(*coder, *T)) {
	switch {
	case c.comes(n):
		decode(c, c.in.bytes, m, format)
	case c.phase == sizing:
		before, at := c.size, len(c.sizes)
		c.sizes = append(c.sizes, 0)
		c.size = 0
		format(c, m)
		c.sizes[at] = c.size
		c.size = before + protowire.SizeTag(n) + protowire.SizeBytes(c.size)
	case c.phase == writing:
		c.head(n, 0)
		format(c, m)
	}
}

// repeated is a field that is messages of one kind, up to a number of them.
func repeated[T any](c *coder, n protowire.Number, all *[]T, most int, format func(*coder, *T)) {
	switch {
	case c.comes(n) && len(*all) >= most:
		c.fail(malformed("over %d elements of field %d", most, n))
	case c.comes(n):
		*all = append(*all, *new(T))
		decode(c, c.in.bytes, &(*all)[len(*all)-1], format)
	case c.phase != reading:
		for i := range *all {
			nested(c, n, &(*all)[i], format)
		}
	}
}

// decode reads a message, also one that is a field of another one.
func decode[T any](c *coder, b []byte, m *T, format func(*coder, *T)) {
	outer := c.arrived
	c.arrived = arrived{}
	c.fail(fields(b, func(f field) error {
		c.in, c.came = f, c.came|1<<min(f.number, 63)
		format(c, m)
		return c.err
	}))
	c.in = field{}
	format(c, m)
	c.arrived = outer
}

// fields calls visit for each field of a message. Fields of other shapes are passed over, as
// unknown ones are.
func fields(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		number, shape, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed("%w", protowire.ParseError(n))
		}
		b = b[n:]
		f, known := field{number: number}, true
		switch shape {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.value, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n, known = protowire.ConsumeFieldValue(number, shape, b), false
		}
		if n < 0 {
			return malformed("%w", protowire.ParseError(n))
		}
		b = b[n:]
		if known {
			if err := visit(f); err != nil {
				return err
			}
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
		return malformed("%d bytes instead of %d", len(b), len(dst))
	}
	copy(dst, b)
	return nil
}

// partitions appends what a field of a list holds: packed, or one element.
func (f field) partitions(to []ring.Partition) ([]ring.Partition, error) {
	rest, one := f.bytes, f.bytes == nil
	for one || len(rest) > 0 {
		v := f.value
		if !one {
			n := 0
			if v, n = protowire.ConsumeVarint(rest); n < 0 {
				return nil, malformed("%w", protowire.ParseError(n))
			}
			rest = rest[n:]
		}
		if v >= ring.MaxPartitions || len(to) >= ring.MaxPartitions {
			return nil, malformed("partition %d, as the %d-th", v, len(to)+1)
		}
		to, one = append(to, ring.Partition(v)), false
	}
	return to, nil
}
