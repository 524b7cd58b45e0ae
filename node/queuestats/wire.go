package queuestats

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// History answers a request, which [history.Check] has made whole: the steps that end
// with the one of its end. It is safe beside whoever counts.
func (t *Table) History(m *nornv1.HistoryRequest) *nornv1.HistoryReply {
	step := max(int64(m.GetStepSeconds())/int64(Step/time.Second), 1) // in steps of the table
	end := m.GetUntil().AsTime().UnixNano()/int64(Step)/step + 1      // number of the step behind the last
	n := max(int64(m.GetSeconds())/int64(Step/time.Second)/step, 1)
	reply := &nornv1.HistoryReply{
		Start:       timestamppb.New(time.Unix(0, (end-n)*step*int64(Step))),
		StepSeconds: (time.Duration(step) * Step).Seconds(), Nodes: 1, Decisions: &nornv1.Decisions{},
	}
	sums := make([]counts, n)
	t.mu.Lock()
	t.turn(m.GetUntil().AsTime().UnixNano())
	since := t.fill(sums, m.GetQueue(), (end-n)*step, step)
	if q := t.queues[m.GetQueue()]; q != nil && q.named != nil {
		all := series{}
		all.join(&q.named.plain)
		for _, s := range q.named.kinds {
			all.join(s)
		}
		if q.named.rest != nil {
			all.join(q.named.rest)
		}
		reply.Wait, reply.Run, reply.Finish = all.wait.wire(), all.run.wire(), all.age.wire()
	}
	t.mu.Unlock()
	reply.Since = timestamppb.New(time.Unix(0, since*int64(Step)))
	for i, list := range history.Lists(reply.Decisions) {
		*list = make([]uint64, n)
		for at := range sums {
			(*list)[at] = uint64(sums[at][i])
		}
	}
	if m.GetBusiest() > 0 {
		reply.Busiest = t.busiest(int(m.GetBusiest()), int64(m.GetSeconds())/60)
	}
	return reply
}

// fill sums up steps from one on, and gives the first that is known. A queue that is none of
// the busiest is known by the minute, which counts in the step in which it begins.
func (t *Table) fill(sums []counts, queue string, from, step int64) (since int64) {
	add := func(at int64, c *counts) {
		if i := (at - from) / step; at >= from && i < int64(len(sums)) {
			for what, n := range c {
				sums[i][what] += n
			}
		}
	}
	if queue == "" {
		since = max(t.whole.since, t.at-daySteps+1)
		for at := max(since, from); at <= t.at; at++ {
			add(at, &t.whole.steps[at%daySteps])
		}
		return since
	}
	q := t.queues[queue]
	if q == nil {
		return t.whole.since
	}
	since = t.at + 1
	if q.hour != nil {
		since = max(q.hour.since, t.at-hourSteps+1)
		for at := max(since, from); at <= t.at; at++ {
			add(at, &q.hour.steps[at%hourSteps])
		}
	}
	q.minutes.of(t.at)
	first := max(q.minutes.last-keptMinutes+1, t.whole.since/minuteSteps)
	for n := first; n*minuteSteps < since && n <= q.minutes.last; n++ {
		if (n+1)*minuteSteps <= since || q.hour == nil { // else the hour has a part of it
			add(n*minuteSteps, &q.minutes.all[n%keptMinutes])
		}
	}
	return min(since, first*minuteSteps)
}

// busiest gives the queues of which most was decided in the last minutes; those in which tasks
// died come first.
func (t *Table) busiest(most int, last int64) []*nornv1.QueueDecisions {
	last = min(max(last, 1), keptMinutes)
	var all []*nornv1.QueueDecisions
	t.mu.Lock()
	for _, q := range t.queues {
		q.minutes.of(t.at)
		d := &nornv1.QueueDecisions{Queue: q.name}
		for n := q.minutes.last - last + 1; n <= q.minutes.last; n++ {
			c := &q.minutes.all[n%keptMinutes]
			for i, field := range history.Fields(d) {
				*field += uint64(c[i])
			}
		}
		if history.Total(d) > 0 {
			all = append(all, d)
		}
	}
	t.mu.Unlock()
	return history.Busiest(all, most)
}

// wire is a histogram as clients see it.
func (h *histogram) wire() *nornv1.Durations {
	d := &nornv1.Durations{Counts: slices.Clone(h.counts[:]), SumSeconds: h.sum.Seconds()}
	for _, end := range bounds {
		d.UpToSeconds = append(d.UpToSeconds, end.Seconds())
	}
	return d
}
