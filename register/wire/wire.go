package wire

import (
	"encoding/binary"
	"errors"
)

// ErrDamaged is returned when bytes are not what a writer has written.
var ErrDamaged = errors.New("register: damaged bytes")

// ErrNewer is returned when a newer version of norn has written the bytes.
var ErrNewer = errors.New("register: written by a newer version of norn; start that version")

// Writer appends to a buffer. The zero Writer is ready.
type Writer struct{ B []byte }

// Byte writes one byte.
func (w *Writer) Byte(v byte) { w.B = append(w.B, v) }

// Bool writes a truth value.
func (w *Writer) Bool(v bool) {
	if v {
		w.Byte(1)
		return
	}
	w.Byte(0)
}

// Uint writes an integer in as few bytes as it needs.
func (w *Writer) Uint(v uint64) { w.B = binary.AppendUvarint(w.B, v) }

// Fixed writes bytes whose number the reader knows.
func (w *Writer) Fixed(v []byte) { w.B = append(w.B, v...) }

// Bytes writes a length and so many bytes.
func (w *Writer) Bytes(v []byte) {
	w.Uint(uint64(len(v)))
	w.B = append(w.B, v...)
}

// String likewise.
func (w *Writer) String(v string) {
	w.Uint(uint64(len(v)))
	w.B = append(w.B, v...)
}

// Reader reads what a [Writer] wrote.
type Reader struct {
	b     []byte
	bad   bool
	newer bool
}

// NewReader reads from b, which must not change meanwhile.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Fail makes the reader fail: a value was read that cannot be.
func (r *Reader) Fail() { r.bad, r.b = true, nil }

// Newer makes the reader fail: a version was read that this build does not know.
// That is no damage, and must not be taken for it.
func (r *Reader) Newer() {
	r.newer = r.newer || !r.bad
	r.Fail()
}

// Failed reports whether something was wrong so far.
func (r *Reader) Failed() bool { return r.bad }

// End returns ErrDamaged, or ErrNewer, unless everything was read, and rightly.
func (r *Reader) End() error {
	if r.newer {
		return ErrNewer
	}
	if r.bad || len(r.b) > 0 {
		return ErrDamaged
	}
	return nil
}

// Rest gives the bytes that were not read yet, without a copy, and reads them.
func (r *Reader) Rest() []byte {
	b := r.b
	r.b = nil
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.Fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Bool reads a truth value.
func (r *Reader) Bool() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail()
	}
	return v == 1
}

// Uint reads an integer.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // cut off, too large, or longer than need be
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Fixed fills dst.
func (r *Reader) Fixed(dst []byte) {
	if len(r.b) < len(dst) {
		r.Fail()
		return
	}
	copy(dst, r.b)
	r.b = r.b[len(dst):]
}

// Count reads the length of a list of at most limit elements, each of at least
// one byte.
func (r *Reader) Count(limit int) int {
	v := r.Uint()
	if v > uint64(limit) || v > uint64(len(r.b)) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bytes reads at most limit bytes into a slice of their own; nil when there
// are none.
func (r *Reader) Bytes(limit int) []byte {
	n := r.Count(limit)
	if n == 0 {
		return nil
	}
	v := append([]byte(nil), r.b[:n]...)
	r.b = r.b[n:]
	return v
}

// String reads a string of at most limit bytes.
func (r *Reader) String(limit int) string {
	n := r.Count(limit)
	v := string(r.b[:n])
	r.b = r.b[n:]
	return v
}
