package hunt

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/check"
)

// No look for leaks here: a store whose disk has failed cannot be closed, and what
// it leaves behind goes with the process.

func never() bool { return false }

// TestNothingIsFoundWithoutAMistake: what a ground finds in a program without a
// mistake is a bug, or a false alarm.
func TestNothingIsFoundWithoutAMistake(t *testing.T) {
	for _, g := range Grounds() { // more seeds: make mutants
		if v := g.Walk(1, never); v != nil {
			t.Errorf("%s: %v", g.Name, v)
		}
	}
}

// TestMistakesAreFound makes some of the mistakes; all of them: make mutants.
func TestMistakesAreFound(t *testing.T) {
	if !mutant.Built {
		t.Skip("this build makes no mistakes: go test -tags mutants ./jepsen/hunt")
	}
	quick := []mutant.ID{mutant.AckBeforeSync, mutant.PromiseInMemory, mutant.NoPush, mutant.CASIfGreater, mutant.UnpromisedGrant, mutant.LaunchAtNow, mutant.FsyncRetried}
	for _, q := range Quarries() {
		if slices.Contains(quick, q.Mistake) {
			if got := Hunt(q, 1, 1<<62, 40); got.Found == nil {
				t.Errorf("%s (%s) was not found in %d seeds", q.Mistake.Number(), q.Mistake, got.Seeds)
			}
		}
	}
}

// TestAHuntEnds: with something found at the first seed that has it, without
// anything after all of them.
func TestAHuntEnds(t *testing.T) {
	there := Ground{"a ground", func(seed uint64, _ func() bool) *check.Violation {
		if seed == 3 {
			return &check.Violation{Invariant: check.Lost}
		}
		return nil
	}}
	if got := Hunt(Quarry{Ground: there}, 1, 1<<62, 0); got.Found == nil || got.Seed != 3 {
		t.Errorf("found %v at seed %d, want it at seed 3", got.Found, got.Seed)
	}
	if got := Hunt(Quarry{Ground: there}, 1, 1<<62, 2); got.Found != nil || got.Seeds != 2 {
		t.Errorf("found %v in %d seeds, want nothing in 2", got.Found, got.Seeds)
	}
	dead := Ground{"a ground", func(uint64, func() bool) *check.Violation { return guardedPanic() }}
	if got := Hunt(Quarry{Ground: dead}, 1, 1<<62, 1); got.Found == nil || got.Found.Invariant != check.Internal {
		t.Errorf("a panic is taken for %v", got.Found)
	}
}

func guardedPanic() (v *check.Violation) {
	defer func() { v = fallen(recover(), v) }()
	panic("on purpose")
}

// TestEveryMistakeHasAGround, and a name.
func TestEveryMistakeHasAGround(t *testing.T) {
	all := Quarries()
	if len(all) != mutant.Count {
		t.Fatalf("%d of %d mistakes", len(all), mutant.Count)
	}
	for _, q := range all {
		if q.Ground.Walk == nil || q.Mistake.String() == "" {
			t.Errorf("%s has no ground or no name", q.Mistake.Number())
		}
	}
}
