package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Watch asks a replica how tasks have ended, or will. That one has failed only its leader
// says ([doubts]).
type Watch struct {
	Tasks []id.ID
	Keep  []id.ID // unfinished tasks depend on them: they are not to be collected
}

// Outcomes says how tasks have ended: a completion is final, so any replica that
// knows of it is proof (design 8).
type Outcomes struct{ Outcomes []Outcome }

// Outcome is the end of one task.
type Outcome struct {
	Task  id.ID
	State crdt.State // completed, dead or cancelled
}

func (*Watch) peerMessage()    {}
func (*Outcomes) peerMessage() {}

const (
	// watchFor is how long a replica remembers who asked: the asker asks again.
	watchFor = time.Minute
	// watchEvery is the pause between two looks at waiting tasks whose
	// dependencies are kept elsewhere, and watchStep how many are looked at: news
	// come by themselves, this is the net below.
	watchEvery = time.Second
	watchStep  = 500
	// maxWatched bounds the tasks that others ask about. Past it they have to ask
	// again and again.
	maxWatched = 100_000
)

// watches are dependencies across nodes.
type watches struct {
	l      *links
	wanted map[id.ID]bool                      // to be asked about, in this round
	asked  map[id.ID]map[register.Member]int64 // by others, until mono ns
	failed map[id.ID]Outcome                   // heard of last, of what others keep
	needs  *needs
	ended  map[register.Member][]Outcome // to be told, in this round
	at     int64                         // mono ns of the next look
	swept  int64                         // mono ns of the last sweep of asked
	next   look                          // where it goes on
}

func newWatches(l *links) *watches {
	return &watches{
		l: l, at: clock.Never, wanted: make(map[id.ID]bool), asked: make(map[id.ID]map[register.Member]int64),
		needs: newNeeds(l), failed: make(map[id.ID]Outcome), ended: make(map[register.Member][]Outcome),
	}
}

// remember is for how long this node knows who has asked, in ns.
func (w *watches) remember() int64 { return int64(cmp.Or(w.l.c.cfg.WatchFor, watchFor)) }

// ask has a replica asked about a task that is not kept here.
func (w *watches) ask(task id.ID) { w.wanted[task] = true }

// finished tells those who asked.
func (w *watches) finished(task id.ID) {
	who := w.asked[task]
	if len(who) == 0 {
		return
	}
	outcome, err := w.l.outcome(task)
	if !w.l.c.check(err) || outcome == crdt.StateUnknown {
		return
	}
	delete(w.asked, task)
	for m := range who { // Any order: each has its own message.
		w.ended[m] = append(w.ended[m], Outcome{task, outcome})
	}
}

// watch answers another node, now or when there is something to say.
func (w *watches) watch(now clock.Time, from register.Member, m *Watch) {
	w.needs.heard(now, m.Keep)
	for _, task := range m.Tasks {
		outcome, err := w.l.outcome(task)
		if !w.l.c.check(err) {
			return
		}
		if outcome == crdt.StateCompleted || outcome != crdt.StateUnknown && w.l.doubts.leads(task) && w.l.doubts.stands(task, outcome) {
			w.ended[from] = append(w.ended[from], Outcome{task, outcome})
			continue
		}
		if w.asked[task] == nil {
			if len(w.asked) >= maxWatched {
				continue
			}
			w.asked[task] = make(map[register.Member]int64)
		}
		w.asked[task][from] = now.Mono + w.remember()
	}
}

// hear takes what another node knows.
func (w *watches) hear(m *Outcomes) {
	for _, o := range m.Outcomes {
		w.l.c.crons.m.Finished(w.l.c.crons.time(w.l.c.now), o.Task, o.State)
		switch {
		case !o.State.Finished():
		case w.l.holds(o.Task): // by now: what is here says how it ended
			if _, doubted := w.l.doubts.all[o.Task]; doubted || w.failed[o.Task].State != o.State { // whoever makes its leader keep it hears of it each second
				delete(w.l.doubts.all, o.Task)
				w.note(o)
				w.l.confirmed(o.Task)
			}
		default:
			w.note(o)
			w.l.hear(o.Task, o.State)
		}
	}
}

// elsewhere gives those of some dependencies that are not kept here, with how they
// have failed, as far as was heard.
func (l *links) elsewhere(dependencies []id.ID) map[id.ID]crdt.State {
	away := make(map[id.ID]crdt.State)
	for _, d := range dependencies {
		if !l.holds(d) {
			away[d] = l.watches.failed[d].State
		}
	}
	return away
}

// note remembers a failure for a while.
func (w *watches) note(o Outcome) {
	if o.State == crdt.StateCompleted {
		delete(w.failed, o.Task)
	} else if len(w.failed) < maxWatched {
		w.failed[o.Task] = o
	}
}

// work looks at some waiting tasks and sends what there is to ask and to tell.
func (w *watches) work(now clock.Time) {
	c := w.l.c
	w.l.doubts.work(now)
	switch {
	case c.routes.whole:
		if w.at != clock.Never { // everybody keeps everything now: no answer is waited for any more
			for _, v := range c.vnodes.each() {
				if v.Leading() != 0 {
					w.l.began(v.Partition)
				}
			}
		}
		w.at = clock.Never
	case w.at == clock.Never:
		w.at = now.Mono + int64(watchEvery)
	case w.at <= now.Mono:
		w.at = now.Mono + int64(watchEvery)
		w.scan()
		w.sweep(now)
	}
	if len(w.wanted)+len(w.ended)+len(w.needs.now) == 0 {
		return // as in most rounds
	}
	asks := make(map[register.Member]*Watch)
	for _, task := range slices.SortedFunc(maps.Keys(w.wanted), id.ID.Compare) {
		to, ok := c.routes.reader(ring.Of(task, len(c.cells)))
		if !ok || to == c.cfg.Self {
			continue // it is looked at again
		}
		if asks[to] == nil {
			asks[to] = &Watch{}
		}
		asks[to].Tasks = append(asks[to].Tasks, task)
	}
	clear(w.wanted)
	w.needs.say(asks)
	for _, to := range slices.SortedFunc(maps.Keys(asks), register.Member.Compare) {
		c.ready.Send = append(c.ready.Send, Send{To: to, Message: asks[to]})
	}
	for _, to := range slices.SortedFunc(maps.Keys(w.ended), register.Member.Compare) {
		slices.SortFunc(w.ended[to], func(a, b Outcome) int { return a.Task.Compare(b.Task) })
		c.ready.Send = append(c.ready.Send, Send{To: to, Message: &Outcomes{w.ended[to]}})
	}
	clear(w.ended)
}

// scan goes on through the waiting tasks that this node decides about, and through those
// that nobody does now, as far as what they depend on has to stay.
func (w *watches) scan() {
	c := w.l.c
	w.needs.begin()
	for range c.cells {
		leads := c.vnodes.see(w.next.partition).Leading() != 0
		if leads || w.needs.orphaned(w.next.partition) {
			pairs := vnode.Waiting(c.tx, w.next.partition, w.next.task, w.next.dependency, watchStep)
			more := len(pairs) == watchStep
			for i, pair := range pairs {
				if i > 0 && w.needs.full() {
					pairs, more = pairs[:i], true
					break
				}
				if leads {
					w.seek(pair)
				}
				w.needs.of(pair.Task)
			}
			if more {
				last := pairs[len(pairs)-1]
				w.next.task, w.next.dependency = last.Task, last.Dependency
				return
			}
		}
		w.next = look{partition: (w.next.partition + 1) % ring.Partition(len(c.cells))}
		if len(w.wanted)+len(w.needs.now) >= watchStep {
			return
		}
	}
}

// seek asks how a dependency has ended that is kept elsewhere. One that has come
// here meanwhile says so itself: whoever was asked may never have answered, and its
// end may have come here before this node led the task that waits.
func (w *watches) seek(pair vnode.Pair) {
	if !w.l.holds(pair.Dependency) {
		w.ask(pair.Dependency)
		return
	}
	outcome, err := w.l.outcome(pair.Dependency)
	if w.l.c.check(err) && outcome != crdt.StateUnknown && w.l.doubts.stands(pair.Dependency, outcome) {
		w.l.resolve(w.l.c.now, pair.Task, pair.Dependency, outcome)
	}
}

// sweep forgets who has not asked for long.
func (w *watches) sweep(now clock.Time) {
	if now.Mono-w.swept < w.remember() {
		return
	}
	w.swept = now.Mono
	w.needs.sweep(now)
	clear(w.failed)                  // what is waited for is heard again
	for task, who := range w.asked { // Any order: each is looked at for itself.
		maps.DeleteFunc(who, func(_ register.Member, until int64) bool { return until <= now.Mono })
		if len(who) == 0 {
			delete(w.asked, task)
		}
	}
}
