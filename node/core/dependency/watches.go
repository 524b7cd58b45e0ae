package dependency

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// WatchFor is how long a replica remembers who asked: the asker asks again.
	WatchFor = time.Minute
	// WatchEvery is the pause between two looks at waiting tasks whose
	// dependencies are kept elsewhere, and watchStep how many are looked at: news
	// come by themselves, this is the net below.
	WatchEvery = time.Second
	watchStep  = 500
	// MaxWatched bounds the tasks that others ask about. Past it they have to ask
	// again and again.
	MaxWatched = 100_000
)

// Watches are dependencies across nodes.
type Watches struct {
	m      *Machine
	wanted map[id.ID]bool // to be asked about, in this round
	// Invariant: an answer counts only if its question has at least the number in here. It was
	// asked after the newest task that waits had come, so it knows of every retry that was
	// acknowledged before (mutant LateOutcome).
	since  map[id.ID]since                       // from which question on a failure counts
	failed map[id.ID]message.Outcome             // heard of last, of what others keep
	ended  map[register.Member]*message.Outcomes // to be told, in this round
	next   look                                  // where it goes on

	// Needs are what has to stay for others.
	Needs *References
	// Asked is what others have asked about.
	// Invariant: there are at most [MaxWatched] tasks, none with nobody who asks (Audit).
	Asked map[id.ID]map[register.Member]question
	// Number is of the last round of questions, At when the next look is, Swept when Asked was
	// last gone through, mono ns.
	Number    uint64
	At, Swept int64
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

// newWatches makes the questions of a process. number is drawn, so that answers to the process
// before match none.
func newWatches(m *Machine, number uint64) *Watches {
	return &Watches{
		m: m, Number: number, At: clock.Never, wanted: make(map[id.ID]bool), since: make(map[id.ID]since), Asked: make(map[id.ID]map[register.Member]question),
		Needs: newReferences(m), failed: make(map[id.ID]message.Outcome), ended: make(map[register.Member]*message.Outcomes),
	}
}

// Remember is for how long this node knows who has asked, in ns.
func (w *Watches) Remember() int64 { return int64(cmp.Or(w.m.WatchFor, WatchFor)) }

// Ask has a replica asked about a task that is not kept here.
func (w *Watches) Ask(task id.ID) { w.wanted[task] = true }

// anew has it asked because of another task that waits for it: that it has failed counts
// from that question on. What answers an earlier one may be of before a retry that was
// acknowledged before the other task came. Past a number of tasks any answer counts.
func (w *Watches) anew(task id.ID) {
	w.Ask(task)
	if old, known := w.since[task]; known || len(w.since) < MaxWatched {
		w.since[task] = since{w.Number + 1, w.m.Round.Now.Mono, old.refused}
	}
}

// late tells whether an answer is to a question from before that, or to none of this process:
// unless others have come for too long, as for [Unconfirmed].
func (w *Watches) late(task id.ID, number uint64) bool {
	from, is := w.since[task]
	if !is || w.m.Policy.LateOutcome || int64(number-from.number) >= 0 && int64(w.Number-number) >= 0 {
		return false
	}
	now := w.m.Round.Now.Mono
	if from.refused == 0 {
		from.refused = now
		w.since[task] = from
	}
	return now-from.refused < int64(doubtFor)
}

// say has a node told how a task has ended.
func (w *Watches) say(to register.Member, number uint64, o message.Outcome) {
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
func (w *Watches) finished(task id.ID) {
	if len(w.Asked[task]) == 0 {
		return
	}
	outcome, err := w.m.Outcome(task)
	if !w.m.Round.Check(err) || outcome == crdt.StateUnknown {
		return
	}
	if outcome == crdt.StateCompleted || w.m.Unconfirmed.leads(task) && w.m.Unconfirmed.Stands(task, outcome) {
		w.tell(task, outcome)
	}
}

// tell tells them.
func (w *Watches) tell(task id.ID, outcome crdt.State) {
	who := w.Asked[task]
	delete(w.Asked, task)
	for m, q := range who { // Any order: each has its own message.
		w.say(m, q.number, message.Outcome{Task: task, State: outcome})
	}
}

// Watched answers another node, now or when there is something to say.
func (w *Watches) Watched(now clock.Time, from register.Member, m *message.Watch) {
	w.Needs.Heard(now, m.Keep)
	for _, task := range m.Tasks {
		outcome, err := w.m.Outcome(task)
		if !w.m.Round.Check(err) {
			return
		}
		if w.m.Unconfirmed.leads(task) {
			w.m.Unconfirmed.anew(task)
		}
		if outcome == crdt.StateCompleted || outcome != crdt.StateUnknown && w.m.Unconfirmed.leads(task) && w.m.Unconfirmed.Stands(task, outcome) {
			w.say(from, m.Number, message.Outcome{Task: task, State: outcome})
			continue
		}
		if w.Asked[task] == nil {
			if len(w.Asked) >= MaxWatched {
				continue
			}
			w.Asked[task] = make(map[register.Member]question)
		}
		w.Asked[task][from] = question{m.Number, now.Mono + w.Remember()}
	}
}

// Heard takes what another node knows.
func (w *Watches) Heard(m *message.Outcomes) {
	for _, o := range m.Outcomes {
		w.m.Others.Heard(o.Task, o.State)
		if !o.State.Finished() || o.State != crdt.StateCompleted && w.late(o.Task, m.Number) {
			continue
		}
		delete(w.since, o.Task)
		switch {
		case w.m.Holds(o.Task): // by now: what is here says how it ended
			if _, doubted := w.m.Unconfirmed.All[o.Task]; doubted || w.failed[o.Task].State != o.State { // whoever makes its leader keep it hears of it each second
				delete(w.m.Unconfirmed.All, o.Task)
				w.note(o)
				w.m.Confirmed(o.Task)
			}
		default:
			w.note(o)
			w.m.Hear(o.Task, o.State)
		}
	}
}

// Elsewhere gives those of some dependencies that are not kept here, with how they
// have failed, as far as was heard.
func (m *Machine) Elsewhere(dependencies []id.ID) map[id.ID]crdt.State {
	away := make(map[id.ID]crdt.State)
	for _, d := range dependencies {
		if !m.Holds(d) {
			away[d] = m.Watches.failed[d].State
		}
	}
	return away
}

// note remembers a failure for a while.
func (w *Watches) note(o message.Outcome) {
	if o.State == crdt.StateCompleted {
		delete(w.failed, o.Task)
	} else if len(w.failed) < MaxWatched {
		w.failed[o.Task] = o
	}
}

// Work looks at some waiting tasks and sends what there is to ask and to tell.
//
// A round without questions and answers costs a comparison of three lengths.
func (w *Watches) Work(now clock.Time) {
	c := w.m
	w.m.Unconfirmed.work(now)
	switch {
	case c.View.Whole:
		if w.At != clock.Never { // everybody keeps everything now: no answer is waited for any more
			for _, v := range c.Partitions.Each() {
				if v.Leading() != 0 {
					w.m.Began(v.Partition)
				}
			}
		}
		w.At = clock.Never
	case w.At == clock.Never:
		w.At = now.Mono + int64(WatchEvery)
	case w.At <= now.Mono:
		w.At = now.Mono + int64(WatchEvery)
		w.scan()
		w.Sweep(now)
	}
	if len(w.wanted)+len(w.ended)+len(w.Needs.now) == 0 {
		return // as in most rounds
	}
	w.Number++
	asks := make(map[register.Member]*message.Watch)
	for _, task := range slices.SortedFunc(maps.Keys(w.wanted), id.ID.Compare) {
		to, ok := c.Routes.Reader(ring.Of(task, len(c.View.Cells)))
		if !ok || to == c.Self {
			continue // it is looked at again
		}
		mail := round.For(asks, to)
		mail.Tasks = append(mail.Tasks, task)
	}
	clear(w.wanted)
	w.Needs.say(asks)
	for _, ask := range asks { // Any order: each gets the same number.
		ask.Number = w.Number
	}
	round.SendAll(c.Round.Send, asks)
	for _, ended := range w.ended { // Any order: each is sorted for itself.
		slices.SortFunc(ended.Outcomes, func(a, b message.Outcome) int { return a.Task.Compare(b.Task) })
	}
	round.SendAll(c.Round.Send, w.ended)
	clear(w.ended)
}

// scan goes on through the waiting tasks that this node decides about, and through those
// that nobody does now, as far as what they depend on has to stay.
func (w *Watches) scan() {
	c := w.m
	w.Needs.begin()
	for range c.View.Cells {
		leads := c.Partitions.See(w.next.partition).Leading() != 0
		if leads || w.Needs.Orphaned(w.next.partition) {
			pairs := vnode.Waiting(c.Round.Tx, w.next.partition, w.next.task, w.next.dependency, watchStep)
			more := len(pairs) == watchStep
			for i, pair := range pairs {
				if i > 0 && w.Needs.full() {
					pairs, more = pairs[:i], true
					break
				}
				if leads {
					w.Seek(pair)
				}
				w.Needs.of(pair.Task)
			}
			if more {
				last := pairs[len(pairs)-1]
				w.next.task, w.next.dependency = last.Task, last.Dependency
				return
			}
		}
		w.next = look{partition: (w.next.partition + 1) % ring.Partition(len(c.View.Cells))}
		if len(w.wanted)+len(w.Needs.now) >= watchStep {
			return
		}
	}
}

// Seek asks how a dependency has ended that is kept elsewhere. One that has come
// here meanwhile says so itself: whoever was asked may never have answered, and its
// end may have come here before this node led the task that waits.
func (w *Watches) Seek(pair vnode.Pair) {
	if !w.m.Holds(pair.Dependency) {
		w.Ask(pair.Dependency)
		return
	}
	outcome, err := w.m.Outcome(pair.Dependency)
	if w.m.Round.Check(err) && outcome != crdt.StateUnknown && w.m.Unconfirmed.Stands(pair.Dependency, outcome) {
		w.m.resolve(w.m.Round.Now, pair.Task, pair.Dependency, outcome)
	}
}

// Sweep forgets who has not asked for long.
func (w *Watches) Sweep(now clock.Time) {
	if now.Mono-w.Swept < w.Remember() {
		return
	}
	w.Swept = now.Mono
	w.Needs.sweep(now)
	clear(w.failed) // what is waited for is heard again
	maps.DeleteFunc(w.since, func(_ id.ID, s since) bool { return now.Mono-s.at >= w.Remember() })
	for task, who := range w.Asked { // Any order: each is looked at for itself.
		maps.DeleteFunc(who, func(_ register.Member, q question) bool { return q.until <= now.Mono })
		if len(who) == 0 {
			delete(w.Asked, task)
		}
	}
}
