package crdt

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/norn-dev/norn/id"
)

// version is the first byte of every body, but for those that have got further fields
// since: theirs is furtherVersion, so that older builds say that they do not know it.
const (
	version        = 1
	furtherVersion = 2
)

// MaxBody bounds a body in bytes: twice the highest payload that can be
// configured. Longer ones are refused before anything is read.
const MaxBody = 32 << 20

// Bounds of lists inside a body, so that a few bytes cannot ask for much
// memory. What clients may send is far below.
const (
	maxDependencies = 1 << 16
	maxHeaders      = 1 << 12
)

// small is the largest number that is its own byte.
const small = 247

func appendUint(dst []byte, v uint64) []byte {
	if v <= small {
		return append(dst, byte(v))
	}
	n := (bits.Len64(v) + 7) / 8
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return append(append(dst, byte(small+n)), b[8-n:]...)
}

func appendInt32(dst []byte, v int32) []byte {
	return appendUint(dst, uint64(uint32(v)<<1^uint32(v>>31)))
}

func appendBytes[T ~string | ~[]byte](dst []byte, b T) []byte {
	return append(appendUint(dst, uint64(len(b))), b...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// reader reads a body. After the first problem everything it gives is zero,
// and end tells.
type reader struct {
	rest    []byte
	err     error
	version byte
}

// read starts on a body: checks its size and version.
func read(body []byte) reader { return readUpTo(body, version) }

// readUpTo is the same for a body that may have a newer version.
func readUpTo(body []byte, newest byte) reader {
	switch {
	case len(body) == 0:
		return reader{err: fmt.Errorf("%w: empty body", ErrMalformed)}
	case len(body) > MaxBody:
		return reader{err: fmt.Errorf("%w: body of %d bytes, over %d", ErrMalformed, len(body), MaxBody)}
	case body[0] == 0:
		return reader{err: fmt.Errorf("%w: version 0", ErrMalformed)}
	case body[0] > newest:
		return reader{err: fmt.Errorf("%w: version %d", ErrUnknown, body[0])}
	}
	return reader{rest: body[1:], version: body[0]}
}

// end gives the first problem, bytes left over included.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		return fmt.Errorf("%w: %d bytes left over", ErrMalformed, len(r.rest))
	}
	return r.err
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.rest = nil
}

func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		r.fail("too short")
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint() uint64 {
	first := r.take(1)
	if first == nil {
		return 0
	}
	if first[0] <= small {
		return uint64(first[0])
	}
	b := r.take(uint64(first[0] - small))
	if b == nil {
		return 0
	}
	v := uint64(0)
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	if b[0] == 0 || v <= small {
		r.fail("number with leading zeros")
		return 0
	}
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uint()
	if v > math.MaxUint32 {
		r.fail("number over 32 bits")
		return 0
	}
	return uint32(v)
}

func (r *reader) int64() int64 { return int64(r.uint()) }

func (r *reader) int32() int32 {
	v := r.uint32()
	return int32(v>>1) ^ -int32(v&1)
}

// count reads the length of a list whose elements take at least size bytes.
func (r *reader) count(size, limit int) int {
	n := r.uint()
	if n > uint64(limit) || n > uint64(len(r.rest)/size) {
		r.fail("list too long")
		return 0
	}
	return int(n)
}

// bytes gives nil for no bytes.
func (r *reader) bytes() []byte {
	b := r.take(r.uint())
	if len(b) == 0 {
		return nil
	}
	return b
}

func (r *reader) text() string { return string(r.bytes()) }

func (r *reader) flag(limit byte) byte {
	b := r.take(1)
	if b == nil {
		return 0
	}
	if b[0] > limit {
		r.fail("flag out of range")
		return 0
	}
	return b[0]
}

func (r *reader) bool() bool { return r.flag(1) == 1 }

func (r *reader) id() id.ID {
	b := r.take(id.Size)
	if b == nil {
		return id.ID{}
	}
	return id.ID(b)
}
