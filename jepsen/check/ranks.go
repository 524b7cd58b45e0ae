package check

import (
	"cmp"
	"slices"

	"github.com/google/btree"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// A task's rank error is how many better tasks of its queue, in all partitions,
// were surely ready when it was granted: there before, of higher priority or of
// the same and older, and granted surely later. Only tasks count that were ready from
// their enqueue on: without dependencies, not-before time or key.

// maxRank is where counting stops: a grant that passes over more is bad enough.
const maxRank = 10_000

// Ranks are the rank errors of a history's grants.
type Ranks struct {
	Grants        int
	P50, P99, Max int
}

// waiting is a task's life in the order of its queue.
type waiting struct {
	a *account
	// from and to are between which it surely waits: from the enqueue's
	// acknowledgement to the first time at which it may have been granted or
	// ended. granted is the last time at which its first claim may have been made,
	// never if it was not claimed by anybody known.
	from, to, granted int64
	// first and last are the times between which clearly worse tasks were surely
	// granted while it waited.
	first, last int64
	g           *grant
}

func (w *waiting) before(o *waiting) bool {
	if c := cmp.Compare(o.a.spec.Priority, w.a.spec.Priority); c != 0 {
		return c < 0
	}
	return w.a.id.Compare(o.a.id) < 0
}

// made bounds when a claim was committed.
func (l *Ledger) made(a *account, g *grant) (lo, hi int64) {
	lo, hi = max(g.call, a.asked), g.back
	if l.o.Wall != 0 {
		lo = max(lo, g.start-l.o.Wall-l.o.Skew)
		hi = min(hi, g.start-l.o.Wall+l.o.Skew)
	}
	return min(lo, g.back), max(hi, min(lo, g.back))
}

// line is where tasks wait for each other.
type line struct {
	queue     string
	partition int // -1: all
}

// lines gives the tasks of each queue that can be ranked, of all partitions
// together or of each by itself.
func (l *Ledger) lines(apart bool) [][]*waiting {
	byQueue := map[line]int{}
	var out [][]*waiting
	for _, a := range l.order {
		s := a.spec
		if s == nil || len(s.Deps) > 0 || s.NotBefore != 0 || s.Key != "" || a.enqueued == never || a.id.Kind() != id.KindTask {
			continue
		}
		w := &waiting{a: a, from: a.enqueued, to: never, granted: never, first: never}
		if len(a.grants) > 0 {
			w.g = a.grants[0]
			for _, g := range a.grants {
				if g.token < w.g.token {
					w.g = g
				}
			}
			w.to, w.granted = l.made(a, w.g)
		}
		for _, x := range a.ends {
			if x.f == history.Complete || x.f == history.Cancel {
				w.to = min(w.to, x.call)
			}
		}
		if a.read && (w.g == nil || a.first < w.g.token) {
			continue // somebody had it whom nobody heard of
		}
		if lost, ok := l.unclear[s.Queue]; ok && !a.read {
			w.to = min(w.to, lost) // from then on somebody may have it
		}
		where := line{s.Queue, -1}
		if apart {
			where.partition = l.partition(a.id)
		}
		n, ok := byQueue[where]
		if !ok {
			n = len(out)
			byQueue[where] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], w)
	}
	return out
}

// Ranks gives the rank errors so far. It does not end the history.
func (l *Ledger) Ranks() Ranks {
	var all []int
	for _, line := range l.lines(false) {
		l.walk(line, func(_, _ *waiting, _, _ int64) {}, func(rank int) { all = append(all, rank) })
	}
	if len(all) == 0 {
		return Ranks{}
	}
	slices.Sort(all)
	quantile := func(q float64) int { return all[min(int(q*float64(len(all))), len(all)-1)] }
	return Ranks{Grants: len(all), P50: quantile(0.5), P99: quantile(0.99), Max: all[len(all)-1]}
}

// walk goes through one queue in the order of time. For each first grant of a
// task it tells which better ones it passed over, and how many.
func (l *Ledger) walk(line []*waiting, passed func(better, worse *waiting, lo, hi int64), ranked func(int)) {
	grants := slices.DeleteFunc(slices.Clone(line), func(w *waiting) bool { return w.g == nil })
	slices.SortStableFunc(grants, func(a, b *waiting) int { return cmp.Compare(a.granted, b.granted) })
	enter := slices.Clone(line)
	slices.SortStableFunc(enter, func(a, b *waiting) int { return cmp.Compare(a.from, b.from) })
	leave := slices.Clone(line)
	slices.SortStableFunc(leave, func(a, b *waiting) int { return cmp.Compare(a.to, b.to) })
	there := btree.NewG(16, func(a, b *waiting) bool { return a.before(b) })
	in, out := 0, 0
	for _, y := range grants {
		lo, hi := l.made(y.a, y.g)
		for ; in < len(enter) && enter[in].from <= hi; in++ {
			if enter[in].to > hi {
				there.ReplaceOrInsert(enter[in])
			}
		}
		for ; out < len(leave) && leave[out].to <= hi; out++ {
			there.Delete(leave[out])
		}
		rank := 0
		there.AscendLessThan(y, func(x *waiting) bool {
			if x.from < lo {
				rank++
				passed(x, y, lo, hi)
			}
			return rank < maxRank
		})
		ranked(rank)
	}
}

// healthy tells whether nothing was wrong from one time to another.
func (l *Ledger) healthy(from, to int64) bool {
	return len(l.o.Healthy) == 0 || slices.ContainsFunc(l.o.Healthy, func(w Window) bool { return w.From <= from && to <= w.To })
}

// waits (I10): no ready task waits for longer than Passing while others of its
// queue are granted that are of lower priority, or of the same and were
// enqueued at least as much later. Judged are the first grants of tasks.
func (l *Ledger) waits() Result {
	r := Result{Checker: "order"}
	if l.o.Passing == 0 {
		return r
	}
	for _, line := range l.lines(l.o.Apart) {
		l.walk(line, func(x, y *waiting, lo, hi int64) {
			if x.a.spec.Priority == y.a.spec.Priority && y.a.asked < x.from+l.o.Passing || !l.healthy(x.from, hi) {
				return
			}
			known := x.first != never && x.last-x.first > l.o.Passing
			x.first, x.last = min(x.first, hi), max(x.last, lo)
			if over := x.last - x.first; over > l.o.Passing && !known {
				r.add(Order, y.g.back, x.a.id, "enqueued at %s, it was passed over for %s: task %s, enqueued at %s, was granted as %v",
					at(x.from), at(over), y.a.id, at(y.a.asked), y.g)
			}
		}, func(int) { r.Judged++ })
	}
	return r
}
