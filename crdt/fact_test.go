package crdt

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/norn-dev/norn/id"
)

// flipped gives the fact with each of its bits flipped in turn: of task, key, body and CRC.
func flipped(f Fact, each func(what string, f Fact)) {
	whole := f.Key.Append(bytes.Clone(f.Task[:]))
	for bit := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		k, err := DecodeKey(b[id.Size:])
		if err != nil {
			continue // it is no key any more
		}
		g := f
		g.Task, g.Key = id.ID(b), k
		each("head", g)
	}
	for bit := range 8 * len(f.Body) {
		g := f
		g.Body = bytes.Clone(f.Body)
		g.Body[bit/8] ^= 1 << (bit % 8)
		each("body", g)
	}
	for bit := range 32 {
		g := f
		g.CRC ^= 1 << bit
		if g.CRC != 0 { // that is none
			each("CRC", g)
		}
	}
}

// TestEveryFlippedBitOfAFactIsSeen by whoever checks it, and by whoever builds the view of
// its task.
func TestEveryFlippedBitOfAFactIsSeen(t *testing.T) {
	for _, f := range []Fact{
		Completed{Token: 1<<32 | 7, Seq: 3, At: 1e18, Result: []byte("the result")}.Fact(someTask()),
		Update{Token: 7, Seq: 3, Data: []byte("a checkpoint")}.Fact(someTask()),
		Cancelled{At: 5}.Fact(someTask()),
	} {
		if err := f.Check(); err != nil || f.CRC == 0 {
			t.Fatalf("%v, CRC %d", err, f.CRC)
		}
		flipped(f, func(what string, g Fact) {
			if err := g.Intact(); !errors.Is(err, ErrMalformed) {
				t.Errorf("a bit of the %s of %v: %v", what, f.Key, err)
			}
			if g.Check() == nil {
				t.Errorf("a bit of the %s of %v passes", what, f.Key)
			}
			if v := NewViewer(g.Task); v.Add(g) == nil {
				t.Errorf("a bit of the %s of %v is content", what, f.Key)
			}
		})
	}
}

// TestStoredFacts: what is stored is read as it was, whichever bit of it flips is seen, and
// a record without a CRC is valid as it ever was.
func TestStoredFacts(t *testing.T) {
	f := Completed{Token: 7, Seq: 3, At: 1e18, Result: []byte("the result")}.Fact(someTask())
	value := f.AppendStored(nil)
	if got, err := Stored(f.Task, f.Key, value); err != nil || got.CRC != f.CRC || !bytes.Equal(got.Body, f.Body) || got.Intact() != nil || len(value) != len(f.Body)+StoredExtra {
		t.Errorf("stored as %x, read as %+v", value, got)
	}
	for bit := range 8 * len(value) {
		b := bytes.Clone(value)
		b[bit/8] ^= 1 << (bit % 8)
		if got, err := Stored(f.Task, f.Key, b); err == nil && got.Intact() == nil {
			t.Errorf("bit %d of %d passes", bit, 8*len(value))
		}
	}
	old, err := Stored(f.Task, f.Key, f.Body)
	if err != nil || old.CRC != 0 || !bytes.Equal(old.Body, f.Body) || old.Check() != nil {
		t.Errorf("a record of before: %+v", old)
	}
	if b := old.AppendStored(nil); !bytes.Equal(b, f.Body) {
		t.Errorf("it is stored as %x", b)
	}
	if HashFact(old) != HashFact(f) {
		t.Error("the hash depends on the CRC")
	}
	for _, short := range [][]byte{nil, {summed}, {summed, 1, 2, 3}, {summed, 0, 0, 0, 0, 1}, {0}, {2, 1}} {
		if _, err := Stored(f.Task, f.Key, short); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x passes", short)
		}
	}
}

// BenchmarkCRC is what the CRC of a fact costs, once: it is made where the fact is encoded,
// and looked at where it comes and where it is read.
func BenchmarkCRC(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "10KiB": 10 << 10, "1MiB": 1 << 20} {
		f := Completed{Token: 7, Result: make([]byte, size)}.Fact(someTask())
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if f.Intact() != nil {
					b.Fatal("damaged")
				}
			}
		})
	}
}

// TestTheChecksumOfAFact is that of all its bytes, whatever their number.
func TestTheChecksumOfAFact(t *testing.T) {
	b := make([]byte, 40)
	for i := range b {
		b[i] = byte(i*7 + 1)
		if got, want := crcOf(b[:i]), crc32.Checksum(b[:i], castagnoli); got != want {
			t.Errorf("of %d bytes: %x, want %x", i, got, want)
		}
	}
}
