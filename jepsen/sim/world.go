package sim

import (
	"math/rand/v2"
	"time"
)

// world is virtual time: an ordered heap of what is going to happen, and the
// only source of chance.
type world struct {
	now   int64 // ns of true time since the start of the run
	next  timers
	seq   uint64
	rnd   *rand.Rand
	ended bool
	stop  func() bool // asked now and then: true gives the run up; nil: never
	spent int         // what has happened
}

func newWorld(seed uint64) world {
	return world{rnd: rand.New(rand.NewPCG(seed, 0x6e6f726e))}
}

// timer is something that is going to happen.
type timer struct {
	at   int64
	seq  uint64 // of several at one time the first one asked for comes first
	fn   func()
	node *node // fn is only for this process of it; nil: for nobody in particular
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

// at makes fn happen at a time, or now if that is past.
func (w *world) at(at int64, fn func()) {
	w.seq++
	w.next.push(timer{at: max(at, w.now), seq: w.seq, fn: fn})
}

// after makes fn happen d from now.
func (w *world) after(d time.Duration, fn func()) { w.at(w.now+int64(d), fn) }

// tooMuch is more than ever happens in a run, by far: somebody goes round in circles.
const tooMuch = 10_000_000

// lookAgain is between two looks, of ns, whether a machine is still suspended: all that waits
// for it looks at the same times, so that it comes in the order in which it was asked for.
const lookAgain = int64(100 * time.Millisecond)

// run lets time pass until nothing is left to happen, the world has ended, or too
// much has happened.
func (w *world) run() {
	for len(w.next) > 0 && !w.ended && w.spent < tooMuch {
		if w.spent++; w.spent%1000 == 0 && w.stop != nil && w.stop() {
			return
		}
		t := w.next.pop()
		w.now = t.at
		switch {
		case t.node == nil:
			t.fn()
		case t.node.life != t.life:
		case t.node.clock.until > w.now: // its machine is suspended, or is to go on before
			t.at = min(t.node.clock.until, w.now-w.now%lookAgain+lookAgain)
			w.next.push(t)
		default:
			t.fn()
		}
	}
}

// chance is true with probability p.
func (w *world) chance(p float64) bool { return p > 0 && w.rnd.Float64() < p }

// between draws a duration from [low, high).
func (w *world) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(w.rnd.Int64N(int64(high-low)))
}

// about draws a duration with this mean, at most ten times it: most are short,
// some are long.
func (w *world) about(mean time.Duration) time.Duration {
	return time.Duration(min(w.rnd.ExpFloat64(), 10) * float64(mean))
}

// pick draws one of several.
func pick[T any](w *world, from []T) T { return from[w.rnd.IntN(len(from))] }
