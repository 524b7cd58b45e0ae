package queuestats

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core/history"
)

// Step is what history is counted in.
const Step = history.Step

// What is remembered, in steps, and how many queues of it.
const (
	daySteps    = int64(24 * time.Hour / Step)
	hourSteps   = int64(time.Hour / Step)
	minuteSteps = int64(time.Minute / Step)
	keptMinutes = 10
	busiest     = 100
)

// day is the history of all queues.
type day struct {
	since int64 // the first step that is known
	steps [daySteps]counts
}

// hour is that of one queue that is busy.
type hour struct {
	since int64
	steps [hourSteps]counts
}

// minutes are the last ten of a queue, whether it is busy or not.
type minutes struct {
	last int64 // number of the newest
	all  [keptMinutes]counts
}

// of gives the minute of a step, which is not before the newest one.
func (m *minutes) of(step int64) *counts {
	n := step / minuteSteps
	for ; m.last < n; m.last++ {
		if n-m.last > keptMinutes {
			m.last = n - keptMinutes
		}
		m.all[(m.last+1)%keptMinutes] = counts{}
	}
	return &m.all[m.last%keptMinutes]
}

// turn begins the step of a wall ns. A clock that is set back stays in the step under way, and
// one that is far ahead leaves nothing of before.
//
// The score of a queue is its decisions with a weight that fades by a tenth per step: about the
// last two minutes count.
func (t *Table) turn(now int64) {
	step := now / int64(Step)
	if step <= t.at {
		return
	}
	for at := max(t.at+1, step-daySteps+1); at <= step; at++ {
		t.whole.steps[at%daySteps] = counts{}
	}
	fade := 1.0
	for at := t.at; at < step && fade > 1e-6; at++ {
		fade *= 0.9
	}
	var in, out []*queue
	for _, q := range t.queues {
		q.score = (q.score + float64(q.fresh)) * fade
		q.fresh = 0
		if q.hour == nil {
			if q.score > 0 {
				out = append(out, q)
			}
			continue
		}
		for at := max(t.at+1, step-hourSteps+1); at <= step; at++ {
			q.hour.steps[at%hourSteps] = counts{}
		}
		in = append(in, q)
	}
	t.at = step
	t.choose(in, out)
}

// choose has the history of an hour kept of the busiest queues. One that has it gives way only
// to one that is clearly busier: else two would take turns, and neither had a curve.
func (t *Table) choose(in, out []*queue) {
	byScore := func(a, b *queue) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(out, byScore)
	slices.SortFunc(in, byScore)
	for ; len(out) > 0; out = out[1:] {
		if t.hours < busiest {
			t.hours++
		} else if k := len(in) - 1; k < 0 || out[0].score <= 1.5*in[k].score {
			return
		} else {
			in[k].hour, in = nil, in[:k]
		}
		out[0].hour = &hour{since: t.at}
	}
}
