package worker

import (
	"sync"
	"time"

	"github.com/norn-dev/norn/session"
)

// ledger counts the claims that are held, in all and by queue.
type ledger struct {
	order []string // queues, as configured
	size  int      // claims at once
	slots int      // handlers at once

	adapts bool // what is beyond the slots is taken only while pace allows it

	mu     sync.Mutex // guards the fields below
	most   int        // claims at once whose room is lent
	held   int
	lent   int // of claims that are held beyond that: their room was given back before their end
	stuck  int // slots of handlers that do not return
	tries  int // tasks that are taken at a time, to see whether they can be begun; below zero: any number
	pace   session.Ahead
	queues map[string]*lane
	freed  chan struct{} // closed when a claim ends
	opened chan struct{} // closed when a queue that was full is not any more
	jammed chan struct{} // closed while all slots are stuck
}

// lane is the part of a queue.
type lane struct {
	limit, held, weight int
}

func newLedger(cfg Config, queues []string) *ledger {
	l := &ledger{
		order: queues, size: cfg.most(), adapts: cfg.Prefetch == Adaptive, slots: max(cfg.Slots, 1), queues: make(map[string]*lane, len(queues)),
		tries: -1, freed: make(chan struct{}), opened: make(chan struct{}), jammed: make(chan struct{}),
	}
	if l.most = l.size; !cfg.asks() {
		l.most = MaxSlots
	}
	for _, q := range queues {
		o := cfg.PerQueue[q]
		ln := &lane{limit: l.size, weight: max(o.Weight, 1)}
		if o.Slots > 0 {
			ln.limit = min(o.Slots, l.size)
		}
		l.queues[q] = ln
	}
	return l
}

// demand is the room there is now; freed is closed when there is more. opened is
// closed when a queue that the demand leaves out has room again.
func (l *ledger) demand(wait time.Duration) (d demand, freed, opened <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d = demand{room: l.size - l.held, wait: wait}
	if l.adapts && !l.pace.Allows() {
		d.room = max(0, l.slots-l.held)
	}
	if l.stuck >= l.slots {
		d.room = 0 // what is taken would wait for as long as nobody can tell
	}
	if l.tries >= 0 {
		d.room = min(d.room, l.tries)
	}
	for _, q := range l.order {
		ln := l.queues[q]
		if room := min(ln.limit-ln.held, d.room); room > 0 {
			d.queues = append(d.queues, appetite{Queue: q, Room: room, Weight: ln.weight})
		}
	}
	return d, l.freed, l.opened
}

// take counts a claim, unless there is no room for it.
func (l *ledger) take(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.queues[queue]
	if ln == nil || l.held >= l.size || ln.held >= ln.limit {
		return false
	}
	l.held++
	ln.held++
	return true
}

// give counts the end of a claim.
func (l *ledger) give(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(queue)
}

// lend gives the room of a claim back before its end. It is false when as many were lent
// already as may be. Who asks for tasks asks for none then. To a session they are handed
// all the same, and would wait here under their claims: its machine counts no claim that
// has ended, and has a bound of its own, at which it refuses them.
func (l *ledger) lend(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent >= l.most {
		return false
	}
	l.lent++
	l.free(queue)
	return true
}

// asks has the ledger be that of a worker that asks for tasks.
func (l *ledger) asks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = l.size
}

// repay counts the end of a claim whose room was lent.
func (l *ledger) repay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent--
	l.changed()
}

// hang counts a slot whose handler does not return, or with -1 one whose handler has after all.
func (l *ledger) hang(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.stuck >= l.slots
	l.stuck += n
	switch is := l.stuck >= l.slots; {
	case is && !was:
		close(l.jammed)
	case was && !is:
		l.jammed = make(chan struct{})
	}
	l.changed()
}

// rest has nothing taken, or, while there is trouble, one task at a time.
func (l *ledger) rest(resting, trouble bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case resting:
		l.tries = 0
	case trouble:
		l.tries = 1
	default:
		l.tries = -1
	}
	l.changed()
}

// ran notes how long a handler took.
func (l *ledger) ran(took time.Duration) { l.learn(func() { l.pace.Ran(took) }) }

// late notes that a task that was claimed ahead did not begin in time.
func (l *ledger) late() { l.learn(l.pace.Late) }

func (l *ledger) learn(tell func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.pace.Allows()
	if tell(); l.pace.Allows() != was {
		l.changed()
	}
}

// jam is closed while no slot will get free, for all that is known.
func (l *ledger) jam() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jammed
}

// free makes room for a claim. The lock is held.
func (l *ledger) free(queue string) {
	ln := l.queues[queue]
	if ln.held == ln.limit {
		close(l.opened)
		l.opened = make(chan struct{})
	}
	l.held--
	ln.held--
	l.changed()
}

// changed tells who waits for the end of a claim. The lock is held.
func (l *ledger) changed() {
	close(l.freed)
	l.freed = make(chan struct{})
}

// idle tells whether no claim is held; otherwise changed is closed when one
// ends.
func (l *ledger) left() (held int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held + l.lent, l.freed
}
