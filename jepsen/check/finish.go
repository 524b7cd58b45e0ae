package check

import (
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Finish judges the end of a history: everything is finished that can be, and
// all ways to read agree. It gives the first violation, or nil.
func (c *Checker) Finish() *Violation {
	if c.found != nil {
		return c.found
	}
	if c.settled == never {
		return nil
	}
	end := finale{c}
	for _, t := range c.order {
		end.finished(t)
	}
	end.counts()
	end.lists()
	end.ranks()
	return c.found
}

// finale judges the last readings.
type finale struct{ *Checker }

// read tells whether the task was read after settling, and found with its spec.
func (c finale) read(t *task) bool {
	return t.last != nil && t.lastAt >= c.settled && t.last.State != history.Absent && t.last.Spec != nil
}

func (c finale) finished(t *task) {
	if t.last == nil || t.lastAt < c.settled {
		if t.enqueued.since != never {
			c.fail(Stuck, t, "it was not read at the end: the test is wrong")
		}
		return
	}
	s := t.last.State
	switch {
	case s == history.Absent || s.Finished() || !c.read(t):
	case s == history.Waiting && c.mayWait(t):
	default:
		c.fail(Stuck, t, "it is %s after everything had the time to finish", s)
	}
	if c.read(t) && s == history.Cancelled && !t.cancelled.possible() && t.spec != nil && t.spec.OnFailure != "" && !c.o.forgets() {
		c.fail(Dependency, t, "a dependency has cancelled it against its policy (%s)", t.spec.OnFailure)
	}
	if t.spec == nil || t.spec.Key == "" || t.spec.Window != 0 || s.Finished() || !c.read(t) {
		return
	}
	for _, o := range c.keys[key{t.spec.Queue, t.spec.Key}] {
		if o != t && c.read(o) && o.spec.Window == 0 && !o.last.State.Finished() {
			c.fail(UniqueKey, t, "it is not finished, and neither is %s with the same key", o.id)
		}
	}
}

// mayWait tells whether a dependency may hold the task back for ever: one that
// is not there, that waits itself, or that has failed under the policy to wait.
func (c finale) mayWait(t *task) bool {
	return t.spec != nil && slices.ContainsFunc(t.spec.Deps, func(dep id.ID) bool {
		d := c.task(dep)
		if !c.read(d) {
			return !d.completed.before(c.settled) || c.o.unheard(t, d)
		}
		switch d.last.State {
		case history.Waiting:
			return true
		case history.Dead, history.Cancelled:
			return t.spec.OnFailure == "wait"
		}
		return false
	})
}

// counts: the counters are what get says, queue by queue and state by
// state.
func (c finale) counts() {
	if c.counted == nil {
		return
	}
	want := map[string]map[history.State]uint64{}
	for _, t := range c.order {
		if !c.read(t) {
			continue
		}
		if want[t.queue()] == nil {
			want[t.queue()] = map[history.State]uint64{}
		}
		want[t.queue()][t.last.State]++
	}
	shown := map[string]bool{}
	for _, got := range c.counted.Tallies {
		if got.Queue == "" {
			continue
		}
		shown[got.Queue] = true
		for _, s := range []history.State{history.Waiting, history.Scheduled, history.Ready, history.Claimed, history.Completed, history.Dead, history.Cancelled} {
			if n := want[got.Queue][s]; n != got.Counts[s] {
				c.fail(Counting, nil, "queue %s: %d tasks are counted as %s, and %d are", got.Queue, got.Counts[s], s, n)
			}
		}
	}
	for _, t := range c.order {
		if c.read(t) && !shown[t.queue()] {
			c.fail(Counting, t, "its queue %s is not counted", t.queue())
		}
	}
}

// lists: a list of everything shows what get finds.
func (c finale) lists() {
	if c.listed == nil {
		return
	}
	for _, t := range c.order {
		if c.read(t) != c.listed[t.id] && t.lastAt >= c.settled {
			c.fail(Counting, t, "get finds it: %v, the list shows it: %v", c.read(t), c.listed[t.id])
		}
	}
}

// ranks: tokens of a partition rise with each grant, so the claims tell in
// which order tasks were handed out. A task that was there before a claim
// request began, ready from its enqueue on, and that ranks before the one
// granted, must have been granted before it.
func (c finale) ranks() {
	groups := map[string][]*task{}
	var names []string
	for _, t := range c.order {
		if t.spec == nil {
			continue
		}
		name := t.spec.Queue + "\x00" + string(rune(t.partition))
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], t)
	}
	for _, name := range names {
		for _, x := range groups[name] {
			first, ok := c.firstToken(x)
			if !ok {
				continue
			}
			for _, y := range groups[name] {
				c.passedOver(x, y, first)
			}
		}
	}
}

// firstToken is the token of a task's first claim, when the task was surely
// ready from its enqueue to that claim; never when it was not claimed.
func (c finale) firstToken(t *task) (uint64, bool) {
	if !c.read(t) || len(t.spec.Deps) > 0 || t.spec.NotBefore != 0 || t.enqueued.since == never {
		return 0, false
	}
	if len(t.last.Claims) == 0 {
		return 1<<64 - 1, true
	}
	return t.last.Claims[0].Token, true
}

func (c finale) passedOver(x, y *task, first uint64) {
	if x == y || !better(x, y) {
		return
	}
	for _, h := range y.holds {
		gone := min(x.completed.first, x.cancelled.first, x.discarded.first)
		if h.token < first && x.enqueued.since < h.begun && gone > h.returned {
			c.fail(Order, x, "it was ready when %s, which ranks below it, was granted as %x", y.id, h.token)
			return
		}
	}
}
