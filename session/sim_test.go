package session

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

// world is a small simulator: workers and dispatchers with clocks of their own, a
// network that loses, doubles, delays and reorders, and a model of the CP path that
// grants names and claims. Everything follows from the seed.
type world struct {
	rng     *rand.Rand
	now     int64 // real ns
	events  eventHeap
	seq     uint64
	nodes   []*simNode
	workers []*simWorker
	cp      *simCP
	net     simNet
	check   simCheck
	tamper  tamper
	trace   *strings.Builder // nil: none
	healed  bool
	wire    bool // frames are encoded and decoded
}

// tamper breaks things on purpose, to show that the checks notice.
type tamper struct {
	message func(m *Message, toWorker bool)
	worker  func(w *simWorker)
	node    func(n *simNode)
	name    func(r NameRequest, v NameVerdict) NameVerdict
}

type event struct {
	at  int64
	seq uint64
	do  func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + int64(d), w.seq, do})
}

// until lets time pass up to an instant.
func (w *world) until(at int64) {
	for len(w.events) > 0 && w.events[0].at <= at && len(w.check.broken) == 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = max(w.now, at)
}

// span draws a duration up to most.
func (w *world) span(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most) + 1))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%9.4f "+format+"\n", append([]any{float64(w.now) / 1e9}, args...)...)
	}
}

// simClock is a clock that is off by an offset and a rate.
type simClock struct {
	offset int64
	rate   float64
}

func (c simClock) mono(real int64) int64 { return c.offset + int64(float64(real)*c.rate) }
func (c simClock) at(real int64) clock.Time {
	return clock.Time{Mono: c.mono(real), Wall: c.mono(real)}
}

// real is when the clock shows mono, rounded up.
func (c simClock) real(mono int64) int64 { return int64(float64(mono-c.offset)/c.rate) + 2 }

// newClock draws a clock whose rate is within half of what two clocks may differ.
func (w *world) newClock() simClock {
	return simClock{offset: 1e9 + w.rng.Int64N(1e12), rate: 1 + (w.rng.Float64()*2-1)*0.00049}
}

// simNode is a node with its dispatcher.
type simNode struct {
	world *world
	no    int
	clk   simClock
	d     *Dispatcher
	life  int // goes up with each crash
	wake  int64
	apart int64               // from the CP path of names, until then
	lost  map[Instance]uint64 // associations whose session was found must_die
}

var simTimeouts = Timeouts{Period: 400 * time.Millisecond, HeartbeatGap: 1200 * time.Millisecond, CheckGap: 2500 * time.Millisecond, LoseAfter: 1500 * time.Millisecond}

func (w *world) config(no int) DispatcherConfig {
	t := simTimeouts
	if no%2 == 1 { // nodes need not agree
		t.HeartbeatGap, t.LoseAfter = t.HeartbeatGap*3/2, t.LoseAfter*4/3
	}
	return DispatcherConfig{
		Timeouts: t, CheckPeriod: 800 * time.Millisecond, NameLease: 8 * time.Second, NameRetry: 150 * time.Millisecond,
		AskAfter: 60 * time.Millisecond, AskMax: time.Second, ForgetAfter: 20 * time.Second,
	}
}

func (w *world) addNode() *simNode {
	n := &simNode{world: w, no: len(w.nodes), clk: w.newClock()}
	w.nodes = append(w.nodes, n)
	n.boot()
	return n
}

func (n *simNode) boot() {
	d, err := NewDispatcher(n.world.config(n.no))
	if err != nil {
		panic(err)
	}
	n.d, n.wake, n.lost = d, clock.Never, map[Instance]uint64{}
	n.life++
}

// crash forgets everything, as kill -9 and a restart do.
func (n *simNode) crash() {
	n.world.tracef("n%d crashes", n.no)
	n.boot()
	n.world.cp.dropWants(n)
	for _, s := range n.world.workers {
		if s.node == n {
			s.node = nil
			n.world.after(n.world.span(200*time.Millisecond), func() {
				if s.node == nil {
					s.turn()
				}
			})
		}
	}
}

func (n *simNode) time() clock.Time { return n.clk.at(n.world.now) }

// do runs an input of the dispatcher and carries out what comes of it.
func (n *simNode) do(f func(d *Dispatcher, now clock.Time)) {
	w := n.world
	f(n.d, n.time())
	if w.tamper.node != nil {
		w.tamper.node(n)
	}
	r := n.d.Ready()
	for _, s := range r.Settle {
		w.tracef("n%d settles %v %v", n.no, w.name(s.Claim), s.Why)
		w.check.settled(w, s)
		w.cp.settle(n, s)
	}
	for _, x := range r.Doubt {
		w.cp.doubt(x)
	}
	for _, x := range r.Names {
		w.cp.nameRequest(n, x)
	}
	for _, x := range r.Renew {
		w.cp.renew(n, x)
	}
	for _, no := range r.Unwant {
		w.cp.unwant(n, no)
	}
	for _, x := range r.Want {
		w.cp.want(n, x)
	}
	for _, m := range r.Send {
		w.net.toWorker(w, n, m)
	}
	w.check.node(w, n)
	if r.WakeAt != clock.Never && r.WakeAt != n.wake {
		n.wake = r.WakeAt
		life, at := n.life, r.WakeAt
		w.after(time.Duration(max(0, n.clk.real(at)-w.now))+w.span(3*time.Millisecond), func() {
			if n.life == life && n.wake == at {
				n.wake = clock.Never
				n.do(func(d *Dispatcher, now clock.Time) { d.Tick(now) })
			}
		})
	}
}

// simWorker is a worker's process.
type simWorker struct {
	world   *world
	no      int
	clk     simClock
	w       *Worker
	name    string
	lock    string
	node    *simNode
	runs    map[Claim]bool // handlers that run
	checks  map[uint64]bool
	dead    bool // the process is gone
	frozen  bool
	inbox   []Message
	wake    int64
	machine string
	cut     int64 // nodes do not hear it before
}

const (
	simStop = 100 * time.Millisecond
	// Ticks of workers come up to so late, and handlers take the rest of simStop.
	simLate = 5 * time.Millisecond
)

func (w *world) addWorker(name, machine, lock string) *simWorker {
	s := &simWorker{
		world: w, no: len(w.workers), clk: w.newClock(), name: name, lock: lock, machine: machine,
		runs: map[Claim]bool{}, checks: map[uint64]bool{}, wake: clock.Never,
	}
	var instance Instance
	instance[0] = byte(s.no + 1)
	worker, err := NewWorker(WorkerConfig{
		Identity: Identity{Name: name, Instance: instance, Machine: machine, Lock: lock, Started: w.now + 1},
		Capacity: Capacity{Slots: 2, Prefetch: 1, Queues: []QueueSlots{{Queue: "q"}, {Queue: "narrow", Slots: 1}}},
		Stop:     simStop, FirstPeriod: 200 * time.Millisecond, Retry: 80 * time.Millisecond, RetryMax: 600 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	s.w = worker
	w.workers = append(w.workers, s)
	w.check.started[instance] = map[Claim]bool{}
	w.after(w.span(100*time.Millisecond), s.turn)
	return s
}

func (s *simWorker) instance() Instance { return s.w.cfg.Identity.Instance }

func (s *simWorker) turn() {
	if s.frozen {
		s.world.after(50*time.Millisecond, s.turn)
	}
	if s.dead || s.frozen {
		return
	}
	if n, left := s.node, s.w.association; n != nil && left > 0 && s.world.chance(0.7) {
		life := n.life
		s.world.after(s.world.span(300*time.Millisecond), func() {
			if n.life == life {
				n.do(func(d *Dispatcher, now clock.Time) { d.Closed(now, s.instance(), left) })
			}
		})
	}
	s.turnTo(s.world.nodes[s.world.rng.IntN(len(s.world.nodes))])
}

func (s *simWorker) turnTo(n *simNode) {
	s.node = n
	s.world.tracef("w%d turns to n%d", s.no, s.node.no)
	s.do(func(w *Worker, now clock.Time) { w.Turn(now) })
}

// do runs an input of the worker and carries out what comes of it.
func (s *simWorker) do(f func(w *Worker, now clock.Time)) {
	if s.dead || s.frozen {
		return
	}
	w := s.world
	f(s.w, s.clk.at(w.now))
	if w.tamper.worker != nil {
		w.tamper.worker(s)
	}
	r := s.w.Ready()
	for _, x := range r.Stop {
		w.tracef("w%d stops %v %v", s.no, w.name(x.Claim), x.Cause)
		if s.runs[x.Claim] {
			s.endAfter(x.Claim, w.span(simStop-2*simLate), End{Kind: EndReported})
		}
	}
	for _, x := range r.Start {
		s.start(x)
	}
	for _, m := range r.Send {
		w.check.sent(w, s, m)
		if s.node != nil {
			w.net.toNode(w, s, s.node, m)
		}
	}
	if s.w.left && len(s.runs) == 0 && !s.dead {
		w.tracef("w%d has left", s.no)
		s.dead = true
		w.after(w.span(time.Second), func() { w.addWorker(s.name, s.machine, s.lock) })
	}
	if r.WakeAt != clock.Never && r.WakeAt != s.wake {
		s.wake = r.WakeAt
		at := r.WakeAt
		w.after(time.Duration(max(0, s.clk.real(at)-w.now))+w.span(simLate), func() {
			if s.wake == at {
				s.wake = clock.Never
				s.do(func(w *Worker, now clock.Time) { w.Tick(now) })
			}
		})
	}
}

func (s *simWorker) start(x Start) {
	w := s.world
	if x.Check != 0 {
		w.after(w.span(30*time.Millisecond), func() {
			s.do(func(w *Worker, now clock.Time) { w.CheckPassed(now, x.Check) })
		})
		return
	}
	w.tracef("w%d starts %v", s.no, w.name(x.Claim))
	w.check.starts(w, s, x.Claim)
	s.runs[x.Claim] = true
	end := End{Kind: EndCompleted}
	switch w.rng.IntN(10) {
	case 0:
		end = End{Kind: EndFailed, Error: "no"}
	case 1:
		end = End{Kind: EndReleased}
	}
	d := w.span(600 * time.Millisecond)
	if w.chance(0.2) {
		d = w.span(6 * time.Second)
	}
	s.endAfter(x.Claim, d, end)
}

// endAfter ends a handler; a frozen one ends when it wakes.
func (s *simWorker) endAfter(c Claim, d time.Duration, end End) {
	s.world.after(d, func() {
		if s.dead || !s.runs[c] {
			return
		}
		if s.frozen {
			s.endAfter(c, 50*time.Millisecond, end)
			return
		}
		delete(s.runs, c)
		s.world.tracef("w%d ended %v", s.no, s.world.name(c))
		s.do(func(w *Worker, now clock.Time) { w.Ended(now, c, end) })
	})
}

// freeze stops the process for a while, and everything in it.
func (s *simWorker) freeze(d time.Duration) {
	if s.frozen || s.dead {
		return
	}
	s.world.tracef("w%d freezes for %v", s.no, d)
	s.frozen = true
	s.world.after(d, func() {
		if s.dead {
			return
		}
		s.frozen = false
		// What an SDK does first: it looks at the clock. Handlers that lost their
		// claim meanwhile do nothing more.
		now := s.clk.at(s.world.now)
		for _, c := range slices.SortedFunc(maps.Keys(s.runs), Claim.Compare) {
			if _, ok := s.w.Holds(now, c); !ok {
				delete(s.runs, c)
				s.endAgain(c)
			}
		}
		s.do(func(w *Worker, now clock.Time) { w.Tick(now) })
		inbox := s.inbox
		s.inbox = nil
		for _, m := range inbox {
			s.do(func(w *Worker, now clock.Time) { w.Step(now, m) })
		}
	})
}

func (s *simWorker) endAgain(c Claim) {
	s.world.after(0, func() {
		s.do(func(w *Worker, now clock.Time) { w.Ended(now, c, End{Kind: EndReported}) })
	})
}

// kill is kill -9.
func (s *simWorker) kill() {
	w := s.world
	if s.dead {
		return
	}
	w.tracef("w%d is killed", s.no)
	s.dead, s.runs = true, map[Claim]bool{}
	machine := s.machine
	if w.chance(0.5) {
		machine += "'"
	}
	w.after(w.span(2*time.Second), func() { w.addWorker(s.name, machine, s.lock) })
}

// named prints a claim by a short name, when it is printed at all.
type named Claim

func (c named) String() string { return fmt.Sprintf("t%d/%d", c.Task[19], c.Token) }

func (w *world) name(c Claim) named { return named(c) }

func simTask(n int) id.ID {
	var t id.ID
	t[19] = byte(n)
	return t
}
