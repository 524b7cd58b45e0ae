package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

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

// remoteWatches are dependencies across nodes.
type remoteWatches struct {
	l      *edges
	wanted map[id.ID]bool                         // to be asked about, in this round
	number uint64                                 // of the last round of questions
	since  map[id.ID]since                        // from which question on a failure counts
	asked  map[id.ID]map[register.Member]question // by others
	failed map[id.ID]message.Outcome              // heard of last, of what others keep
	needs  *references
	ended  map[register.Member]*message.Outcomes // to be told, in this round
	at     int64                                 // mono ns of the next look
	swept  int64                                 // mono ns of the last sweep of asked
	next   look                                  // where it goes on
}

// question is the newest one of another node about a task, remembered until mono ns.
type question struct {
	number uint64
	until  int64
}

// since is the first question whose answer counts, and since when, mono ns.
type since struct {
	number  uint64
	at      int64
	refused int64 // since when answers are too old; 0: none was
}

func newRemoteWatches(l *edges) *remoteWatches {
	return &remoteWatches{
		l: l, at: clock.Never, wanted: make(map[id.ID]bool), since: make(map[id.ID]since), asked: make(map[id.ID]map[register.Member]question),
		needs: newNeeds(l), failed: make(map[id.ID]message.Outcome), ended: make(map[register.Member]*message.Outcomes),
	}
}

// remember is for how long this node knows who has asked, in ns.
func (w *remoteWatches) remember() int64 { return int64(cmp.Or(w.l.c.cfg.WatchFor, watchFor)) }

// ask has a replica asked about a task that is not kept here.
func (w *remoteWatches) ask(task id.ID) { w.wanted[task] = true }

// anew has it asked because of another task that waits for it: that it has failed counts
// from that question on. What answers an earlier one may be of before a retry that was
// acknowledged before the other task came. Past a number of tasks any answer counts.
func (w *remoteWatches) anew(task id.ID) {
	w.ask(task)
	if old, known := w.since[task]; known || len(w.since) < maxWatched {
		w.since[task] = since{w.number + 1, w.l.c.round.Now.Mono, old.refused}
	}
}

// late tells whether an answer is to a question from before that, or to none of this process:
// unless others have come for too long, as for [unconfirmedFailures].
func (w *remoteWatches) late(task id.ID, number uint64) bool {
	from, is := w.since[task]
	if !is || mutant.LateOutcome.On() || int64(number-from.number) >= 0 && int64(w.number-number) >= 0 {
		return false
	}
	now := w.l.c.round.Now.Mono
	if from.refused == 0 {
		from.refused = now
		w.since[task] = from
	}
	return now-from.refused < int64(doubtFor)
}

// say has a node told how a task has ended.
func (w *remoteWatches) say(to register.Member, number uint64, o message.Outcome) {
	m := w.ended[to]
	if m == nil {
		m = &message.Outcomes{Number: number}
		w.ended[to] = m
	}
	if o.State != crdt.StateCompleted && int64(number-m.Number) < 0 {
		m.Number = number
	}
	m.Outcomes = append(m.Outcomes, o)
}

// finished tells those who asked. That it has failed only its leader says, once that stands.
func (w *remoteWatches) finished(task id.ID) {
	if len(w.asked[task]) == 0 {
		return
	}
	outcome, err := w.l.outcome(task)
	if !w.l.c.round.Check(err) || outcome == crdt.StateUnknown {
		return
	}
	if outcome == crdt.StateCompleted || w.l.doubts.leads(task) && w.l.doubts.stands(task, outcome) {
		w.tell(task, outcome)
	}
}

// tell tells them.
func (w *remoteWatches) tell(task id.ID, outcome crdt.State) {
	who := w.asked[task]
	delete(w.asked, task)
	for m, q := range who { // Any order: each has its own message.
		w.say(m, q.number, message.Outcome{Task: task, State: outcome})
	}
}

// watch answers another node, now or when there is something to say.
func (w *remoteWatches) watch(now clock.Time, from register.Member, m *message.Watch) {
	w.needs.heard(now, m.Keep)
	for _, task := range m.Tasks {
		outcome, err := w.l.outcome(task)
		if !w.l.c.round.Check(err) {
			return
		}
		if w.l.doubts.leads(task) {
			w.l.doubts.anew(task)
		}
		if outcome == crdt.StateCompleted || outcome != crdt.StateUnknown && w.l.doubts.leads(task) && w.l.doubts.stands(task, outcome) {
			w.say(from, m.Number, message.Outcome{Task: task, State: outcome})
			continue
		}
		if w.asked[task] == nil {
			if len(w.asked) >= maxWatched {
				continue
			}
			w.asked[task] = make(map[register.Member]question)
		}
		w.asked[task][from] = question{m.Number, now.Mono + w.remember()}
	}
}

// hear takes what another node knows.
func (w *remoteWatches) hear(m *message.Outcomes) {
	for _, o := range m.Outcomes {
		w.l.c.crons.m.Finished(w.l.c.crons.time(w.l.c.round.Now), o.Task, o.State)
		if !o.State.Finished() || o.State != crdt.StateCompleted && w.late(o.Task, m.Number) {
			continue
		}
		delete(w.since, o.Task)
		switch {
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
func (l *edges) elsewhere(dependencies []id.ID) map[id.ID]crdt.State {
	away := make(map[id.ID]crdt.State)
	for _, d := range dependencies {
		if !l.holds(d) {
			away[d] = l.watches.failed[d].State
		}
	}
	return away
}

// note remembers a failure for a while.
func (w *remoteWatches) note(o message.Outcome) {
	if o.State == crdt.StateCompleted {
		delete(w.failed, o.Task)
	} else if len(w.failed) < maxWatched {
		w.failed[o.Task] = o
	}
}

// work looks at some waiting tasks and sends what there is to ask and to tell.
func (w *remoteWatches) work(now clock.Time) {
	c := w.l.c
	w.l.doubts.work(now)
	switch {
	case c.view.Whole:
		if w.at != clock.Never { // everybody keeps everything now: no answer is waited for any more
			for _, v := range c.vnodes.Each() {
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
	w.number++
	asks := make(map[register.Member]*message.Watch)
	for _, task := range slices.SortedFunc(maps.Keys(w.wanted), id.ID.Compare) {
		to, ok := c.routes.reader(ring.Of(task, len(c.view.Cells)))
		if !ok || to == c.cfg.Self {
			continue // it is looked at again
		}
		mail := round.For(asks, to)
		mail.Tasks = append(mail.Tasks, task)
	}
	clear(w.wanted)
	w.needs.say(asks)
	for _, ask := range asks { // Any order: each gets the same number.
		ask.Number = w.number
	}
	round.SendAll(c.round.Send, asks)
	for _, ended := range w.ended { // Any order: each is sorted for itself.
		slices.SortFunc(ended.Outcomes, func(a, b message.Outcome) int { return a.Task.Compare(b.Task) })
	}
	round.SendAll(c.round.Send, w.ended)
	clear(w.ended)
}

// scan goes on through the waiting tasks that this node decides about, and through those
// that nobody does now, as far as what they depend on has to stay.
func (w *remoteWatches) scan() {
	c := w.l.c
	w.needs.begin()
	for range c.view.Cells {
		leads := c.vnodes.See(w.next.partition).Leading() != 0
		if leads || w.needs.orphaned(w.next.partition) {
			pairs := vnode.Waiting(c.round.Tx, w.next.partition, w.next.task, w.next.dependency, watchStep)
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
		w.next = look{partition: (w.next.partition + 1) % ring.Partition(len(c.view.Cells))}
		if len(w.wanted)+len(w.needs.now) >= watchStep {
			return
		}
	}
}

// seek asks how a dependency has ended that is kept elsewhere. One that has come
// here meanwhile says so itself: whoever was asked may never have answered, and its
// end may have come here before this node led the task that waits.
func (w *remoteWatches) seek(pair vnode.Pair) {
	if !w.l.holds(pair.Dependency) {
		w.ask(pair.Dependency)
		return
	}
	outcome, err := w.l.outcome(pair.Dependency)
	if w.l.c.round.Check(err) && outcome != crdt.StateUnknown && w.l.doubts.stands(pair.Dependency, outcome) {
		w.l.resolve(w.l.c.round.Now, pair.Task, pair.Dependency, outcome)
	}
}

// sweep forgets who has not asked for long.
func (w *remoteWatches) sweep(now clock.Time) {
	if now.Mono-w.swept < w.remember() {
		return
	}
	w.swept = now.Mono
	w.needs.sweep(now)
	clear(w.failed) // what is waited for is heard again
	maps.DeleteFunc(w.since, func(_ id.ID, s since) bool { return now.Mono-s.at >= w.remember() })
	for task, who := range w.asked { // Any order: each is looked at for itself.
		maps.DeleteFunc(who, func(_ register.Member, q question) bool { return q.until <= now.Mono })
		if len(who) == 0 {
			delete(w.asked, task)
		}
	}
}
