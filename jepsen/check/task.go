package check

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/ring"
)

// fact is what is known of one thing that clients want to become true.
type fact struct {
	asked  int   // how often it was asked for
	failed int   // how often that surely had no effect
	first  int64 // when it was asked for first
	since  int64 // surely true from then on
}

func newFact() fact { return fact{first: never, since: never} }

// ask notes an attempt.
func (f *fact) ask(now int64) {
	f.asked++
	f.first = min(f.first, now)
}

// holds notes that it is surely true by now.
func (f *fact) holds(now int64) { f.since = min(f.since, now) }

// possible tells whether it may be true: somebody asked, and was not refused.
func (f *fact) possible() bool { return f.asked > f.failed }

// before tells whether it was surely true before a time.
func (f *fact) before(at int64) bool { return f.since < at }

// task is what is known of one task.
type task struct {
	id        id.ID
	partition ring.Partition
	// spec is what was asked for under the ID; nil while nobody has. Where several
	// were asked for, others holds them until an answer has settled which it is.
	spec    *history.Spec
	others  []*history.Spec
	settled bool

	enqueued  fact
	completed fact
	cancelled fact
	discarded fact
	failed    fact
	bound     fact // completed or cancelled, acknowledged by a majority
	kept      fact // enqueued, acknowledged by a majority
	thrown    fact // discarded, acknowledged, and nobody has retried it
	pause     *pause

	retries   int   // attempts to retry it under way or with an unknown outcome
	retried   int64 // when the last one began or ended
	unretried *end  // what was so before those that have yet to be answered; nil: it is so no more
	dead      int64 // surely dead since then
	blocked   int64 // surely cancelled by a dependency since then
	collected int64 // first seen as a tombstone
	latest    int64 // when its last enqueue was sent

	holds   []*hold       // ascending by token
	updates []*update     // in no order; they are few
	results []*completion // in no order; there is one, most often

	last   *history.Item // the last reading
	lastAt int64         // when it was asked for
}

// end is what a task's end was before somebody asked to retry it.
type end struct {
	dead, blocked int64
	thrown        fact
}

// hold is a claim that a worker has heard of.
type hold struct {
	token    uint64
	process  int
	request  request
	begun    int64 // the request it was granted to was first sent
	returned int64 // the worker heard of it
	until    int64 // up to then the worker believes in it
	over     bool  // the worker does not go on with it
	failed   fact
	counted  bool // its failure was acknowledged, and uses up an attempt
	released fact
	start    int64 // wall ns of the leader
}

// update is what is known of one update.
type update struct {
	fact
	kept             fact // acknowledged by a majority
	token, seq, data uint64
	output           bool // a captured line: no checkpoint
}

// completion is what is known of a claim's completion with one result.
type completion struct {
	fact
	token, result uint64
}

func newTask(i id.ID, p ring.Partition) *task {
	return &task{
		id: i, partition: p,
		enqueued: newFact(), completed: newFact(), cancelled: newFact(), discarded: newFact(), failed: newFact(), bound: newFact(),
		kept: newFact(), thrown: newFact(), dead: never, blocked: never, collected: never,
	}
}

// binds notes that the task is finished for good, if a majority says so.
func (t *task) binds(asked *history.Event, now int64) {
	if !asked.Weak {
		t.bound.holds(now)
	}
}

// hold finds a claim by its token.
func (t *task) hold(token uint64) *hold {
	i, ok := slices.BinarySearchFunc(t.holds, token, func(h *hold, token uint64) int { return cmp.Compare(h.token, token) })
	if !ok {
		return nil
	}
	return t.holds[i]
}

func (t *task) addHold(h *hold) {
	i, _ := slices.BinarySearchFunc(t.holds, h.token, func(h *hold, token uint64) int { return cmp.Compare(h.token, token) })
	t.holds = slices.Insert(t.holds, i, h)
}

// find gives an update, or nil when nobody has asked for it.
func (t *task) find(token, seq uint64) *update {
	for _, u := range t.updates {
		if u.token == token && u.seq == seq {
			return u
		}
	}
	return nil
}

func (t *task) update(token, seq uint64) *update {
	u := t.find(token, seq)
	if u == nil {
		u = &update{fact: newFact(), kept: newFact(), token: token, seq: seq}
		t.updates = append(t.updates, u)
	}
	return u
}

// completion gives what is known of a claim's completion with a result.
func (t *task) completion(token, result uint64) *completion {
	for _, d := range t.results {
		if d.token == token && d.result == result {
			return d
		}
	}
	d := &completion{newFact(), token, result}
	t.results = append(t.results, d)
	return d
}

// resulted tells whether the task may have been completed with a result.
func (t *task) resulted(result uint64) bool {
	return slices.ContainsFunc(t.results, func(d *completion) bool { return d.result == result && d.possible() })
}

// ask notes a spec that may become the task's.
func (t *task) ask(s *history.Spec) {
	switch {
	case t.spec == nil:
		t.spec = s
	case !t.settled && !same(t.spec, s):
		t.others = append(t.others, s)
	}
}

// settle notes which of the specs it is. It is false when it was another one
// before, or when nobody has asked for it.
func (t *task) settle(s *history.Spec) bool {
	if i := slices.IndexFunc(t.others, func(o *history.Spec) bool { return same(o, s) }); i >= 0 && !t.settled {
		t.spec = t.others[i]
	}
	t.settled, t.others = true, nil
	return same(t.spec, s)
}

// same tells whether a spec is shown as it was asked for.
func same(want, got *history.Spec) bool {
	return want.Queue == got.Queue && want.Priority == got.Priority && want.Payload == got.Payload &&
		want.Key == got.Key && slices.Equal(want.Deps, got.Deps) && want.OnFailure == got.OnFailure &&
		(want.MaxAttempts == 0 || got.MaxAttempts == 0 || want.MaxAttempts == got.MaxAttempts)
}

// queue is the task's queue, "" while nobody has asked for the task.
func (t *task) queue() string {
	if t.spec == nil {
		return ""
	}
	return t.spec.Queue
}

// maybeFailed tells whether the task may have died or been cancelled at some
// time, itself or by its dependencies.
func (c *Checker) maybeFailed(t *task, seen map[*task]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if t.cancelled.possible() || t.blocked != never || (ends{c}).maybeDead(t) {
		return true
	}
	return c.maybeBlocked(t, seen)
}

// unclear tells whether somebody may hold a claim of a queue without having
// heard of it. Between nodes a grant can get lost while its request is answered
// without it.
func (c *Checker) unclear(queue string) bool { return c.o.many() || c.queue(queue).asking > 0 }

// maybeBlocked tells whether a dependency may have cancelled the task.
func (c *Checker) maybeBlocked(t *task, seen map[*task]bool) bool {
	if t.spec == nil || t.spec.OnFailure != "" {
		return false
	}
	if c.o.forgets() && len(t.spec.Deps) > 0 {
		return true
	}
	return slices.ContainsFunc(t.spec.Deps, func(d id.ID) bool { return c.maybeFailed(c.task(d), seen) })
}

// resolved tells whether a dependency may hold the task back no more.
func (c *Checker) resolved(t *task, dep id.ID) bool {
	d := c.task(dep)
	return d.completed.possible() || t.spec.OnFailure == "run" && c.maybeFailed(d, map[*task]bool{})
}

// Forgettable tells whether nobody needs to know anything of a task any more.
func Forgettable(c *Checker, task id.ID) bool { return c.forgettable(c.task(task), true) }

// forgettable tells whether the task may have been collected by now: it may
// have been finished for as long as finished tasks are kept. With grace the
// memory of it may be gone too.
func (c *Checker) forgettable(t *task, grace bool) bool {
	if c.o.Retention == 0 {
		return false
	}
	finished := min(t.completed.first, t.cancelled.first, t.discarded.first)
	if c.maybeFailed(t, map[*task]bool{}) {
		finished = min(finished, t.enqueued.first)
	}
	if finished == never {
		return false
	}
	kept := c.o.Retention - c.o.Slack
	if grace {
		if c.o.Grace == 0 {
			return false
		}
		kept += c.o.Grace - c.o.Slack
	}
	return c.now-finished >= kept
}

// reusable tells whether the ID may name a new task by now: that of a unique
// key without a window carries no time, so nobody can tell it from an old one
// once everything about the old one is forgotten.
func (c *Checker) reusable(t *task) bool {
	return t.id.Kind() == id.KindKey && t.spec != nil && t.spec.Window == 0 && c.forgettable(t, true)
}

// revived tells whether the task that is shown as unfinished is a new one under
// the ID of an old one that was finished and forgotten: somebody has enqueued
// it since then, and what the node says of that may still be on its way.
func (c *Checker) revived(asked *history.Event, t *task, state history.State) bool {
	finished := t.completed.before(asked.At) || t.cancelled.before(asked.At) || t.dead < asked.At || t.blocked < asked.At
	return finished && !state.Finished() && c.reusable(t) && c.now-t.latest < c.o.Retention+c.o.Grace
}

// reborn begins the task anew.
func (c *Checker) reborn(t *task) {
	spec, last, results := t.spec, t.last, t.results
	for _, d := range results {
		d.since = never // a copy that is behind may show it still, and need not
	}
	*t = *newTask(t.id, t.partition)
	t.spec, t.last, t.results = spec, last, results
	t.enqueued.ask(c.now)
}
