package queuestats

import (
	"sync"
	"time"

	"github.com/norn-dev/norn/node/core/message"
)

// Other is the name of what has no series of its own. No queue can have it as its name.
const Other = "_other"

// maxKinds is how many kinds of a queue have series of their own.
const maxKinds = 50

// bounds are the upper ends of the classes of all histograms, inclusive.
var bounds = [...]time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
	30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour,
}

// histogram counts times by class.
type histogram struct {
	counts [len(bounds) + 1]uint64 // the last: over all bounds
	sum    time.Duration
}

// add counts one time.
func (h *histogram) add(d time.Duration) {
	if d < 0 {
		return // not known
	}
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += d
}

// counts are decisions by what they were.
type counts [message.Decisions]uint32

// series is what is counted of a queue, or of a kind in it.
type series struct {
	totals         [message.Decisions]uint64
	wait, run, age histogram
}

// add counts one decision.
func (s *series) add(d *message.Decided) {
	s.totals[d.What]++
	switch d.What {
	case message.DecidedClaimed:
		s.wait.add(d.Wait)
	case message.DecidedFailed, message.DecidedExpired:
		s.run.add(d.Run)
	case message.DecidedCompleted:
		s.run.add(d.Run)
		s.age.add(d.Age)
	case message.DecidedDead:
		s.age.add(d.Age)
	}
}

// queue is what is counted of one queue.
type queue struct {
	name    string
	named   *named // its series in /metrics; nil: it is one of the others
	heard   int64  // step of the last decision
	minutes minutes
	hour    *hour  // nil: it is none of the busiest
	fresh   uint32 // decisions of the step under way
	score   float64
}

// named are the series of a queue.
type named struct {
	plain series
	kinds map[string]*series // that have their own
	rest  *series            // of kinds that have none; nil: there are none
}

// Options are the bounds of a table.
type Options struct {
	Queues int // that are counted, each for itself
	Named  int // that have series; as many again are there by kind
}

// Table counts the decisions of a node. Make one with [New]; it may be used from many
// goroutines.
type Table struct {
	o Options

	mu     sync.Mutex // guards what follows, for short
	queues map[string]*queue
	// Invariant: order has exactly the queues with series, at most Named of them, and kinds
	// counts their series by kind: /metrics would otherwise grow with the names that clients
	// invent.
	order  []*queue // that are named, in the order in which they came
	kinds  int      // series of kinds
	hours  int      // queues with the history of an hour
	other  series   // of what is not named
	nobody queue    // for which there was no room
	whole  day
	at     int64 // step under way
	swept  int64 // the last step in which room was looked for
}

// New makes a table that begins at a wall ns.
func New(o Options, now int64) *Table {
	t := &Table{o: o, queues: make(map[string]*queue), at: now / int64(Step)}
	t.whole.since = t.at
	return t
}

// Add counts the decisions of a round, at a wall ns.
func (t *Table) Add(now int64, all []message.Decided) {
	if len(all) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	for i := range all {
		d := &all[i]
		q := t.of(d.Queue)
		t.series(q, d.Kind).add(d)
		q.heard, q.fresh = t.at, q.fresh+1
		q.minutes.of(t.at)[d.What]++
		if q.hour != nil {
			q.hour.steps[t.at%hourSteps][d.What]++
		}
		t.whole.steps[t.at%daySteps][d.What]++
	}
}

// of gives the queue of a name, which is made where there is room.
func (t *Table) of(name string) *queue {
	q := t.queues[name]
	if q == nil && name != "" && (len(t.queues) < t.o.Queues || t.sweep()) {
		q = &queue{name: name, heard: t.at}
		t.queues[name] = q
		t.name(q)
		if t.hours < busiest {
			q.hour, t.hours = &hour{since: t.at}, t.hours+1
		}
	}
	if q == nil {
		return &t.nobody
	}
	return q
}

// name gives a queue series of its own, where there is room.
func (t *Table) name(q *queue) {
	if q.named == nil && len(t.order) < t.o.Named {
		q.named = &named{}
		t.order = append(t.order, q)
	}
}

// series gives what a decision about a kind of a queue is counted in.
func (t *Table) series(q *queue, kind string) *series {
	n := q.named
	switch {
	case n == nil:
		return &t.other
	case kind == "":
		return &n.plain
	case n.kinds[kind] != nil:
		return n.kinds[kind]
	case len(n.kinds) < maxKinds && t.kinds < t.o.Named:
		if n.kinds == nil {
			n.kinds = make(map[string]*series)
		}
		n.kinds[kind] = &series{}
		t.kinds++
		return n.kinds[kind]
	case n.rest == nil:
		n.rest = &series{}
	}
	return n.rest
}

// idle is how many steps without a decision make a queue one that may be forgotten.
const idle = int64(time.Hour / Step)

// sweep forgets queues without series of which nothing was heard for long, and tells whether
// there is room now.
func (t *Table) sweep() bool {
	if t.swept == t.at {
		return false // all were looked at in this step
	}
	t.swept = t.at
	for _, q := range t.queues {
		if q.named == nil && t.at-q.heard > idle {
			t.drop(q)
		}
	}
	return len(t.queues) < t.o.Queues
}

// drop takes a queue out of the table.
func (t *Table) drop(q *queue) {
	delete(t.queues, q.name)
	if q.hour != nil {
		t.hours--
	}
}

// Names gives queues series, those that have none yet as far as there is room, and gives the
// names of all that have. gone are queues that are not there any more: they give way once
// nothing was decided about them for an hour.
func (t *Table) Names(known, gone []string) (named []string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range gone {
		if q := t.queues[name]; q != nil && q.named != nil && t.at-q.heard > idle {
			t.forget(q)
		}
	}
	for _, name := range known {
		q := t.queues[name]
		if q == nil && len(t.order) < t.o.Named && len(t.queues) < t.o.Queues {
			q = &queue{name: name, heard: t.at}
			t.queues[name] = q
		}
		if q != nil {
			t.name(q)
		}
		cut = cut || q == nil || q.named == nil
	}
	for _, q := range t.order {
		named = append(named, q.name)
	}
	return named, cut
}

// forget takes a queue and its series out.
func (t *Table) forget(q *queue) {
	t.drop(q)
	t.kinds -= len(q.named.kinds)
	for i, o := range t.order {
		if o == q {
			t.order = append(t.order[:i], t.order[i+1:]...)
			return
		}
	}
}

// join adds what another one has counted.
func (s *series) join(o *series) {
	for i, n := range o.totals {
		s.totals[i] += n
	}
	s.wait.join(&o.wait)
	s.run.join(&o.run)
	s.age.join(&o.age)
}

// join adds the times that another one has counted.
func (h *histogram) join(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}
