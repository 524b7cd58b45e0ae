package lab

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
)

// Of workload ranked.
const (
	rankedQueue = "ranked"
	// rankedBacklog is about how many tasks wait all the time, so that workers have
	// something to choose from.
	rankedBacklog = 300
	// quietTime is how long nothing is wrong, before the faults and after them; the
	// beginning of it does not count, in which leaders return to where they belong.
	quietTime   = 15 * time.Second
	quietBegins = 3 * time.Second
	// passing is for how long a better task may be passed over then: nodes tell each
	// other of the best that they have a few times a second.
	passing = 5 * time.Second
	// leastRanked is how many tasks must have been granted in quiet times that had
	// waited for a second.
	leastRanked = 100
)

// ranked is the workload of one queue with priorities over all partitions (W7).
func ranked() Workload {
	return Workload{
		Name: "ranked", About: "one queue of five priorities in which 300 tasks wait; while nothing is wrong, 15 s before the faults and after them, no better task is passed over for long (W7)",
		begin: (*crew).choosers, claims: true, queues: []string{rankedQueue}, calm: quietTime, lacks: unranked,
	}
}

// choosers are the clients of workload ranked.
func (c *crew) choosers() error {
	var waiting atomic.Int64
	for _, p := range c.members() {
		if err := c.join(p, 3*time.Second, c.cfg.Think, func(h *hand) {
			if waiting.Load() > rankedBacklog {
				return
			}
			for _, r := range h.send(h.ranked(), client.Quorum, false) {
				if r.Err == nil {
					waiting.Add(1)
				}
			}
		}); err != nil {
			return err
		}
	}
	for range 3 {
		if err := c.join(nil, 10*time.Second, c.cfg.Think, func(h *hand) {
			for _, got := range h.claim(longPoll) {
				waiting.Add(-1)
				j := &job{hand: h, Claim: got}
				j.work(50 * time.Millisecond)
				j.complete()
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// ranked makes some tasks of any priority.
func (h *hand) ranked() []client.Task {
	all := make([]client.Task, 1+h.rnd.IntN(maxBatch))
	for i, task := range h.client.NewIDs(len(all)) {
		all[i] = client.Task{ID: task, Queue: rankedQueue, Priority: int32(h.rnd.IntN(5) - 2), Payload: fmt.Appendf(nil, "%s", task)}
	}
	return all
}

// quiet lets clients work for a while with nothing wrong.
func (l *lab) quiet(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	l.note("nothing is wrong for %v", d)
	w := Window{What: "nothing", From: time.Since(l.rec.began) + quietBegins}
	select {
	case <-ctx.Done():
		return
	case <-time.After(d):
	}
	w.To = time.Since(l.rec.began)
	l.calms = append(l.calms, w)
	l.note("it was quiet")
}

// healthy are the times in which the order of grants counts.
func (r *Result) healthy() (all []check.Window) {
	for _, w := range r.Calm {
		all = append(all, check.Window{From: int64(w.From), To: int64(w.To)})
	}
	return all
}

// unranked says what is missing in a run for the order of grants to be judged.
func unranked(r *Result) string {
	known := map[id.ID]int64{}
	n := 0
	for _, e := range r.Events {
		if e.Phase != history.OK || e.Func != history.Enqueue && e.Func != history.Claim {
			continue
		}
		for i := range e.Items {
			since, ok := known[e.Items[i].Task]
			switch {
			case e.Func == history.Enqueue:
				known[e.Items[i].Task] = e.At
			case ok && e.At-since > int64(time.Second) && r.calm(e.At):
				n++
			}
		}
	}
	if n < leastRanked {
		return fmt.Sprintf("tasks that were granted in quiet times and had waited: %d, %d are the least", n, leastRanked)
	}
	return ""
}

// calm tells whether nothing was wrong at a time.
func (r *Result) calm(at int64) bool {
	for _, w := range r.Calm {
		if int64(w.From) <= at && at <= int64(w.To) {
			return true
		}
	}
	return false
}
