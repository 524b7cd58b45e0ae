package check

import (
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// observe takes in one reading of a task: by get, in a list, with a grant.
func (c *Checker) observe(asked *history.Event, got *history.Item) {
	t := c.task(got.Task)
	if got.State == history.Absent {
		if t.enqueued.before(asked.At) && !c.forgettable(t, true) {
			c.fail(Lost, t, "it was acknowledged and is not found")
		}
		if majority(asked) && t.kept.before(asked.At) && !c.forgettable(t, true) {
			c.breach(Lost, t, "a majority has acknowledged it, and a majority does not find it")
		}
		if a := asked.After; a != nil && asked.Func == history.Get && !c.forgettable(t, true) {
			c.breach(Contiguous, t, "update %x/%d had been seen and was asked for, and the task is not found", a.Token, a.Seq)
		}
		c.keep(t, asked, got)
		return
	}
	if !t.enqueued.possible() && !t.completed.possible() && !t.cancelled.possible() {
		invariant := Phantom
		if t.enqueued.asked > 0 {
			invariant = Honesty
		}
		c.fail(invariant, t, "it is there (%s), and %d of %d attempts to enqueue it are said to have failed", got.State, t.enqueued.failed, t.enqueued.asked)
		return
	}
	if got.Spec != nil {
		if t.collected < asked.At && c.reusable(t) || c.revived(asked, t, got.State) {
			c.reborn(t)
		}
		c.shown(&t.enqueued)
		c.sameSpec(t, got.Spec)
		if t.collected < asked.At {
			c.fail(Collected, t, "it was collected and is there again")
		}
	} else if asked.Func == history.Get && got.State != "" && !asked.Weak {
		// A single copy may lack the enqueue that the others have. Else a replica may
		// have heard of its end and not of its enqueue, which was not sure to be
		// anywhere.
		if t.enqueued.before(asked.At) {
			if !c.forgettable(t, false) {
				fail := c.fail
				if majority(asked) && t.kept.before(asked.At) && !c.stepped {
					fail = c.breach // a majority had the enqueue: what it shows now has been collected
				}
				fail(Collected, t, "all but its end is forgotten too early")
			}
			t.collected = min(t.collected, c.now)
		}
	}
	if majority(asked) && t.bound.before(asked.At) && got.State != "" && !got.State.Finished() {
		c.breach(Undone, t, "a majority has acknowledged that it is finished, and a majority shows it as %s", got.State)
	}
	c.observeState(asked, t, got.State)
	if asked.Func == history.Explain {
		explaining{c}.explained(asked, t, got)
	}
	if got.Spec != nil {
		sameResult(c, asked, t, got)
		c.observeClaims(asked, t, got)
		if asked.Func == history.Claim {
			logs{c}.checkpoint(asked, t, got) // the rest of the log is cut
		} else {
			logs{c}.whole(asked, t, got.Log)
		}
	}
	c.keep(t, asked, got)
}

// majority tells whether a reading asks a majority of the replicas: what a majority has
// acknowledged before, one of them has.
func majority(asked *history.Event) bool { return asked.Func == history.Get && !asked.Weak }

// shown notes that a reading has it: from now on it is so, unless what the
// reading came from can be lost.
func (c *Checker) shown(f *fact) {
	if !c.o.Lossy {
		f.holds(c.now)
	}
}

// keep remembers the last reading; readings of a grant say little.
func (c *Checker) keep(t *task, asked *history.Event, got *history.Item) {
	if asked.Func == history.Get && asked.At >= t.lastAt {
		t.last, t.lastAt = got, asked.At
	}
}

// observeState judges a state that somebody was told.
func (c *Checker) observeState(asked *history.Event, t *task, s history.State) {
	switch {
	case s == "":
		return
	case t.completed.before(asked.At) && s != history.Completed:
		c.fail(Undone, t, "its completion was acknowledged and it is %s", s)
	case t.cancelled.before(asked.At) && s != history.Cancelled && s != history.Completed:
		c.fail(Undone, t, "its cancellation was acknowledged and it is %s", s)
	case t.dead < asked.At && !s.Finished():
		c.fail(Undone, t, "it was dead, nobody has retried it, and it is %s", s)
	case t.blocked < asked.At && !s.Finished():
		c.fail(Undone, t, "it was cancelled by a dependency, nobody has retried it, and it is %s", s)
	}
	c.possibleState(asked, t, s)
	settled := t.retries == 0 && t.retried < asked.At
	switch s {
	case history.Completed:
		c.shown(&t.completed)
	case history.Dead:
		if settled && !c.o.Lossy {
			t.dead = min(t.dead, c.now)
		}
	case history.Cancelled:
		if !t.cancelled.possible() && settled && !c.o.Lossy {
			t.blocked = min(t.blocked, c.now)
		}
		if t.cancelled.possible() && !c.maybeBlocked(t, map[*task]bool{}) {
			c.shown(&t.cancelled)
		}
	}
}

// possibleState: every state has something that it needs.
func (c *Checker) possibleState(asked *history.Event, t *task, s history.State) {
	if t.spec == nil {
		if s != history.Completed && s != history.Cancelled {
			c.fail(StateRule, t, "it is %s, and nobody has enqueued it", s)
		}
		return
	}
	switch s {
	case history.Completed:
		if !t.completed.possible() {
			c.fail(why(&t.completed), t, "it is completed, and nobody has completed it")
		}
	case history.Cancelled:
		if !t.cancelled.possible() && t.blocked == never && !c.maybeBlocked(t, map[*task]bool{}) && (!c.o.forgets() || len(t.spec.Deps) == 0) {
			c.fail(why(&t.cancelled), t, "it is cancelled, and neither has anybody cancelled it nor has a dependency failed")
		}
	case history.Dead:
		if !(ends{c}).maybeDead(t) {
			c.fail(why(&t.discarded), t, "it is dead, and was neither discarded nor claimed often enough")
		}
	case history.Claimed:
		if len(t.holds) == 0 && !c.unclear(t.spec.Queue) && asked.Func != history.Claim {
			c.fail(Phantom, t, "it is claimed, and nobody has claimed it")
		}
	case history.Scheduled:
		if t.spec.NotBefore == 0 && !t.failed.possible() {
			c.fail(StateRule, t, "it is scheduled, without a not-before time or a failure")
		}
	case history.Waiting:
		c.waiting(asked, t)
	case history.Ready:
		if i := slices.IndexFunc(t.spec.Deps, func(d id.ID) bool { return !c.resolved(t, d) }); i >= 0 {
			c.fail(Dependency, t, "it is ready, and its dependency %s is not completed", t.spec.Deps[i])
		}
	}
	c.claimedNow(asked, t, s)
}

// why tells what it means that something appears without having been asked
// for, or after it was said to have failed.
func why(f *fact) string {
	if f.asked > 0 {
		return Honesty
	}
	return Phantom
}

// waiting: a task waits for what is not completed. The node may take its time to let it go, from
// the completion on and from the task's own coming: without a leader, shortly after a start,
// nobody says that what it depends on is completed (seed 57 of one node).
func (c *Checker) waiting(asked *history.Event, t *task) {
	if len(t.spec.Deps) == 0 {
		c.fail(StateRule, t, "it waits for dependencies that it does not have")
	}
	if !slices.ContainsFunc(t.spec.Deps, func(d id.ID) bool {
		return !c.task(d).completed.before(asked.At-c.o.Slack) || c.o.unheard(t, c.task(d))
	}) && len(t.spec.Deps) > 0 && t.enqueued.before(asked.At-c.o.Slack) {
		c.fail(StateRule, t, "it waits, and all its dependencies are completed")
	}
}

// unheard tells whether the end of a dependency may have been forgotten before anybody
// surely knew of the task that waits for it: one that was taken in with a single copy,
// by a node that was away for that long.
func (o *Options) unheard(t, dep *task) bool {
	return o.forgets() && t.enqueued.since > dep.completed.first+o.Retention-o.Slack
}

// claimedNow: while a worker surely has the task, it is claimed.
func (c *Checker) claimedNow(asked *history.Event, t *task, s history.State) {
	if s == history.Claimed || asked.Func == history.Claim || c.o.Unfenced {
		return
	}
	for _, h := range t.holds {
		if h.returned < asked.At && h.believed(c.now, c.dead) && !c.maybeEnded(t, h) {
			c.fail(Lost, t, "it is %s while process %d has it under claim %x for another %.3f s", s, h.process, h.token, float64(h.until-c.now)/1e9)
		}
	}
}

// sameSpec compares what is shown with what was asked for.
func (c *Checker) sameSpec(t *task, got *history.Spec) {
	if t.spec == nil {
		c.fail(Phantom, t, "its spec is shown, and nobody has enqueued it")
		return
	}
	if !t.settle(got) {
		c.fail(Content, t, "it was enqueued as %+v and is shown as %+v", *t.spec, *got)
	}
}

// sameResult compares the result of a completed task with those that were sent: which of
// several stays is not said, a list shows none, and with a task that may have been
// collected its result may be gone.
func sameResult(c *Checker, asked *history.Event, t *task, got *history.Item) {
	if asked.Func != history.Get || got.State != history.Completed || !t.completed.possible() || t.resulted(got.Data) {
		return
	}
	if got.Data != 0 || !c.forgettable(t, false) {
		c.fail(Content, t, "it is shown with the result %x, with which nobody has completed it", got.Data)
	}
}

// observeClaims compares the claims shown with those that workers know.
func (c *Checker) observeClaims(asked *history.Event, t *task, got *history.Item) {
	ended, late := uint32(0), uint32(0)
	last := uint64(0)
	for _, s := range got.Claims {
		if s.Token <= last {
			c.fail(Token, t, "its claims are not in the order of their tokens: %x after %x", s.Token, last)
		}
		last = s.Token
		if s.Outcome == "failed" || s.Outcome == "expired" {
			ended++
		}
		if s.Outcome == "completed" { // late, perhaps: it has failed or expired before, which counts
			late = 1
		}
		h := t.hold(s.Token)
		if h != nil {
			ends{c}.ofNobody(t, h, s.Outcome)
		}
		if h == nil || c.o.many() { // a replica may not have seen each of them
			continue
		}
		if h.released.before(asked.At) && s.Outcome != "released" || h.failed.before(asked.At) && s.Outcome != "failed" {
			c.fail(Lost, t, "the end of claim %x was acknowledged, and it is shown as %s", h.token, s.Outcome)
		}
	}
	for _, h := range t.holds {
		shown := func(s history.ClaimSeen) bool { return s.Token == h.token }
		if h.returned < asked.At && !c.o.many() && !slices.ContainsFunc(got.Claims, shown) {
			c.fail(Lost, t, "claim %x of process %d is not shown", h.token, h.process)
		}
	}
	if c.o.Unfenced {
		return
	}
	if used := (ends{c}).attempts(asked, t, got); got.Attempts < used && t.retries == 0 && t.retried == 0 {
		c.fail(StateRule, t, "%d attempts are counted, and at least %d claims have failed or expired", got.Attempts, used)
	}
	if got.Attempts > ended+late {
		c.fail(StateRule, t, "%d attempts are counted, and %d claims have failed or expired", got.Attempts, ended)
	}
	most := uint32(0)
	if got.Spec != nil {
		most = got.Spec.MaxAttempts
	}
	switch {
	case got.State == history.Dead && !t.discarded.possible() && got.Attempts < most && !(ends{c}).maybeLate(t):
		c.fail(StateRule, t, "it is dead after %d of %d attempts", got.Attempts, most)
	case !got.State.Finished() && most > 0 && got.Attempts >= most:
		c.fail(StateRule, t, "it is %s after %d of %d attempts", got.State, got.Attempts, most)
	}
}
