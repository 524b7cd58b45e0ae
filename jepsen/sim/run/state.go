package run

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/digest"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Never is a time that does not come.
const Never = clock.Never

// State is what everybody in a run shares: time and chance, the plan, the tasks that clients
// know of, and the history with what was found in it.
type State struct {
	world.World
	Plan     plan.Plan
	Stats    stats.Stats
	Events   []*history.Event
	Sum      history.Sum
	Outputs  digest.Outputs
	Checker  *check.Checker // nil: the run is judged at its end
	Found    *check.Violation
	Rights   *check.Rights    // of a run with meddlers; nil: it has none
	Tokens   map[id.ID]uint64 // of the newest claims, as meddlers know them
	op       uint64
	Board    Board
	Archived map[id.ID]bool                          // finished tasks that were written elsewhere
	Archives func(tasks []*nornv1.Task, then func()) // sees each of those archives; nil: nobody does
	missing  map[history.Func]bool                   // what the server cannot do yet
	lapsed   lapses                                  // claims that were seen to have run out

	Many     bool // there is a cluster; false: one node
	Lossy    bool // disks get lost in this run
	Stalls   bool // the disk may stall
	Healing  bool // the storm is over
	Stopping bool // workers go home
	Tracing  bool // the history has more notes
}

// NewState is the beginning of a run. Each eighth has meddlers.
func NewState(seed uint64) *State {
	s := &State{World: world.New(seed), missing: map[history.Func]bool{}, Archived: map[id.ID]bool{}, lapsed: lapses{}}
	if seed%8 == 5 {
		s.Rights, s.Tokens = check.NewRights(), make(map[id.ID]uint64)
	}
	return s
}

// Record writes an event down and holds it to the promises.
func (s *State) Record(e *history.Event) {
	e.At = s.Now
	s.Events = append(s.Events, e)
	s.Sum.Add(e)
	s.Stats[stats.Lapses] += s.lapsed.of(e)
	if s.Rights != nil {
		if v := s.Rights.Event(e); v != nil {
			s.Fail(v)
		}
	}
	if e.Func == history.Try {
		return
	}
	if s.Checker == nil { // a run that is judged at its end
		return
	}
	if v := s.Checker.Event(e); v != nil {
		s.Fail(v)
	}
}

// Invoke records the begin of an operation.
func (s *State) Invoke(e *history.Event) {
	s.op++
	e.Op = s.op
	s.Stats[stats.Operations]++
	s.Record(e)
}

// Note adds words to the history.
func (s *State) Note(format string, args ...any) {
	s.Record(&history.Event{Phase: history.Note, Text: fmt.Sprintf(format, args...)})
}

// Fail keeps the first violation and ends the run.
func (s *State) Fail(v *check.Violation) {
	if s.Found == nil {
		s.Found = v
	}
	s.Ended = true
}

// Violation reports what the simulator itself has seen.
func (s *State) Violation(invariant, format string, args ...any) {
	s.Fail(&check.Violation{Invariant: invariant, At: s.Now, Text: fmt.Sprintf(format, args...)})
}

// Broken reports a node that has stopped by itself.
func (s *State) Broken(format string, args ...any) { s.Violation(check.Internal, format, args...) }

// Drift draws how fast or slow a clock is.
func (s *State) Drift() int64 {
	if d := s.Plan.Clock.Drift; d > 0 {
		return s.Rnd.Int64N(2*d+1) - d
	}
	return 0
}

// Repeat makes something happen again and again during the storm.
func (s *State) Repeat(every time.Duration, fn func()) {
	if every == 0 {
		return
	}
	s.After(s.About(every), func() {
		if !s.Healing {
			fn()
			s.Repeat(every, fn)
		}
	})
}

// Longest is the longest time after which everything must be finished that can
// be: each attempt a task has left may take a lease, a buffer and a back-off.
func (s *State) Longest() time.Duration {
	attempts := time.Duration(max(s.Plan.Work.Attempts, 5))
	return 30*time.Second + s.Plan.Steps() + attempts*(4*s.Plan.Lease+s.Plan.Eta+2*MaxBackoff)
}

// Delay draws how long a frame travels.
func (s *State) Delay() time.Duration {
	if s.Chance(s.Plan.Net.Spike) {
		return s.Between(0, time.Second)
	}
	return s.About(s.Plan.Net.Delay)
}

// Cannot tells whether the server has said that it cannot do something yet.
func (s *State) Cannot(what history.Func) bool { return s.missing[what] }

// Refused counts refusals and notes what the server cannot do.
func (s *State) Refused(asked *history.Event, kind string) {
	s.Stats[stats.Refusals]++
	if kind != "UNIMPLEMENTED" {
		return
	}
	what := asked.Func
	if what == history.Enqueue {
		what = "rich-enqueue" // dependencies or keys; plain ones are always there
	}
	s.missing[what] = true
	s.Stats[stats.Unimplemented]++
}
