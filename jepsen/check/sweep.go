package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// at shows a time of a history.
func at(ns int64) string {
	if ns == never {
		return "never"
	}
	return fmt.Sprintf("%.3f s", float64(ns)/1e9)
}

// String tells the life of a claim as its worker knows it.
func (g *grant) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "claim %x of process %d (asked for at %s, granted at %s", g.token, g.process, at(g.call), at(g.back))
	for i, s := range g.spans {
		if i > 0 {
			fmt.Fprintf(&b, ", renewed at %s", at(s.begin))
		}
		fmt.Fprintf(&b, ", valid until %s", at(s.end))
	}
	return b.String() + ")"
}

// leases (I4) sweeps over the times in which workers believe in claims, all on
// the one clock of the driver: those of two claims of one task do not overlap.
// Judged are the claims.
func (l *Ledger) leases() Result {
	r := Result{Checker: "leases"}
	type held struct {
		span
		g *grant
	}
	var all []held
	for _, a := range l.order {
		r.Judged += len(a.grants)
		if len(a.grants) < 2 {
			continue
		}
		all = all[:0]
		for _, g := range a.grants {
			for _, s := range g.spans {
				if s.end > s.begin {
					all = append(all, held{s, g})
				}
			}
		}
		slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(a.begin, b.begin) })
		for i, h := range all {
			for _, o := range all[:i] {
				if over := min(o.end, h.end) - h.begin; o.g != h.g && over > l.o.Excess {
					r.add(Overlap, h.begin, a.id, "two workers believe in it for %s from %s on: %v and %v", at(over), at(h.begin), o.g, h.g)
				}
			}
		}
	}
	return r
}

// tokens (I5): no token twice, and a claim that was asked for after another
// one was granted has a higher token than that; over a whole partition where
// those are known, else over a task. Judged are the claims.
func (l *Ledger) tokens() Result {
	r := Result{Checker: "tokens"}
	type named struct {
		*grant
		task id.ID
	}
	groups := map[string][]named{}
	var names []string
	for _, a := range l.order {
		name := a.id.String()
		if l.o.Partitions > 0 {
			name = fmt.Sprint(l.partition(a.id))
		}
		if groups[name] == nil {
			names = append(names, name)
		}
		for _, g := range a.grants {
			groups[name] = append(groups[name], named{g, a.id})
		}
	}
	for _, name := range names {
		byBack := groups[name]
		r.Judged += len(byBack)
		holder := map[uint64]named{}
		for _, g := range byBack {
			if o, twice := holder[g.token]; twice {
				r.add(Token, g.back, g.task, "its token %x is that of two claims: %v of task %s and %v", g.token, o.grant, o.task, g.grant)
			}
			holder[g.token] = g
		}
		byCall := slices.Clone(byBack)
		slices.SortStableFunc(byCall, func(a, b named) int { return cmp.Compare(a.since, b.since) })
		slices.SortStableFunc(byBack, func(a, b named) int { return cmp.Compare(a.back, b.back) })
		var top named
		n := 0
		for _, g := range byCall {
			for ; n < len(byBack) && byBack[n].back < g.since; n++ {
				if top.grant == nil || byBack[n].token > top.token {
					top = byBack[n]
				}
			}
			if top.grant != nil && top.token >= g.token && top.grant != g.grant {
				r.add(Token, g.back, g.task, "%v was asked for after %v of task %s was granted, and its token is no higher", g.grant, top.grant, top.task)
			}
		}
	}
	return r
}

// renewed (protocol (b)): a renewal that was asked for after the claim was
// over does not succeed: after another claim of the task was granted, after
// its worker's giving it up or the task's completion was acknowledged, after
// a reading has shown it as over. Judged are the renewals that succeeded.
func (l *Ledger) renewed() Result {
	r := Result{Checker: "renewals"}
	for _, a := range l.order {
		for _, w := range a.renewals {
			r.Judged++
			fail := func(format string, args ...any) {
				r.add(Undone, w.back, a.id, "claim %x was renewed at %s, asked for at %s, %s", w.token, at(w.back), at(w.call), fmt.Sprintf(format, args...))
			}
			for _, g := range a.grants {
				if g.token > w.token && g.back < w.call {
					fail("after %v", g)
				}
			}
			for _, x := range a.ends {
				ended := x.done && x.back < w.call && !x.weak && !l.reborn(a, x, w.back)
				if ended && (x.f == history.Complete || x.f == history.Cancel || x.token == w.token) {
					fail("after %s by process %d was acknowledged at %s", x.f, x.process, at(x.back))
				}
			}
			for _, s := range a.seen {
				if s.token == w.token && s.at < w.call {
					fail("after a reading at %s showed it as %s", at(s.at), s.outcome)
				}
			}
		}
	}
	return r
}

// finished (I3): a task whose completion or cancellation a majority has
// acknowledged is not granted to a request that was sent after that. Judged
// are those acknowledgements.
func (l *Ledger) finished() Result {
	r := Result{Checker: "finished"}
	for _, a := range l.order {
		for _, x := range a.ends {
			if !x.done || x.weak && x.back >= l.equal || x.f != history.Complete && x.f != history.Cancel {
				continue
			}
			holds := x.back
			if x.weak {
				holds = l.equal // one copy may be where nobody asks; then all have it
			}
			r.Judged++
			for _, g := range a.grants {
				if g.call > holds && !l.reborn(a, x, g.back) {
					r.add(Undone, g.back, a.id, "%s by process %d was acknowledged at %s, and it was granted again: %v", x.f, x.process, at(x.back), g)
				}
			}
		}
	}
	return r
}

// reborn tells whether by now the ID may name a new task, after an end of the
// one before: that of a unique key without a window may, once that is forgotten.
func (l *Ledger) reborn(a *account, x ending, now int64) bool {
	return l.o.Retention > 0 && a.id.Kind() == id.KindKey && now-x.call >= l.o.Retention
}

// dependencies (I11): a task is granted only when somebody has at least asked
// for the completion of each task that it depends on, unless its policy is to
// run when one fails. Judged are the grants of tasks with dependencies.
func (l *Ledger) dependencies() Result {
	r := Result{Checker: "dependencies"}
	for _, a := range l.order {
		if a.spec == nil || len(a.spec.Deps) == 0 || a.spec.OnFailure == "run" {
			continue
		}
		for _, g := range a.grants {
			r.Judged++
			for _, dep := range a.spec.Deps {
				d := l.accounts[dep]
				completed := func(x ending) bool { return x.f == history.Complete && x.call < g.back }
				if d == nil || !slices.ContainsFunc(d.ends, completed) {
					r.add(Dependency, g.back, a.id, "%v, before anybody has completed its dependency %s", g, dep)
				}
			}
		}
	}
	return r
}
