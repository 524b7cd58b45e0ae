package wire

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		s := rapid.String().Draw(t, "s")
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		flag := rapid.Bool().Draw(t, "flag")
		var w Writer
		w.Uint(n)
		w.String(s)
		w.Bytes(b)
		w.Bool(flag)
		w.Fixed([]byte{1, 2})
		r := NewReader(w.B)
		var two [2]byte
		if r.Uint() != n || r.String(1<<20) != s || !bytes.Equal(r.Bytes(1<<20), b) || r.Bool() != flag {
			t.Fatal("another value was read")
		}
		if r.Fixed(two[:]); two != [2]byte{1, 2} || r.End() != nil {
			t.Fatalf("the end is %v %v", two, r.End())
		}
		for cut := range len(w.B) {
			r := NewReader(w.B[:cut])
			r.Uint()
			_, _, _ = r.String(1<<20), r.Bytes(1<<20), r.Bool()
			if r.Fixed(two[:]); !errors.Is(r.End(), ErrDamaged) {
				t.Fatalf("a cut at %d of %d went unnoticed", cut, len(w.B))
			}
		}
	})
}

func TestLimitsHold(t *testing.T) {
	var w Writer
	w.String("abcd")
	if r := NewReader(w.B); r.String(3) != "" || !r.Failed() {
		t.Error("a string over its limit was read")
	}
	if r := NewReader([]byte{0x80, 0x00}); r.Uint() != 0 || !r.Failed() {
		t.Error("an integer in more bytes than it needs was read: two encodings of one value")
	}
	if r := NewReader([]byte{2}); r.Bool() || !r.Failed() {
		t.Error("2 was read as a truth value")
	}
	if r := NewReader([]byte{200, 1}); r.Count(1<<30) != 0 || !r.Failed() {
		t.Error("a count over the bytes that are left was read")
	}
}
