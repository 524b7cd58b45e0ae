package checks

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// A run of a cluster shows something of what has happened in its storm, and of nothing
// else; what its plan does not have is not asked for.
func TestWhatARunMustHave(t *testing.T) {
	for _, c := range []struct {
		what    string
		missing stats.Stat
		hands   int
		collect time.Duration
		lossy   bool
		want    string
	}{
		{"everything has happened", stats.Audits, 2, time.Second, true, ""},
		{"nothing was collected", stats.Collected, 2, time.Second, true, "without a collection"},
		{"nothing was to be collected", stats.Collected, 2, 0, true, ""},
		{"no session was handed over", stats.HandOvers, 2, time.Second, true, "without a session that was handed over"},
		{"there were no sessions", stats.HandOvers, 0, time.Second, true, ""},
		{"nothing moved", stats.Moves, 2, time.Second, true, "without a movement"},
		{"nothing was to move", stats.Moves, 2, time.Second, false, ""},
		{"nobody crashed", stats.Crashes, 2, time.Second, true, "without a crash"},
	} {
		s := &clients.People{System: &nodes.System{State: run.NewState(1)}}
		s.Plan.Hands, s.Plan.Collect = c.hands, c.collect
		nodes.NewFleet(s.System)
		s.Lossy = c.lossy
		f := NewEnding(s)
		for i := range f.Before {
			f.Before[i] = 3
			s.Stats[i] = 4
		}
		s.Stats[c.missing] = f.Before[c.missing]
		if got := f.Calm(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
