package check

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// A task is a fenced lock, after the FencedMutex of Jepsen's Hazelcast tests:
// it is acquired only while it is free and not done, each time with a higher
// token than ever before; only its holder's token renews it; and it may become
// free once its holder has given it up or believes in it no more.

type lockState struct {
	holder, top uint64
	done        bool
}

type lockStep struct {
	kind  string // acquire, renew, free, done
	token uint64
}

var fencedLock = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockStep)
		switch in.kind {
		case "acquire":
			if s.done || s.holder != 0 || in.token <= s.top {
				return false, s
			}
			return true, lockState{holder: in.token, top: in.token}
		case "renew":
			return s.holder == in.token, s
		case "done":
			s.holder, s.done = 0, true
		case "free":
			if in.token == s.holder {
				s.holder = 0
			}
		}
		return true, s
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(lockStep)
		return fmt.Sprintf("%s %x", in.kind, in.token)
	},
	DescribeState: func(state any) string {
		s := state.(lockState)
		return fmt.Sprintf("held by %x, highest %x, done %v", s.holder, s.top, s.done)
	},
}

// lockSteps gives what was done to a task's lock, where holds may overlap by
// excess. A task that may be reborn is never done for good.
func (a *account) lockSteps(excess int64, reborn bool) (ops []porcupine.Operation) {
	add := func(process int, kind string, token uint64, call, back int64) {
		ops = append(ops, porcupine.Operation{ClientId: process, Input: lockStep{kind, token}, Call: call, Return: back})
	}
	for _, g := range a.grants {
		add(g.process, "acquire", g.token, g.call, g.back)
		// If it matters at all, it came before a later claim was granted.
		until := max(g.back, g.until()-excess)
		if g.until() == g.back { // its worker has never believed in it: the answer came too late
			add(g.process, "free", g.token, g.call, max(until, a.followed(g)))
			continue
		}
		add(g.process, "free", g.token, until, max(until, a.followed(g)))
	}
	for _, w := range a.renewals {
		process := 0
		if g := a.grant(w.token); g != nil {
			process = g.process
		}
		add(process, "renew", w.token, w.call, w.back)
	}
	for _, x := range a.ends {
		if x.f == history.Complete && x.done && !x.weak && !reborn {
			add(x.process, "done", x.token, x.call, x.back)
		}
	}
	return ops
}

func (l *Ledger) lockSteps(a *account) []porcupine.Operation {
	return a.lockSteps(l.o.Excess, l.o.Retention > 0 && a.id.Kind() == id.KindKey)
}

// followed is when the next claim after g was granted; never.
func (a *account) followed(g *grant) int64 {
	next := never
	for _, o := range a.grants {
		if o.token > g.token {
			next = min(next, o.back)
		}
	}
	return next
}

// locks (I4, I5) searches for an order of everything that was done to a task's
// lock, with porcupine. Judged are the tasks that were granted more than once.
func (l *Ledger) locks() Result {
	r := Result{Checker: "lock"}
	for _, a := range l.order {
		if len(a.grants) < 2 {
			continue
		}
		r.Judged++
		switch porcupine.CheckOperationsTimeout(fencedLock, l.lockSteps(a), l.o.Search) {
		case porcupine.Illegal:
			r.add(Lock, a.grants[len(a.grants)-1].back, a.id, "no order of its %d claims is that of a fenced lock: %s", len(a.grants), a.tale())
		case porcupine.Unknown:
			r.Unknown++
		}
	}
	return r
}

// tale is the task's claims and ends in the order of time, at most a dozen.
func (a *account) tale() string {
	type line struct {
		at   int64
		text string
	}
	var lines []line
	for _, g := range a.grants {
		lines = append(lines, line{g.back, g.String()})
	}
	for _, w := range a.renewals {
		lines = append(lines, line{w.back, fmt.Sprintf("renewal of %x from %s to %s", w.token, at(w.call), at(w.back))})
	}
	for _, x := range a.ends {
		lines = append(lines, line{x.call, fmt.Sprintf("%s of %x by process %d from %s to %s", x.f, x.token, x.process, at(x.call), at(x.back))})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	text := ""
	for i, l := range lines {
		if i == 12 {
			return text + "; …"
		}
		if i > 0 {
			text += "; "
		}
		text += l.text
	}
	return text
}

// Picture writes porcupine's picture of a task's lock, one HTML page. It says
// false when the task was never granted.
func (l *Ledger) Picture(task id.ID, w io.Writer) (bool, error) {
	a := l.accounts[task]
	if a == nil || len(a.grants) == 0 {
		return false, nil
	}
	_, info := porcupine.CheckOperationsVerbose(fencedLock, l.lockSteps(a), time.Minute)
	return true, porcupine.Visualize(fencedLock, info, w)
}
