package sim

import (
	"bytes"
	"flag"
	"testing"
)

var crowds = flag.Uint64("crowds", 1, "number of seeds of clusters with hundreds of everything in one partition")

// TestCrowd: what nodes do in batches comes to its end when there are many of them, also
// when the leader changes in the middle; and pages of any size show the whole.
func TestCrowd(t *testing.T) {
	for n := range *crowds {
		r := Many{Crowd: true}.One(*seed + n)
		if r.Violation != nil {
			var text bytes.Buffer
			r.Report(&text, *events)
			t.Fatal(text.String())
		}
		if r.Calm != "" {
			t.Errorf("seed %d does not count: %s", r.Seed, r.Calm)
		}
		t.Logf("seed %d: %v, %v", r.Seed, r.Virtual, &r.Stats)
	}
}
