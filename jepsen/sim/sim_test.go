package sim

import (
	"bytes"
	"flag"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/check"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/jepsen/sim/mutants"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seed   = flag.Uint64("seed", 1, "first seed")
	seeds  = flag.Uint64("seeds", 60, "number of seeds")
	events = flag.Int("events", 60, "events of a failing history to print; 0: all")
)

// TestSim runs some seeds against the core as it is. More: make sim.
func TestSim(t *testing.T) {
	all := Many{From: *seed, Seeds: *seeds, Workers: runtime.GOMAXPROCS(0)}.Run()
	if all.Failed != nil {
		var text bytes.Buffer
		all.Failed.Report(&text, *events)
		t.Fatal(text.String())
	}
	if missing := all.Sum.Calm(int(all.Seeds)); len(missing) > 0 && all.Seeds >= 50 {
		t.Fatalf("too little happened: %v", missing)
	}
	t.Log(&all.Sum)
}

// TestSameSeedSameHistory: without it no failure could be looked into.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(8) {
		a, b := Run(seed), Run(seed)
		if a.Sum != b.Sum || a.Stats != b.Stats {
			for i := range min(len(a.Events), len(b.Events)) {
				if x, y := a.Events[i].String(), b.Events[i].String(); x != y {
					t.Fatalf("seed %d: event %d is\n%s\nand\n%s", seed, i, x, y)
				}
			}
			t.Fatalf("seed %d: histories %x and %x, %d and %d events", seed, a.Sum, b.Sum, len(a.Events), len(b.Events))
		}
		if a.Sum == Run(seed+1).Sum {
			t.Fatalf("seeds %d and %d have the same history", seed, seed+1)
		}
	}
}

// TestMutantsAreFound: every node that is wrong on purpose is found out, and by
// what it breaks.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range mutants.OfOne() {
		t.Run(strings.ReplaceAll(m.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(60) {
				r := RunMutant(seed, m)
				if r.Violation == nil {
					continue
				}
				if !slices.Contains(m.Breaks, r.Violation.Invariant) {
					t.Fatalf("seed %d finds %v, which is none of %v", seed, r.Violation, m.Breaks)
				}
				t.Logf("seed %d finds %v", seed, r.Violation)
				return
			}
			t.Fatal("nothing was found")
		})
	}
}

// TestCalmIsNoticed: a run in which nothing happens does not count.
func TestCalmIsNoticed(t *testing.T) {
	var nothing stats.Stats
	if len(nothing.Calm(100)) == 0 {
		t.Fatal("a run in which nothing happened is taken for a storm")
	}
	v := check.Violation{Invariant: check.Lost, Text: "x"}
	if v.Error() == "" {
		t.Fatal("a violation without words")
	}
}
