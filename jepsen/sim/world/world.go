package world

import (
	"math/rand/v2"
	"time"
)

// World is virtual time: an ordered heap of what is going to happen, and the
// only source of chance.
type World struct {
	Now   int64 // ns of true time since the start of the run
	next  timers
	seq   uint64
	Rnd   *rand.Rand
	Ended bool
	Stop  func() bool // asked now and then: true gives the run up; nil: never
	Spent int         // what has happened
}

// New begins a world at time 0, with the chance of a seed.
func New(seed uint64) World {
	return World{Rnd: rand.New(rand.NewPCG(seed, 0x6e6f726e))}
}

// timer is something that is going to happen.
type timer struct {
	at   int64
	seq  uint64 // of several at one time the first one asked for comes first
	fn   func()
	of   *Process // fn is only for what runs there now; nil: for nobody in particular
	life int
}

// timers is a heap, the first one on top. It is written out for its elements: the
// one of the library boxes each of them.
type timers []timer

func (t timers) less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}

func (t *timers) push(x timer) {
	h := append(*t, x)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*t = h
}

func (t *timers) pop() timer {
	h := *t
	n := len(h) - 1
	first := h[0]
	h[0], h[n] = h[n], timer{}
	h = h[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h.less(down+1, down) {
			down++
		}
		if !h.less(down, i) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*t = h
	return first
}

// At makes fn happen at a time, or now if that is past.
func (w *World) At(at int64, fn func()) {
	w.seq++
	w.next.push(timer{at: max(at, w.Now), seq: w.seq, fn: fn})
}

// After makes fn happen d from now.
func (w *World) After(d time.Duration, fn func()) { w.At(w.Now+int64(d), fn) }

// AfterIn makes fn happen in a process d from now, unless that has ended by then.
func (w *World) AfterIn(p *Process, d time.Duration, fn func()) {
	w.seq++
	w.next.push(timer{at: max(w.Now+int64(d), w.Now), seq: w.seq, fn: fn, of: p, life: p.Life})
}

// TooMuch is more than ever happens in a run, by far: somebody goes round in circles.
const TooMuch = 10_000_000

// lookAgain is between two looks, of ns, whether a machine is still suspended: all that waits
// for it looks at the same times, so that it comes in the order in which it was asked for.
const lookAgain = int64(100 * time.Millisecond)

// Run lets time pass until nothing is left to happen, the world has ended, or too
// much has happened.
func (w *World) Run() {
	for len(w.next) > 0 && !w.Ended && w.Spent < TooMuch {
		if w.Spent++; w.Spent%1000 == 0 && w.Stop != nil && w.Stop() {
			return
		}
		t := w.next.pop()
		w.Now = t.at
		switch {
		case t.of == nil:
			t.fn()
		case t.of.Life != t.life:
		case t.of.Clock.Until > w.Now: // its machine is suspended, or is to go on before
			t.at = min(t.of.Clock.Until, w.Now-w.Now%lookAgain+lookAgain)
			w.next.push(t)
		default:
			t.fn()
		}
	}
}

// Process is what runs on a machine, and ends and begins again.
type Process struct {
	Clock Local
	Life  int // its number; what belongs to an older one is void
}

// Chance is true with probability p.
func (w *World) Chance(p float64) bool { return p > 0 && w.Rnd.Float64() < p }

// Between draws a duration from [low, high).
func (w *World) Between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(w.Rnd.Int64N(int64(high-low)))
}

// About draws a duration with this mean, at most ten times it: most are short,
// some are long.
func (w *World) About(mean time.Duration) time.Duration {
	return time.Duration(min(w.Rnd.ExpFloat64(), 10) * float64(mean))
}

// Pick draws one of several.
func Pick[T any](w *World, from []T) T { return from[w.Rnd.IntN(len(from))] }
