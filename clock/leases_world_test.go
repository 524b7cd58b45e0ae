package clock_test

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/clock/offset"
)

// What the simulation declares: the bound on clocks and delays, and the buffer
// that goes with it.
const (
	eta    = time.Second
	buffer = eta
	ms     = int64(time.Millisecond)
	sec    = int64(time.Second)
)

// local is the two clocks of one process as functions of real time.
type local struct{ wall, mono, ppm int64 }

func (l *local) at(real int64) clock.Time {
	passed := real + real/1_000_000*l.ppm
	return clock.Time{Wall: l.wall + passed, Mono: l.mono + passed}
}

// realOf is the first real time, within 100 ns or so, at which the monotonic
// clock shows mono.
func (l *local) realOf(mono int64) int64 {
	passed := mono - l.mono
	return passed - passed/1_000_000*l.ppm + passed/1_000_000*l.ppm/1_000_000*l.ppm
}

// variant says which rule of design 7.3 a run leaves out, and what it throws
// at the rest.
type variant struct {
	fromReceipt bool // the worker counts from the answer, not from its request
	wallOnly    bool // acceptors end leases by the wall clock alone
	noRefresh   bool // a renewal moves the end and leaves the elapsed time
	anyClock    bool // nodes lead, grant and accept whatever their clocks say
	loose       bool // a majority is not asked, the leader grants by itself
	atOnce      bool // what is recovered ends when the wall clock says so, however it came to
	oldEnds     bool // votes give the ends as they were granted
	// together lets all wall clocks jump alike, which nobody can notice, and
	// forgotten lets nodes restart then.
	together, forgotten bool
}

// record is a claim as a node keeps it.
type record struct {
	token    uint64
	renewals int
	released bool
	lease    clock.Lease
}

// server is a node of the cohort.
type server struct {
	local
	id       uint64
	boot     uint64
	down     bool
	promised uint64
	leads    uint64 // epoch, 0 for none
	seq      uint64
	peers    *offset.Peers
	claims   []*record
}

// hold is a worker's belief in one claim, in real time.
type hold struct {
	token      uint64
	begin, end int64
	renewals   int
	released   bool
}

// world is one run: a cohort of three, one task, workers that want it.
type world struct {
	variant
	rand    *rand.Rand
	now     int64
	events  queue
	n       int // events so far, to keep those of one time in order
	servers [3]*server
	epoch   uint64 // the register's
	lease   time.Duration
	stop    time.Duration
	holds   []*hold
	tally
}

// tally counts what has happened, to show that a run is not empty.
type tally struct{ grants, renewals, elections, restarts, jumps, elapsed, byWall, refused int }

func (t *tally) add(o tally) {
	t.grants += o.grants
	t.renewals += o.renewals
	t.elections += o.elections
	t.restarts += o.restarts
	t.jumps += o.jumps
	t.elapsed += o.elapsed
	t.byWall += o.byWall
	t.refused += o.refused
}

type event struct {
	at int64
	n  int
	do func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// after does something d of real time later.
func (w *world) after(d int64, do func()) {
	w.n++
	heap.Push(&w.events, event{w.now + d, w.n, do})
}

// between draws from lo to hi.
func (w *world) between(lo, hi int64) int64 { return lo + w.rand.Int64N(hi-lo+1) }

func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

// send brings a message after a delay, or never.
func (w *world) send(do func()) {
	switch n := w.rand.IntN(100); {
	case n < 3:
	case n < 15:
		w.after(w.between(0, 2*sec), do)
	default:
		w.after(w.between(ms/10, 5*ms), do)
	}
}

// to brings a message to a node, if it is up then and in the same boot.
func (w *world) to(s *server, do func()) {
	boot := s.boot
	w.send(func() {
		if !s.down && s.boot == boot {
			do()
		}
	})
}

// run plays one seed and gives the first two holds that overlap, nil if none.
func run(seed uint64, v variant) (a, b *hold, t tally) {
	w := &world{variant: v, rand: rand.New(rand.NewPCG(seed, 0)), epoch: 1}
	w.lease = time.Duration(w.between(2*sec, 8*sec))
	w.stop = time.Duration(w.between(0, 50*ms))
	skew := w.between(0, int64(eta)/10) // pairwise at most eta/5, below eta/4
	for i := range w.servers {
		w.servers[i] = &server{id: uint64(i), local: local{
			wall: 1_700_000_000*sec + w.between(-skew, skew), mono: w.between(0, 1000*sec), ppm: w.between(-400, 400),
		}}
	}
	for _, s := range w.servers {
		s.start(w)
	}
	w.servers[0].leads, w.servers[0].promised = 1, 1
	w.faults()
	for range 3 {
		w.worker(&local{mono: w.between(0, 1000*sec), ppm: w.between(-400, 400)})
	}
	const length = 40 * sec
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		if e.at > length {
			break
		}
		w.now = e.at
		e.do()
	}
	a, b = w.overlap()
	return a, b, w.tally
}

// overlap finds two holds that were valid at one time.
func (w *world) overlap() (a, b *hold) {
	for i, a := range w.holds {
		for _, b := range w.holds[i+1:] {
			if a.begin < b.end && b.begin < a.end {
				return a, b
			}
		}
	}
	return nil, nil
}

// faults: leaders change, nodes start anew, and one node's wall clock (or all
// alike) is set.
func (w *world) faults() {
	bad := w.servers[w.rand.IntN(3)]
	var tick func()
	tick = func() {
		switch {
		case w.chance(40):
			w.elect(w.servers[w.rand.IntN(3)])
		case w.chance(40) && (!w.together || w.forgotten):
			w.servers[w.rand.IntN(3)].restart(w)
		}
		if w.chance(25) {
			w.jump(bad)
		}
		w.after(w.between(200*ms, 4*sec), tick)
	}
	w.after(w.between(0, 4*sec), tick)
	w.after(sec, w.campaign)
}

// campaign elects somebody when nobody leads.
func (w *world) campaign() {
	leads := false
	for _, s := range w.servers {
		leads = leads || s.leads == w.epoch
	}
	if !leads {
		w.elect(w.servers[w.rand.IntN(3)])
	}
	w.after(700*ms, w.campaign)
}

func (w *world) jump(bad *server) {
	d := w.between(-10*sec, 10*sec)
	if w.chance(30) {
		d = w.between(-3600*sec, 3600*sec)
	}
	w.jumps++
	if !w.together {
		bad.wall += d
		return
	}
	for _, s := range w.servers {
		s.wall += d
	}
}
