package model

import (
	"os"
	"testing"
	"time"
)

// The long searches run with NORN_TEST_MODEL=1 (make model).
func long() bool { return os.Getenv("NORN_TEST_MODEL") != "" }

// TestExperiments runs the searches: the correct protocol has no
// counterexample, each omission has the one that is expected.
func TestExperiments(t *testing.T) {
	for _, x := range Experiments() {
		if !x.Short && !long() {
			continue
		}
		t.Run(x.Config.Name+"/"+x.Omit.Name(), func(t *testing.T) {
			start := time.Now()
			lim := Limits{}
			if x.Grant {
				lim.Only = K1 | K6 | K7
			}
			r, err := Explore(&x.Config, x.Omit, lim)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d steps, depth %d, %v, broke %v", r.States, r.Steps, r.Depth, time.Since(start).Round(time.Millisecond), r.Broke)
			switch {
			case r.Broke&x.Broke != x.Broke || x.Broke == 0 && r.Broke != 0:
				t.Errorf("broke %v, want %v", r.Broke, x.Broke)
				fallthrough
			case r.Broke != 0:
				for _, l := range r.Trace {
					t.Log(l)
				}
			case !r.Exhausted:
				t.Error("the search is not exhaustive")
			}
		})
	}
}
