package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
)

// simCheck holds what must be true after each step.
type simCheck struct {
	broken  []string
	started map[Instance]map[Claim]bool // ever, by whom
	denied  map[Instance]map[Claim]bool // "was not running"
	freed   map[Claim]Why
	counts  map[string]int
}

func newCheck() simCheck {
	return simCheck{started: map[Instance]map[Claim]bool{}, denied: map[Instance]map[Claim]bool{}, freed: map[Claim]Why{}, counts: map[string]int{}}
}

func (c *simCheck) fail(w *world, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	w.tracef("BROKEN: %v", what)
	c.broken = append(c.broken, what)
}

// runner gives the worker whose handler runs a claim, if any does and is not
// frozen: a frozen one does nothing before it has looked at its clock.
func (w *world) runner(is func(Claim) bool) (*simWorker, Claim) {
	for _, s := range w.workers {
		if s.dead || s.frozen {
			continue
		}
		for _, c := range slices.SortedFunc(maps.Keys(s.runs), Claim.Compare) {
			if is(c) {
				return s, c
			}
		}
	}
	return nil, Claim{}
}

// starts: Invariant: never two handlers run one task, no claim is started twice, none
// that was denied or settled is started at all.
func (c *simCheck) starts(w *world, s *simWorker, claim Claim) {
	c.counts["started"]++
	for _, i := range slices.SortedFunc(maps.Keys(c.started), func(a, b Instance) int { return int(a[0]) - int(b[0]) }) {
		if c.started[i][claim] {
			c.fail(w, "%v is started by w%d, and was by w%d before", w.name(claim), s.no, i[0]-1)
		}
	}
	c.started[s.instance()][claim] = true
	for d := range c.denied[s.instance()] {
		if d.Task == claim.Task && d.Token >= claim.Token {
			c.fail(w, "w%d starts %v, of which it has said that %v was not running", s.no, w.name(claim), w.name(d))
		}
	}
	if why, ok := c.freed[claim]; ok {
		c.fail(w, "w%d starts %v, which was settled: %v", s.no, w.name(claim), why)
	}
	if o, other := w.runner(func(r Claim) bool { return r.Task == claim.Task }); o != nil {
		c.fail(w, "w%d starts %v while w%d runs %v", s.no, w.name(claim), o.no, w.name(other))
	}
}

// sent notes what a worker denies. Invariant: it denies nothing that it runs.
func (c *simCheck) sent(w *world, s *simWorker, m Message) {
	u, ok := m.Body.(*UpdateStatus)
	if !ok || u.End.Kind != EndNotRunning {
		return
	}
	c.counts["denied"]++
	if c.denied[s.instance()] == nil {
		c.denied[s.instance()] = map[Claim]bool{}
	}
	c.denied[s.instance()][u.Claim] = true
	if s.runs[u.Claim] {
		c.fail(w, "w%d says that %v was not running, and runs it", s.no, w.name(u.Claim))
	}
}

// settled: Invariant: a dispatcher calls a claim free only when no worker runs it.
// That none will is checked at each start.
func (c *simCheck) settled(w *world, s Settle) {
	c.counts["settled "+s.Why.String()]++
	c.freed[s.Claim] = s.Why
	if o, _ := w.runner(func(r Claim) bool { return r == s.Claim }); o != nil {
		c.fail(w, "%v is settled (%v) while w%d runs it", w.name(s.Claim), s.Why, o.no)
	}
}

// lapsed: Invariant: a worker has stopped a task when its claim lapses.
func (c *simCheck) lapsed(w *world, claim Claim) {
	c.counts["lapsed"]++
	if o, _ := w.runner(func(r Claim) bool { return r == claim }); o != nil {
		c.fail(w, "%v lapses while w%d runs it", w.name(claim), o.no)
	}
}

// node: Invariant: a worker is must_die before its dispatcher believes so by the
// clock, and has stopped, but for one that was killed and has not heard it; the sums of a session agree with its entries.
func (c *simCheck) node(w *world, n *simNode) {
	for _, o := range w.workers {
		s := n.d.sessions[o.instance()]
		if s == nil {
			continue
		}
		c.sums(w, s)
		if s.state != MustDie || s.revoked || s.killed != 0 || n.lost[o.instance()] == s.association || o.dead || o.w.association != s.association {
			continue
		}
		n.lost[o.instance()] = s.association
		c.counts["lost"]++
		if state := o.w.life.at(o.clk.mono(w.now)); state != MustDie && o.w.life.stamps.Settled {
			c.fail(w, "n%d believes w%d lost, which is %v", n.no, o.no, state)
		}
	}
}

// named: Invariant: when somebody gets a name, whoever had it is must_die, or has said
// that it leaves, or was killed.
func (c *simCheck) named(w *world, to Identity) {
	for _, o := range w.workers {
		if o.name != to.Name || o.instance() == to.Instance || o.dead || !o.w.life.stamps.Settled || o.w.leave.at != 0 {
			continue
		}
		if slices.ContainsFunc(w.nodes, func(n *simNode) bool { return !n.d.Renews(o.instance()) }) {
			continue
		}
		if state := o.w.life.at(o.clk.mono(w.now)); state != MustDie {
			c.fail(w, "%v is granted to w%d while w%d has it and is %v", to.Name, to.Instance[0]-1, o.no, state)
		}
	}
}

func (c *simCheck) sums(w *world, s *session) {
	unsureNow, cancels, perQueue := 0, 0, map[string]int{}
	for _, e := range s.book.all {
		perQueue[e.queue]++
		if e.cancel != CauseNone {
			cancels++
		}
		if e.state == unsure {
			unsureNow++
		}
	}
	if !maps.Equal(perQueue, s.book.perQueue) || unsureNow != s.book.unsure || cancels != s.book.cancels {
		c.fail(w, "a session counts %v running and %d unsure, and has %v and %d", s.book.perQueue, s.book.unsure, perQueue, unsureNow)
	}
}

// quiet: after the network has healed and time has passed, everything is finished
// and nobody believes otherwise.
func (c *simCheck) quiet(w *world) {
	for _, t := range w.cp.tasks {
		if !t.done && !t.cancel {
			c.fail(w, "task %d is not done", t.no)
		}
	}
	for _, s := range w.workers {
		if s.dead || s.w.life.state == New && s.w.refused == RefusedName && len(s.w.has.all) == 0 {
			continue // or waits for a name that somebody else has
		}
		if len(s.w.has.all) > 0 || len(s.w.denied) > 0 || s.w.life.state != Healthy {
			c.fail(w, "w%d is %v (%v), holds %d and denies %d", s.no, s.w.life.state, s.w.why, len(s.w.has.all), len(s.w.denied))
		}
		i, ok := s.node.d.Info(clock.Time{}, s.instance())
		if !ok || i.State != Healthy || len(i.Running) > 0 || i.Unsure > 0 {
			c.fail(w, "n%d believes of w%d: %+v", s.node.no, s.no, i)
		}
	}
	for _, n := range w.nodes {
		if len(n.d.settling) > 0 {
			c.fail(w, "n%d has %d statuses that are not settled", n.no, len(n.d.settling))
		}
	}
}
