package sim

import (
	"container/heap"
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
	at  int64
	seq uint64 // of several at one time the first one asked for comes first
	fn  func()
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return last
}

// at makes fn happen at a time, or now if that is past.
func (w *world) at(at int64, fn func()) {
	w.seq++
	heap.Push(&w.next, timer{max(at, w.now), w.seq, fn})
}

// after makes fn happen d from now.
func (w *world) after(d time.Duration, fn func()) { w.at(w.now+int64(d), fn) }

// run lets time pass until nothing is left to happen or the world has ended.
func (w *world) run() {
	for len(w.next) > 0 && !w.ended {
		if w.spent++; w.spent%1000 == 0 && w.stop != nil && w.stop() {
			return
		}
		t := heap.Pop(&w.next).(timer)
		w.now = t.at
		t.fn()
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
