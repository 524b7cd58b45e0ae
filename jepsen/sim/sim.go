package sim

import (
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/faults"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// What check asks for.
const (
	leastPause = int64(390 * time.Millisecond) // after a failure: the first one less its jitter, and what clocks drift
	leastLease = int64(900 * time.Millisecond) // that workers ask for, less that
)

// sim is one run.
type sim struct{ *clients.People }

// Result is what came of a run.
type Result struct {
	Seed      uint64
	Violation *check.Violation // nil: every promise was kept
	Stats     stats.Stats
	// Sum digests the history: equal for equal runs.
	Sum uint64
	// Outputs digests what the nodes wanted done, round by round: see [Outputs].
	Outputs uint64
	Events  []*history.Event
	// Virtual is how much time passed in the run.
	Virtual time.Duration
	// Barred is how much of what meddlers tried was rightly refused.
	Barred int
	// Nodes is how many nodes there were.
	Nodes int
	// Again is the command that runs the seed again, with the whole history.
	Again string
	// Calm says of a run of several nodes why it proves nothing; "": it counts.
	Calm string
	// Detail is what the nodes have of what the violation is about.
	Detail []string
}

// Run runs one seed against a node that is as it should be.
func Run(seed uint64) *Result { return RunMutant(seed, nodes.Mutant{}) }

// RunMutant runs one seed against a mutant.
func RunMutant(seed uint64, m nodes.Mutant) *Result { return runOne(seed, Many{Mutant: m}) }

func runOne(seed uint64, m Many) *Result {
	s := newSim(seed, m.Mutant)
	s.Stop = m.Stop
	s.Plan = plan.Draw(&s.World)
	s.Stalls = s.Plan.Disk.Stall > 0
	o := check.Options{Partitions: s.Plan.Partitions, Slack: int64(10*time.Second + s.Plan.Steps()), Lease: leastLease}
	if s.Plan.Clock.Restart == 0 {
		o.Backoff = leastPause
	}
	if s.Plan.Collect > 0 {
		o.Retention, o.Grace = int64(s.Plan.Retention), int64(s.Plan.Grace)
	}
	s.Checker = check.New(o)
	s.Note("seed %d: %+v", seed, s.Plan)
	s.Node = nodes.NewNode(s.System)
	s.Node.Start()
	s.Begin()
	faults.Lone{System: s.System}.Trouble()
	s.After(s.Plan.Storm, s.heal)
	s.Run()
	r := s.result(seed)
	r.Again = m.again(seed)
	return r
}

func newSim(seed uint64, m nodes.Mutant) *sim {
	return &sim{&clients.People{System: &nodes.System{State: run.NewState(seed), Mutant: m}}}
}

func (s *sim) result(seed uint64) *Result {
	if s.Spent >= world.TooMuch && s.Found == nil {
		s.Violation("wake-up", "%d things have happened, and there is no end to it", s.Spent)
	}
	barred := 0
	if s.Rights != nil {
		barred = s.Rights.Barred
	}
	return &Result{
		Barred: barred, Seed: seed, Violation: s.Found, Stats: s.Stats, Sum: s.Sum.Value(), Outputs: uint64(s.Outputs), Events: s.Events,
		Virtual: time.Duration(s.Now), Nodes: max(1, s.Plan.Cluster.Nodes),
	}
}

// heal ends the storm: nothing new goes wrong, producers make nothing new.
func (s *sim) heal() {
	s.Healing = true
	s.Plan.Calm()
	s.Node.Steps, s.Node.Armed, s.Node.Clock.Off = 0, false, 0
	s.Note("%s", check.ClockStepped)
	s.Note("the storm is over")
	s.CalmDown()
	faults.Lone{System: s.System}.FreeDisk()
	// Late copies of requests still arrive; then everything has to finish.
	s.After(20*time.Second, func() { s.await(s.Now + int64(s.Longest())) })
}

// await waits until everything is finished, or for as long as that may take.
func (s *sim) await(until int64) {
	if s.Now < until && !s.finished() {
		s.After(time.Second, func() { s.await(until) })
		return
	}
	s.Stopping = true
	for _, w := range s.Workers {
		w.Stopped = true
	}
	// What workers still have under way ends, and what is to be collected goes.
	rest := 15 * time.Second
	if s.Plan.Collect > 0 {
		rest += s.Plan.Retention + 2*s.Plan.Collect + s.Plan.Steps()
	}
	s.After(rest, func() {
		s.Note(check.Settled)
		s.readBack()
	})
}

// finished tells whether there is nothing left to do.
func (s *sim) finished() bool {
	return s.Node.Up && s.Idle() && !s.Node.Unfinished()
}

// readBack reads everything there is, in every way there is, and judges it.
func (s *sim) readBack() {
	r := &clients.Reader{Caller: s.NewCaller()}
	var next func(n int)
	next = func(n int) {
		if n < len(s.Board.Jobs) {
			r.Get(s.Board.Jobs[n].ID, func(*clients.Answer) { next(n + 1) })
			return
		}
		r.Count("", func() { r.ListAll(3, s.finish) })
	}
	next(0)
}

// finish is the end of a run.
func (s *sim) finish() {
	s.Node.Unanswered()
	s.Node.Audit()
	nodes.Looking{Node: s.Node}.Buried()
	if v := s.Checker.Finish(); v != nil {
		s.Fail(v)
	}
	s.Ended = true
}
