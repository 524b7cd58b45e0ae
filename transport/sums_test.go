package transport

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
)

// TestEveryFlippedBitIsSeen: of frames with sums, whichever bit is flipped, nothing is
// handed out, and who waits for the rest of a frame waits for no more than it has.
func TestEveryFlippedBitIsSeen(t *testing.T) {
	for _, f := range []Frame{
		{Method: 2},
		{Request: 1, Method: 1, Body: []byte("hello")},
		{Request: 1, Method: 1, Flags: FlagResponse | FlagError, Body: bytes.Repeat([]byte{0}, 300)},
		{Method: 32, Body: bytes.Repeat([]byte("fact"), 50)},
	} {
		b := AppendSummed(nil, f)
		got, n, err := ParseSummed(b, DefaultMaxFrame)
		if err != nil || n != len(b) {
			t.Fatalf("n %d of %d, err %v", n, len(b), err)
		}
		wantFrame(t, got, f)
		for cut := range b {
			if _, n, err := ParseSummed(b[:cut], DefaultMaxFrame); n != 0 || err != nil {
				t.Fatalf("%d of %d bytes: n %d, err %v", cut, len(b), n, err)
			}
		}
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			if got, n, err := ParseSummed(b, DefaultMaxFrame); !errors.Is(err, ErrDamaged) || n != 0 || got.Body != nil {
				t.Errorf("bit %d of byte %d: %d bytes are taken, %v", bit%8, bit/8, n, err)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestADamagedFrameEndsALink: the frames before it are handed over, it and those after it
// are not, and it is told; also where the bit is one of the length, for the end of which
// nobody waits.
func TestADamagedFrameEndsALink(t *testing.T) {
	first, last := AppendSummed(nil, Frame{Method: 3, Body: []byte("good")}), AppendSummed(nil, Frame{Method: 3, Body: []byte("late")})
	size := len(AppendSummed(nil, Frame{Method: 3, Body: []byte("damaged")}))
	for bit := range 8 * size {
		synctest.Test(t, func(t *testing.T) {
			x, y := Pipe(0)
			l, h, ended := NewLink(x, LinkConfig{}), &linkHandler{}, make(chan error, 1)
			go func() { ended <- l.Read(h) }()
			b := AppendSummed(bytes.Clone(first), Frame{Method: 3, Body: []byte("damaged")})
			b[len(first)+bit/8] ^= 1 << (bit % 8)
			if _, err := y.Write(append(b, last...)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // no time passes
			select {
			case err := <-ended:
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("bit %d: %v", bit, err)
				}
			default:
				t.Errorf("bit %d: still read", bit)
				l.Close(nil)
				<-ended
			}
			if len(h.bodies) != 1 || h.bodies[0] != "good" || h.damaged != 1 || h.bursts != 1 {
				t.Errorf("bit %d: came %q in %d bursts, damaged %d", bit, h.bodies, h.bursts, h.damaged)
			}
			_ = y.Close()
		})
	}
}

// BenchmarkSums is what the sums of a frame cost, made and checked.
func BenchmarkSums(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20} {
		f := Frame{Method: 32, Body: make([]byte, size)}
		for what, do := range map[string]func(dst []byte) (Frame, int, error){
			"with":    func(dst []byte) (Frame, int, error) { return ParseSummed(AppendSummed(dst, f), DefaultMaxFrame) },
			"without": func(dst []byte) (Frame, int, error) { return ParseFrame(AppendFrame(dst, f), DefaultMaxFrame) },
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				dst := make([]byte, 0, size+100)
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, n, err := do(dst[:0]); n == 0 || err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
