package ring

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
)

// Where an ID lies is a promise to every store that was ever written and to
// every SDK: these values never change.
func TestOfIsStable(t *testing.T) {
	for _, c := range []struct {
		text string
		want [3]Partition // of 1, 64 and 4096
	}{
		{"000000000000000000000000000", [3]Partition{0, 1, 577}},
		{"0ujtsYcgvSTl8PAuAdqWYSMnLOv", [3]Partition{0, 51, 1267}},
		{"aWgEPTl1tmebfsQzFP4bxwgy80V", [3]Partition{0, 56, 3704}},
	} {
		i, err := id.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]Partition{Of(i, 1), Of(i, 64), Of(i, 4096)}; got != c.want {
			t.Errorf("%s: %v, want %v", c.text, got, c.want)
		}
	}
}

func TestOfStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, "id"))
		n := rapid.IntRange(1, MaxPartitions).Draw(t, "partitions")
		if p := Of(i, n); int(p) >= n {
			t.Fatalf("%s is in partition %d of %d", i, p, n)
		}
		if p := Of(i, -n); p != 0 {
			t.Fatalf("%s is in partition %d of %d", i, p, -n)
		}
	})
}

// IDs of one process in one moment, which differ in few bits, spread evenly.
func TestOfSpreads(t *testing.T) {
	const partitions, each = 64, 1000
	r := rand.New(rand.NewPCG(1, 2))
	g := id.NewGenerator(r.Uint32(), r.Uint64)
	var counts [partitions]int
	for n := range partitions * each {
		counts[Of(g.Next(1_790_000_000_000_000_000+int64(n)), partitions)]++
	}
	for p, n := range counts {
		if math.Abs(float64(n-each)) > 5*math.Sqrt(each) {
			t.Errorf("partition %d has %d IDs of %d expected", p, n, each)
		}
	}
}

func TestOfDoesNotAllocate(t *testing.T) {
	i := id.ID{1, 2, 3}
	if n := testing.AllocsPerRun(100, func() { Of(i, 64) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValidPartitions(t *testing.T) {
	for n, valid := range map[int]bool{-1: false, 0: false, 1: true, 64: true, 4096: true, 4097: false, math.MaxInt: false} {
		err := ValidPartitions(n)
		if valid && err != nil || !valid && !errors.Is(err, ErrPartitions) {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	i := id.ID{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		Of(i, 4096)
	}
}
