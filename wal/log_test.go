package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-dev/norn/wal"
	"github.com/norn-dev/norn/wal/memdisk"
)

const (
	series  = 0x5e71e5
	segment = 4096 // bytes, so that there are many
)

var config = wal.Config{Series: series, Segment: segment}

// body is that of a record, of a size that depends on its number.
func body(n uint64) []byte {
	size := []int{0, 1, 100, 472, 473, 700, 1500, 4100}[n%8]
	return bytes.Repeat([]byte(fmt.Sprintf("%d.", n)), size)[:size]
}

// open opens a log and gives its records, all of which are to be the ones that were written.
func open(t testing.TB, d wal.Disk, from wal.Position) (*wal.Log, []uint64, error) {
	t.Helper()
	var got []uint64
	l, err := wal.Open(d, config, from, func(n uint64, b []byte) error {
		if !bytes.Equal(b, body(n)) {
			t.Fatalf("record %d is %.40q", n, b)
		}
		got = append(got, n)
		return nil
	})
	for i, n := range got {
		if n != from.Number+uint64(i)+1 {
			t.Fatalf("records %v, from %d on", got, from.Number)
		}
	}
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l, got, err
}

// mustOpen opens a log that has these many records behind a position.
func mustOpen(t testing.TB, d wal.Disk, from wal.Position, records int) *wal.Log {
	t.Helper()
	l, got, err := open(t, d, from)
	if err != nil || len(got) != records {
		t.Fatalf("%d records, want %d: %v", len(got), records, err)
	}
	return l
}

// write writes so many records, and gives the positions behind them.
func write(t testing.TB, l *wal.Log, n int) (all []wal.Position) {
	t.Helper()
	for range n {
		b := body(l.End().Number + 1)
		p, err := l.Write(b[:len(b)/2], b[len(b)/2:])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestRecordsComeBack: from each position on, on a file system and in memory, also when
// segments were used again.
func TestRecordsComeBack(t *testing.T) {
	onFiles := func() wal.Disk {
		d, err := wal.Dir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, d := range map[string]wal.Disk{"files": onFiles(), "memory": memdisk.New()} {
		t.Run(name, func(t *testing.T) {
			l := mustOpen(t, d, wal.Position{}, 0)
			all := append([]wal.Position{{}}, write(t, l, 40)...)
			for i, p := range all {
				mustOpen(t, d, p, 40-i)
			}
			for cut := 5; cut < 200; cut += 5 {
				if err := errors.Join(l.Cut(all[cut]), l.Prepare()); err != nil {
					t.Fatal(err)
				}
				all = append(all, write(t, l, 5)...)
				again := mustOpen(t, d, all[cut], len(all)-1-cut)
				if again.End() != l.End() {
					t.Fatalf("the end is %+v, and was %+v", again.End(), l.End())
				}
				l = again
			}
			if all, used := l.Size(); used > 40*(segment+1024) || all > used+3*(segment+4096) {
				t.Errorf("%d bytes, %d in use", all, used)
			}
			if _, got, err := open(t, d, all[1]); !errors.Is(err, wal.ErrDamaged) || len(got) > 0 {
				t.Errorf("from a position that was given up: %v, %v", got, err)
			}
		})
	}
}

// TestPowerFailsAtEveryStep: whatever sectors of the write in flight are on the disk, all
// records that were acknowledged are there, and the log goes on.
func TestPowerFailsAtEveryStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	torn, whole := 0, 0
	for range 150 {
		d, from, acked := memdisk.New(), wal.Position{}, uint64(0)
		for range 12 { // lives
			l := mustOpen(t, d, from, int(acked-from.Number))
			off := errors.New("power")
			left := rng.IntN(25)
			d.Fails = func(string) error {
				if left--; left < 0 {
					return off
				}
				return nil
			}
			for {
				p, err := l.Write(body(l.End().Number + 1))
				if err != nil {
					break
				}
				acked = p.Number
				if rng.IntN(4) == 0 {
					if err := l.Cut(p); err != nil {
						t.Fatal(err)
					}
					from = p
				}
			}
			d.Fails = nil
			odds := rng.IntN(3)
			d = d.Crash(func() bool { return rng.IntN(2) < odds })
			_, got, err := open(t, d, from)
			if err != nil {
				t.Fatalf("acknowledged up to %d, from %d: %v", acked, from.Number, err)
			}
			end := from.Number + uint64(len(got))
			if end != acked && end != acked+1 {
				t.Fatalf("%d records are there, %d were acknowledged", end, acked)
			}
			if end == acked {
				torn++
			} else {
				whole++
			}
			acked = end
		}
	}
	if torn < 100 || whole < 100 {
		t.Errorf("%d torn writes, %d whole ones: that is no test", torn, whole)
	}
}

// grown is a log with segments that were used again, with the position that it is opened
// from.
func grown(t testing.TB) (*memdisk.Disk, wal.Position, uint64) {
	d := memdisk.New()
	l := mustOpen(t, d, wal.Position{}, 0)
	from := write(t, l, 12)[9]
	if err := l.Cut(from); err != nil {
		t.Fatal(err)
	}
	return d, from, write(t, l, 6)[5].Number
}

// TestEveryFlippedBit: is told, or changes nothing; only the last record may be cut.
func TestEveryFlippedBit(t *testing.T) {
	d, from, last := grown(t)
	outcomes := map[string]int{}
	names, _ := d.List()
	for _, name := range names {
		b := d.Bytes(name)
		for bit := range 8 * len(b) {
			if bit%8 != bit/8%8 && b[bit/8] == 0 && bit/8%512 > 64 {
				continue // one bit of each byte is enough where there is nothing
			}
			b[bit/8] ^= 1 << (bit % 8)
			_, got, err := open(t, d, from)
			b[bit/8] ^= 1 << (bit % 8)
			switch end := from.Number + uint64(len(got)); {
			case errors.Is(err, wal.ErrDamaged) && len(got) == 0:
				outcomes["told"]++
			case err != nil:
				t.Fatalf("%s, bit %d: %v", name, bit, err)
			case end == last:
				outcomes["none"]++
			case end == last-1:
				outcomes["cut"]++
			default:
				t.Fatalf("%s, bit %d: the log ends with record %d of %d", name, bit, end, last)
			}
		}
	}
	if l := body(last); outcomes["cut"] != 8*(40+len(l)) || outcomes["told"] < 8*1000 {
		t.Errorf("%v; the last record has %d bits", outcomes, 8*(40+len(l)))
	}
}

// TestARecordOfAnotherHistory: a record that is intact and has the right number, but is not
// the one that the next record followed, is damage.
func TestARecordOfAnotherHistory(t *testing.T) {
	d := memdisk.New()
	l := mustOpen(t, d, wal.Position{}, 0)
	write(t, l, 1)
	other := d.Crash(func() bool { return true })
	end := write(t, l, 2)
	for _, next := range []string{"another second one", "another third one"} {
		o, err := wal.Open(other, config, wal.Position{}, func(uint64, []byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write([]byte(next)); err != nil {
			t.Fatal(err)
		}
	}
	from, to := d.Bytes("000001.wal"), other.Bytes("000001.wal")
	copy(from[512:1024], to[512:1024])
	if _, got, err := open(t, d, wal.Position{}); !errors.Is(err, wal.ErrDamaged) || len(got) > 0 {
		t.Errorf("records %v, up to %d: %v", got, end[1].Number, err)
	}
}

// TestALostSegment: none may be missing between others.
func TestALostSegment(t *testing.T) {
	d, from, _ := grown(t)
	names, _ := d.List()
	told := 0
	for _, name := range names {
		without := d.Crash(func() bool { return true })
		_ = without.Remove(name)
		_, got, err := open(t, without, from)
		switch {
		case errors.Is(err, wal.ErrDamaged) && len(got) == 0:
			told++
		case err != nil || got[0] != from.Number+1:
			t.Errorf("without %s: records %v: %v", name, got, err)
		}
	}
	if told < 2 {
		t.Errorf("%d of %d segments were missed", told, len(names))
	}
}

// TestAFailedSyncIsFinal: what the disk has is unknown, and nothing is written after it.
func TestAFailedSyncIsFinal(t *testing.T) {
	for _, what := range []string{"write", "sync"} {
		d := memdisk.New()
		l := mustOpen(t, d, wal.Position{}, 0)
		write(t, l, 3)
		broken := errors.New("broken")
		d.Fails = func(w string) error {
			if w == what {
				return broken
			}
			return nil
		}
		if _, err := l.Write([]byte("x")); !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
		d.Fails = nil
		if _, err := l.Write([]byte("x")); !errors.Is(err, broken) {
			t.Errorf("after a failed %s: %v", what, err)
		}
	}
}

// TestAFullDisk: refuses a record before anything is written, and goes on once there is room.
func TestAFullDisk(t *testing.T) {
	d := memdisk.New()
	d.Room = 3 * segment
	l := mustOpen(t, d, wal.Position{}, 0)
	var all []wal.Position
	for {
		p, err := l.Write(body(l.End().Number + 1))
		if errors.Is(err, wal.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	end := l.End()
	if _, err := l.Write(body(end.Number + 1)); !errors.Is(err, wal.ErrFull) || l.End() != end {
		t.Fatalf("%v, and the end is %+v", err, l.End())
	}
	mustOpen(t, d, wal.Position{}, len(all))
	if err := l.Cut(end); err != nil {
		t.Fatal(err)
	}
	d.Room = 0
	write(t, l, 5)
	mustOpen(t, d, end, 5)
	if _, err := l.Write(make([]byte, wal.MaxRecord)); !errors.Is(err, wal.ErrTooLarge) {
		t.Errorf("a record that is too large: %v", err)
	}
}

// TestAnotherSeries: what a log of before has left on the disk is free space.
func TestAnotherSeries(t *testing.T) {
	d := memdisk.New()
	write(t, mustOpen(t, d, wal.Position{}, 0), 30)
	before, _ := d.List()
	l, err := wal.Open(d, wal.Config{Series: series + 1, Segment: segment}, wal.Position{}, func(n uint64, _ []byte) error {
		return fmt.Errorf("record %d of another log", n)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	if after, _ := d.List(); !slices.Equal(before, after) {
		t.Errorf("segments %v, before %v", after, before)
	}
}

// FuzzOpen changes bytes of a log. Whatever they are, Open does not panic, and gives records
// that were written or none.
func FuzzOpen(f *testing.F) {
	f.Add(uint16(0), uint16(0), []byte("nornwal1"))
	f.Add(uint16(1), uint16(48), []byte("nRec\xff\xff\xff\xff"))
	f.Add(uint16(2), uint16(512), []byte("nRec\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, which, at uint16, with []byte) {
		d, from, last := grown(t)
		names, _ := d.List()
		b := d.Bytes(names[int(which)%len(names)])
		copy(b[int(at)%len(b):], with)
		_, got, err := open(t, d, from)
		if err != nil && !errors.Is(err, wal.ErrDamaged) {
			t.Fatal(err)
		}
		if end := from.Number + uint64(len(got)); err == nil && end+1 < last {
			t.Fatalf("the log ends with record %d of %d", end, last)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{300, 3000, 30_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d, err := wal.Dir(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			l, err := wal.Open(d, wal.Config{Series: 1}, wal.Position{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			record := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				p, err := l.Write(record)
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Cut(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
