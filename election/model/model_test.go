package model

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestExperiments runs the searches: the correct protocol has no
// counterexample, each omission has the one that is expected. Without
// NORN_TEST_MODEL (make model) only the short ones.
func TestExperiments(t *testing.T) {
	long := os.Getenv("NORN_TEST_MODEL") != ""
	only := os.Getenv("NORN_TEST_MODEL_ONLY")
	table := []string{"| cluster | left out | found | depth | states | steps | time |", "|---|---|---|---|---|---|---|"}
	for _, x := range Experiments() {
		name := x.Config.Name + ": " + x.Omit.Name()
		if !x.Short && !long || !strings.Contains(name, only) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r, err := x.Run()
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(start).Round(10 * time.Millisecond)
			table = append(table, x.row(r, took))
			t.Logf("%d states, %d steps, depth %d, %v", r.States, r.Steps, r.Depth, took)
			if r.Broke != 0 {
				t.Log("counterexample:\n" + strings.Join(r.Trace, "\n"))
			}
			switch {
			case x.Broke == 0 && r.Broke != 0, r.Broke&x.Broke != x.Broke:
				t.Errorf("broke %v, want %v", r.Broke, x.Broke)
			case r.Broke == 0 && !r.Exhausted && x.Walks == 0:
				t.Error("the search is not exhaustive")
			}
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

func (x *Experiment) row(r Result, took time.Duration) string {
	found, depth := r.Broke.String(), fmt.Sprint(r.Depth)
	if r.Broke == 0 {
		found = "none found"
		if !r.Exhausted {
			found = fmt.Sprintf("none found in %d random walks", x.Walks)
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %v |", x.Config.Name, x.Omit.Name(), found, depth, r.States, r.Steps, took)
}

// TestEachOmissionIsTried keeps the table whole.
func TestEachOmissionIsTried(t *testing.T) {
	tried := Omission(0)
	for _, x := range Experiments() {
		tried |= x.Omit
		if x.Omit.Name() == "" {
			t.Errorf("omission %b of %q has no name", x.Omit, x.Config.Name)
		}
		if x.Omit != 0 && x.Broke == 0 && x.Note == "" {
			t.Errorf("%q: nothing is expected to be found, and no note says why", x.Omit.Name())
		}
	}
	for o := NoOldMajority; o <= lastOmission; o <<= 1 {
		if o.Name() == "" || tried&o == 0 {
			t.Errorf("omission %b (%q): tried %v", o, o.Name(), tried&o != 0)
		}
	}
}

// TestReductionsHideNothing compares searches with and without reductions.
func TestReductionsHideNothing(t *testing.T) {
	all := change.candidacies(1).completing().moving([]int{1}, nil)
	for _, x := range []struct {
		c    Config
		omit Omission
	}{
		{all, 0},
		{all, NoTerminalFacts},
		{all, StartFromProposed},
		{all, NoOldMajority},
		{change.candidacies(1).over().retrying(), 0},
		{change.candidacies(1), UnfencedGrants},
		{change.candidacies(1), NoPush},
		{change.candidacies(1).moving([]int{0}, nil), UnpromisedSnapshots},
		{still.candidacies(1), LoseClaims},
	} {
		lean, err := Explore(&x.c, x.omit, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		x.c.Full = true
		full, err := Explore(&x.c, x.omit, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if lean.Broke != full.Broke || lean.Exhausted != full.Exhausted || lean.Broke != 0 && lean.Depth > full.Depth {
			t.Errorf("%s: broke %v at depth %d reduced, %v at depth %d in full", x.omit.Name(), lean.Broke, lean.Depth, full.Broke, full.Depth)
		}
		if lean.States > full.States {
			t.Errorf("%s: %d states reduced, %d in full", x.omit.Name(), lean.States, full.States)
		}
	}
}

// TestTraceIsReplayed checks that a trace has every step and ends with what
// broke.
func TestTraceIsReplayed(t *testing.T) {
	c := change
	r, err := Explore(&c, NoPush, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Trace) != r.Depth+2 {
		t.Errorf("%d lines for %d steps", len(r.Trace), r.Depth)
	}
	if last := r.Trace[r.Depth]; !strings.HasSuffix(last, "<- breaks K2") {
		t.Errorf("the last step is %q", last)
	}
	for _, l := range r.Trace {
		if l == "" || l == "?" {
			t.Errorf("untold step in %q", r.Trace)
		}
	}
}

func TestOnlyAndStatesLimitASearch(t *testing.T) {
	c := change
	r, err := Explore(&c, NoPush, Limits{Only: K7, States: 1000})
	if err != nil || r.Broke != 0 || r.Exhausted || r.States < 1000 || r.States > 5000 {
		t.Errorf("%+v, %v", r, err)
	}
	calls := 0
	if _, err := Explore(&c, 0, Limits{States: 100, Progress: func(_, _ int) { calls++ }}); err != nil || calls == 0 {
		t.Errorf("progress was told %d times, %v", calls, err)
	}
}

func TestWalksFindAndRepeat(t *testing.T) {
	c := change
	a, err := Walk(&c, NoUnion, 1, 20000, 60)
	if err != nil || a.Broke == 0 || len(a.Trace) == 0 || !strings.Contains(strings.Join(a.Trace, "\n"), "<- breaks") {
		t.Fatalf("broke %v, %v: %q", a.Broke, err, a.Trace)
	}
	b, err := Walk(&c, NoUnion, 1, 20000, 60)
	if err != nil || a.Steps != b.Steps || strings.Join(a.Trace, "\n") != strings.Join(b.Trace, "\n") {
		t.Error("the same seed goes another way")
	}
	if d, err := Walk(&c, 0, 1, 500, 60); err != nil || d.Broke != 0 || d.Depth < 15 {
		t.Errorf("the correct protocol: %+v, %v", d, err)
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	for name, c := range map[string]Config{ // Any order: each is a case of its own.
		"nodes":       {Nodes: 5, Cohorts: []uint8{1}, Moves: [][]int{{0}}, Grants: 1},
		"no nodes":    {Cohorts: []uint8{1}, Moves: [][]int{{0}}, Grants: 1},
		"candidacies": change.candidacies(MaxCandidacies + 1),
		"grants":      change.grants(MaxGrants + 1),
		"moves":       change.moving([]int{0}),
		"target":      change.moving([]int{0}, []int{2}),
		"cohort":      {Nodes: 2, Cohorts: []uint8{0b111}, Moves: [][]int{{0}}, Grants: 1},
		"empty":       {Nodes: 2, Cohorts: []uint8{0}, Moves: [][]int{{0}}, Grants: 1},
	} {
		if _, err := Explore(&c, 0, Limits{}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: Explore: %v", name, err)
		}
		if _, err := Walk(&c, 0, 1, 1, 1); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: Walk: %v", name, err)
		}
	}
}
