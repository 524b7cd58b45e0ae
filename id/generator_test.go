package id

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const someWall = int64(1_790_000_000_000_000_000)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestStrictOrderOfAMillion(t *testing.T) {
	r := seeded(1)
	g := NewGenerator(r.Uint32(), r.Uint64)
	last, wall := ID{}, someWall
	for n := range 1_000_000 {
		wall += r.Int64N(3) // often twice the same nanosecond
		i := g.Next(wall)
		if i.Compare(last) <= 0 {
			t.Fatalf("number %d: %s is not after %s", n, i, last)
		}
		last = i
	}
}

func TestStrictOrderWhateverTheClockDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGenerator(1, func() uint64 { return 5 })
		last, highest := ID{}, firstNanos
		for _, wall := range rapid.SliceOfN(rapid.Int64Range(firstNanos-10, firstNanos+100), 1, 50).Draw(t, "walls") {
			i := g.Next(wall)
			if i.Compare(last) <= 0 || i.Kind() != KindTask {
				t.Fatalf("%x of kind %d follows %x", i, i.Kind(), last)
			}
			if want := max(highest+1, wall); last != (ID{}) && i.Nanos() != want {
				t.Fatalf("at %d, after %d: %d", wall, highest, i.Nanos())
			}
			if got, want := g.Ahead(wall), time.Duration(i.Nanos()-max(wall, firstNanos)); got != want {
				t.Fatalf("%v ahead, want %v", got, want)
			}
			last, highest = i, i.Nanos()
		}
		if g.Ahead(highest+1) != 0 {
			t.Fatal("a clock that has caught up is behind")
		}
	})
}

func TestStepBackIsReported(t *testing.T) {
	g := NewGenerator(1, func() uint64 { return 0 })
	first := g.Next(someWall)
	if got := g.Ahead(someWall - int64(time.Minute)); got != time.Minute || got <= MaxAhead {
		t.Errorf("a clock set back by a minute leaves the generator %v ahead", got)
	}
	if second := g.Next(someWall - int64(time.Minute)); second.Compare(first) <= 0 {
		t.Errorf("%s is not after %s", second, first)
	}
}

func TestGeneratorsNeverCollide(t *testing.T) {
	const generators, each = 8, 50_000
	seen := make(map[ID]bool, generators*each)
	for n := range generators {
		// All at the same instants, with the same "random" bits: what keeps them
		// apart is the incarnation alone.
		r := seeded(42)
		g := NewGenerator(uint32(n), r.Uint64)
		for k := range each {
			i := g.Next(someWall + int64(k/3))
			if seen[i] {
				t.Fatalf("%s was made twice", i)
			}
			seen[i] = true
		}
	}
}

// A restart draws a new incarnation: its IDs differ from those of the life
// before even if the clock and the random source start where they did then.
func TestRestartDoesNotRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		before := rapid.Uint32().Draw(t, "before")
		after := rapid.Uint32().Filter(func(v uint32) bool { return v != before }).Draw(t, "after")
		a, b := NewGenerator(before, seeded(seed).Uint64), NewGenerator(after, seeded(seed).Uint64)
		for range 20 {
			if x, y := a.Next(someWall), b.Next(someWall); x == y || x.Order() != y.Order() {
				t.Fatalf("%s and %s", x, y)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	r := seeded(1)
	g := NewGenerator(1, r.Uint64)
	b.ReportAllocs()
	for b.Loop() {
		g.Next(someWall)
	}
}
