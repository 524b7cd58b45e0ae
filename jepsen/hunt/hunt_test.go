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
				t.Errorf("%s (%s) was not found by %v in %d seeds, only by %v", q.Mistake.Number(), q.Mistake, q.Breaks, got.Seeds, got.Wrong)
			}
		}
	}
}

// TestAHuntEnds: with something found at the first seed that has it, without
// anything after all of them.
func TestAHuntEnds(t *testing.T) {
	there := finds(map[uint64]string{3: check.Lost})
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

// finds is a ground on which some seeds find something.
func finds(at map[uint64]string) Ground {
	return Ground{"a ground", func(seed uint64, _ func() bool) *check.Violation {
		if what, is := at[seed]; is {
			return &check.Violation{Invariant: what}
		}
		return nil
	}}
}

// TestOnlyTheRightCheckerFinds: what another checker finds of a mistake, or a panic, says
// nothing of the one that is there for it. The hunt goes on until that one has found it.
func TestOnlyTheRightCheckerFinds(t *testing.T) {
	q := Quarry{Mistake: mutant.UngatedClaims, Breaks: []string{check.Overlap}}
	q.Ground = finds(map[uint64]string{1: check.Internal, 2: check.Lost, 3: check.Lost})
	got := Hunt(q, 1, 1<<62, 5)
	if got.Found != nil || got.Seeds != 5 {
		t.Errorf("it was found by %v after %d seeds, and nothing that breaks %v was", got.Found, got.Seeds, q.Breaks)
	}
	if got.Wrong[check.Internal] != 1 || got.Wrong[check.Lost] != 2 || len(got.Wrong) != 2 {
		t.Errorf("what the wrong checkers have found is told as %v", got.Wrong)
	}
	q.Ground = finds(map[uint64]string{1: check.Lost, 4: check.Overlap})
	if got := Hunt(q, 1, 1<<62, 0); got.Found == nil || got.Found.Invariant != check.Overlap || got.Seed != 4 || got.Wrong[check.Lost] != 1 {
		t.Errorf("found %v at seed %d, after %v, want overlap at seed 4", got.Found, got.Seed, got.Wrong)
	}
	q.Ground = Ground{"a ground", func(uint64, func() bool) *check.Violation { return guardedPanic() }}
	if got := Hunt(q, 1, 1<<62, 2); got.Found != nil {
		t.Errorf("a mistake whose program falls is taken for found: %v", got.Found)
	}
	q.Mistake, q.Breaks = mutant.None, nil // of a program that is right all is too much
	q.Ground = finds(map[uint64]string{2: check.Order})
	if got := Hunt(q, 1, 1<<62, 3); got.Found == nil || got.Seed != 2 {
		t.Errorf("without a mistake %v was found, want order", got.Found)
	}
}

func guardedPanic() (v *check.Violation) {
	defer func() { v = fallen(recover(), v) }()
	panic("on purpose")
}

// TestEveryMistakeHasAGround, a name, and checkers that are there for it.
func TestEveryMistakeHasAGround(t *testing.T) {
	all := Quarries()
	if len(all) != mutant.Count {
		t.Fatalf("%d of %d mistakes", len(all), mutant.Count)
	}
	for _, q := range all {
		if (q.Ground.Walk == nil) == (q.Unit.Test == "") || q.Mistake.String() == "" {
			t.Errorf("%s has no ground or no name", q.Mistake.Number())
		}
		if len(q.Breaks) == 0 || slices.Contains(q.Breaks, "") {
			t.Errorf("%s breaks %q: nobody is said to find it", q.Mistake.Number(), q.Breaks)
		}
	}
}
