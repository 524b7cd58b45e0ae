package check

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// leaders (I7): when a node becomes the leader of a partition, it knows every
// claim of an earlier epoch that a worker still believes in and that nobody
// has asked to end; and, where the cohort has changed, every task of the
// partition whose completion or cancellation a majority had acknowledged before
// the election: one that is acknowledged meanwhile is on majorities of both
// cohorts, and the leader may be of the minority of each. A
// claim of an earlier epoch that its worker heard of later counts too: it was
// committed before. Judged are the notes of new leaders, by what was true when
// they knew no more than they say. Without the number of
// partitions there is nothing to judge.
func (l *Ledger) leaders() Result {
	r := Result{Checker: "leaders"}
	if l.o.Partitions == 0 {
		return r
	}
	byPartition := map[int][]*account{}
	for _, a := range l.order {
		p := l.partition(a.id)
		byPartition[p] = append(byPartition[p], a)
	}
	for _, e := range l.leads {
		r.Judged++
		then := cmp.Or(e.Known, e.At)
		known := map[id.ID][]*history.Item{}
		for i := range e.Items {
			i := &e.Items[i]
			known[i.Task] = append(known[i.Task], i)
		}
		for _, a := range byPartition[e.Cell.Partition] {
			l.knows(&r, e, then, a, known[a.id])
		}
	}
	return r
}

// knows holds one task against what a new leader knows.
func (l *Ledger) knows(r *Result, e *history.Event, then int64, a *account, known []*history.Item) {
	first := never // when somebody first asked for its end
	for _, x := range a.ends {
		if x.call <= then && (x.f == history.Complete || x.f == history.Cancel) {
			first = min(first, x.call)
		}
	}
	if first != never {
		l.knowsEnd(r, e, then, a, first, known)
		return // a claim of a task that is being ended may be gone
	}
	for _, g := range a.grants {
		if g.token>>32 >= e.Cell.Epoch || !g.valid(then) {
			continue
		}
		if !slices.ContainsFunc(known, func(i *history.Item) bool { return i.Token == g.token }) {
			r.add(Leader, then, a.id, "%s became the leader of partition %d in epoch %d at %s and does not know %v", e.Cell.Leader, e.Cell.Partition, e.Cell.Epoch, at(then), g)
		}
	}
}

// valid tells whether the claim's worker believes in it at a time, or has yet
// to hear that it may.
func (g *grant) valid(now int64) bool {
	return g.back >= now && g.until() > g.back || slices.ContainsFunc(g.spans, func(s span) bool { return s.begin <= now && now < s.end })
}

// knowsEnd: where the cohort has changed, the new leader knows an
// acknowledged end, whichever of those that were asked for it was. From the first of
// them on the task may have been finished, and be collected since.
func (l *Ledger) knowsEnd(r *Result, e *history.Event, then int64, a *account, first int64, known []*history.Item) {
	moved := e.From != nil && !slices.Equal(e.From.Cohort, e.Cell.Cohort)
	old := l.o.Retention > 0 && then-first >= l.o.Retention
	if !moved || old || slices.ContainsFunc(known, func(i *history.Item) bool { return i.State.Finished() }) {
		return
	}
	for _, x := range a.ends {
		if x.done && !x.weak && (x.f == history.Complete || x.f == history.Cancel) && x.back < cmp.Or(e.Began, then) {
			r.add(Leader, then, a.id, "%s became the leader of partition %d with another cohort in epoch %d at %s and does not know its %s, acknowledged at %s",
				e.Cell.Leader, e.Cell.Partition, e.Cell.Epoch, at(then), x.f, at(x.back))
			return
		}
	}
}
