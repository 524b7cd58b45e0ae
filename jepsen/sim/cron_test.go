package sim

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/sim/mutants"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

var crons = flag.Uint64("crons", 1, "number of seeds of clusters with schedules")

// TestCron runs some seeds of clusters that launch schedules.
func TestCron(t *testing.T) {
	calm := uint64(0)
	for n := range *crons {
		r := Cron(*seed + n)
		if r.Violation != nil {
			var text bytes.Buffer
			r.Report(&text, *events)
			t.Fatal(text.String())
		}
		if r.Calm != "" {
			calm++
			t.Logf("seed %d does not count: %s", r.Seed, r.Calm)
		}
	}
	if *crons > 1 && 2*calm > *crons {
		t.Errorf("too little happened in %d of %d runs", calm, *crons)
	}
}

// TestCronMutantsAreFound: every cluster that is wrong about schedules on purpose
// is found out, and by what it breaks. With more than one seed only: make sim.
func TestCronMutantsAreFound(t *testing.T) {
	if *crons < 2 {
		t.Skip("it takes a while; `make sim` runs it")
	}
	for _, m := range mutants.OfSchedules() {
		t.Run(strings.ReplaceAll(m.Name, " ", "-"), func(t *testing.T) {
			for seed := range uint64(6) {
				r := CronMutant(seed, m)
				if r.Violation == nil {
					continue
				}
				if !slices.Contains(m.Breaks, r.Violation.Invariant) {
					t.Fatalf("seed %d finds %v, which is none of %v", seed, r.Violation, m.Breaks)
				}
				return
			}
			t.Fatal("nobody notices")
		})
	}
}

// Messages get lost in the storm of schedules as in any other: for some days none did.
func TestTheStormOfSchedulesLosesMessages(t *testing.T) {
	s := newSim(1, nodes.Mutant{})
	s.Plan = plan.DrawCluster(&s.World)
	s.Plan.Cluster.Loss = 1
	f, harm := s.cluster()
	a, b := f.Add(), f.Add()
	(&timekeeper{f: f, harm: harm, Caller: s.NewCaller()}).make(0) // there is no schedule to be made
	if !f.Stormy {
		t.Fatal("the storm has begun, and no message gets lost")
	}
	f.Post(a, b.Self, false, nil)
	if s.Stats[stats.LostMessages] != 1 {
		t.Error("of all messages that get lost this one does not")
	}
}
