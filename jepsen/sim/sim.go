package sim

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

const never = clock.Never

// sim is one run.
type sim struct {
	world.World
	plan    plan.Plan
	mutant  Mutant
	stats   stats.Stats
	events  []*history.Event
	sum     history.Sum
	outputs digest.Outputs
	checker *check.Checker
	found   *check.Violation
	rights  *check.Rights    // of a run with meddlers; nil: it has none
	tokens  map[id.ID]uint64 // of the newest claims, as meddlers know them

	node   *node   // of a run with one node
	fleet  *fleet  // of a run with several; nil: there is one
	conns  []*conn // those of clients that are open
	connID uint64
	op     uint64

	process   int
	serial    int
	board     board
	producers []*producer
	workers   []*worker
	hands     []*hand
	readers   []*reader
	admins    []*admin
	archived  map[id.ID]bool                          // finished tasks that were written elsewhere
	archives  func(tasks []*nornv1.Task, then func()) // sees each of those archives; nil: nobody does
	missing   map[history.Func]bool                   // what the server cannot do yet

	lastGrants []*nornv1.Grant // for a mutant
	lapsed     lapses          // claims that were seen to have run out

	stalls   bool // the disk may stall
	healing  bool // the storm is over
	stopping bool // workers go home
	tracing  bool // the history has more notes
}

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
func Run(seed uint64) *Result { return RunMutant(seed, Mutant{}) }

// RunMutant runs one seed against a mutant.
func RunMutant(seed uint64, m Mutant) *Result { return runOne(seed, Many{Mutant: m}) }

func runOne(seed uint64, m Many) *Result {
	s := newSim(seed, m.Mutant)
	s.Stop = m.Stop
	s.plan = plan.Draw(&s.World)
	s.stalls = s.plan.Disk.Stall > 0
	o := check.Options{Partitions: s.plan.Partitions, Slack: int64(10*time.Second + s.plan.Steps()), Lease: leastLease}
	if s.plan.Clock.Restart == 0 {
		o.Backoff = leastPause
	}
	if s.plan.Collect > 0 {
		o.Retention, o.Grace = int64(s.plan.Retention), int64(s.plan.Grace)
	}
	s.checker = check.New(o)
	s.note("seed %d: %+v", seed, s.plan)
	s.node = newNode(s)
	s.node.start()
	s.people()
	s.trouble()
	s.After(s.plan.Storm, s.heal)
	s.Run()
	r := s.result(seed)
	r.Again = m.again(seed)
	return r
}

func newSim(seed uint64, m Mutant) *sim {
	s := &sim{World: world.New(seed), mutant: m, missing: map[history.Func]bool{}, archived: map[id.ID]bool{}, lapsed: lapses{}}
	if seed%8 == 5 {
		s.rights, s.tokens = check.NewRights(), make(map[id.ID]uint64)
	}
	return s
}

// people begins the clients.
func (s *sim) people() {
	for range s.plan.Producers {
		s.producers = append(s.producers, s.newProducer())
	}
	for range s.plan.Workers {
		s.workers = append(s.workers, s.newWorker())
	}
	for n := range s.plan.Hands {
		s.hands = append(s.hands, s.newHand(fmt.Sprintf("shard%d", n/2), fmt.Sprintf("machine%d", n))) // two have one name
	}
	for range s.plan.Readers {
		s.readers = append(s.readers, s.newReader())
	}
	for range s.plan.Admins {
		s.admins = append(s.admins, s.newAdmin())
	}
	if s.rights != nil {
		newMeddler(s, true)
		newMeddler(s, false)
	}
}

func (s *sim) result(seed uint64) *Result {
	if s.Spent >= world.TooMuch && s.found == nil {
		s.violation("wake-up", "%d things have happened, and there is no end to it", s.Spent)
	}
	barred := 0
	if s.rights != nil {
		barred = s.rights.Barred
	}
	return &Result{
		Barred: barred, Seed: seed, Violation: s.found, Stats: s.stats, Sum: s.sum.Value(), Outputs: uint64(s.outputs), Events: s.events,
		Virtual: time.Duration(s.Now), Nodes: max(1, s.plan.Cluster.Nodes),
	}
}

// record writes an event down and holds it to the promises.
func (s *sim) record(e *history.Event) {
	e.At = s.Now
	s.events = append(s.events, e)
	s.sum.Add(e)
	s.stats[stats.Lapses] += s.lapsed.of(e)
	if s.rights != nil {
		if v := s.rights.Event(e); v != nil {
			s.fail(v)
		}
	}
	if e.Func == history.Try {
		return
	}
	if s.checker == nil { // a run that is judged at its end
		return
	}
	if v := s.checker.Event(e); v != nil {
		s.fail(v)
	}
}

// invoke records the begin of an operation.
func (s *sim) invoke(e *history.Event) {
	s.op++
	e.Op = s.op
	s.stats[stats.Operations]++
	s.record(e)
}

func (s *sim) note(format string, args ...any) {
	s.record(&history.Event{Phase: history.Note, Text: fmt.Sprintf(format, args...)})
}

// fail keeps the first violation and ends the run.
func (s *sim) fail(v *check.Violation) {
	if s.found == nil {
		s.found = v
	}
	s.Ended = true
}

// violation reports what the simulator itself has seen.
func (s *sim) violation(invariant, format string, args ...any) {
	s.fail(&check.Violation{Invariant: invariant, At: s.Now, Text: fmt.Sprintf(format, args...)})
}

// broken reports a node that has stopped by itself.
func (s *sim) broken(format string, args ...any) { s.violation(check.Internal, format, args...) }

// drift draws how fast or slow a clock is.
func (s *sim) drift() int64 {
	if d := s.plan.Clock.Drift; d > 0 {
		return s.Rnd.Int64N(2*d+1) - d
	}
	return 0
}

// trouble sets off what goes wrong by itself.
func (s *sim) trouble() {
	s.repeat(s.plan.Net.Cut, func() {
		if len(s.conns) > 0 {
			world.Pick(&s.World, s.conns).cut()
		}
	})
	s.repeat(s.plan.Clock.Set, func() {
		s.node.Clock.Off = int64(s.Between(-plan.SetBy, plan.SetBy))
		s.stats[stats.ClockSteps]++
		s.note("%s", check.ClockStepped)
	})
	s.repeat(s.plan.Disk.Full, s.fillDisk)
	s.nextCrash()
}

// repeat makes something happen again and again during the storm.
func (s *sim) repeat(every time.Duration, fn func()) {
	if every == 0 {
		return
	}
	s.After(s.About(every), func() {
		if !s.healing {
			fn()
			s.repeat(every, fn)
		}
	})
}

// nextCrash plans the next crash or clean stop.
func (s *sim) nextCrash() {
	c := s.plan.Crash
	if c.Every == 0 || s.healing || s.fleet != nil {
		return
	}
	s.After(s.About(c.Every), func() {
		n := s.node
		switch {
		case s.healing:
		case !n.up:
			s.nextCrash()
		case s.Chance(c.Drained):
			n.drain()
		case c.Steps && s.Chance(0.7):
			n.armed = true
		case c.Steps:
			n.steps = 1 + s.Rnd.IntN(12)
		default:
			n.crash()
			s.nextCrash()
		}
	})
}

// heal ends the storm: nothing new goes wrong, producers make nothing new.
func (s *sim) heal() {
	s.healing = true
	s.plan.Calm()
	s.node.steps, s.node.armed, s.node.Clock.Off = 0, false, 0
	s.note("%s", check.ClockStepped)
	s.note("the storm is over")
	s.calmDown()
	s.node.freeDisk()
	// Late copies of requests still arrive; then everything has to finish.
	s.After(20*time.Second, func() { s.await(s.Now + int64(s.longest())) })
}

// calmDown has the clients begin nothing new.
func (s *sim) calmDown() {
	for _, p := range s.producers {
		p.stopped = true
	}
	if s.fleet == nil { // else they go on: what they see must be right now as well
		quietReaders(s.readers)
	}
	for _, a := range s.admins {
		a.stopped = true
		a.after(3*time.Second, a.resume) // by then nothing late is under way
	}
}

// quietReaders has them begin nothing new.
func quietReaders(all []*reader) {
	for _, r := range all {
		r.stopped = true
	}
}

// longest is the longest time after which everything must be finished that can
// be: each attempt a task has left may take a lease, a buffer and a back-off.
func (s *sim) longest() time.Duration {
	attempts := time.Duration(max(s.plan.Work.Attempts, 5))
	return 30*time.Second + s.plan.Steps() + attempts*(4*s.plan.Lease+s.plan.Eta+2*maxBackoff)
}

// await waits until everything is finished, or for as long as that may take.
func (s *sim) await(until int64) {
	if s.Now < until && !s.finished() {
		s.After(time.Second, func() { s.await(until) })
		return
	}
	s.stopping = true
	for _, w := range s.workers {
		w.stopped = true
	}
	// What workers still have under way ends, and what is to be collected goes.
	rest := 15 * time.Second
	if s.plan.Collect > 0 {
		rest += s.plan.Retention + 2*s.plan.Collect + s.plan.Steps()
	}
	s.After(rest, func() {
		s.note(check.Settled)
		s.readBack()
	})
}

// finished tells whether there is nothing left to do.
func (s *sim) finished() bool {
	return s.node.up && s.idle() && !s.node.unfinished()
}

// idle tells whether no client has something to do yet.
func (s *sim) idle() bool {
	for _, p := range s.producers {
		if p.busy > 0 {
			return false
		}
	}
	for _, a := range s.admins {
		if len(a.resumed) < len(s.plan.Queues) {
			return false
		}
	}
	return true
}

// readBack reads everything there is, in every way there is, and judges it.
func (s *sim) readBack() {
	r := &reader{caller: s.newCaller()}
	var next func(n int)
	next = func(n int) {
		if n < len(s.board.jobs) {
			r.get(s.board.jobs[n].id, func(*answer) { next(n + 1) })
			return
		}
		r.count("", func() { r.listAll(3, s.finish) })
	}
	next(0)
}

// finish is the end of a run.
func (s *sim) finish() {
	s.node.unanswered()
	s.node.audit()
	looking{s.node}.buried()
	if v := s.checker.Finish(); v != nil {
		s.fail(v)
	}
	s.Ended = true
}
