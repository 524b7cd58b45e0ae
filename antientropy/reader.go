package antientropy

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is returned when bytes are not a message in canonical form.
var ErrMalformed = errors.New("antientropy: malformed message")

// ErrVersion is returned when a message is of a version or kind, or a peer
// wants a hash, that this build does not know: it is newer, and not damaged.
var ErrVersion = errors.New("antientropy: unknown version")

// reader reads a message. After the first problem everything it gives is zero,
// and end tells.
type reader struct {
	rest []byte
	err  error
}

func newReader(b []byte) *reader {
	switch {
	case len(b) == 0:
		return &reader{err: fmt.Errorf("%w: empty", ErrMalformed)}
	case len(b) > MaxMessage:
		return &reader{err: fmt.Errorf("%w: %d bytes, over %d", ErrMalformed, len(b), MaxMessage)}
	case b[0] != codecVersion:
		return &reader{err: fmt.Errorf("%w: message of version %d", ErrVersion, b[0])}
	}
	return &reader{rest: b[1:]}
}

// end gives the first problem, bytes left over included.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("bytes left over")
	}
	return r.err
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.rest = nil
}

func (r *reader) unknown(what string, n uint8) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %d", ErrVersion, what, n)
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

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 {
		r.fail("number")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads the length of a list whose elements take at least size bytes.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.fail("list too long")
		return 0
	}
	return int(n)
}
