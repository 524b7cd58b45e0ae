package workloads

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Of workload ranked.
const (
	RankedQueue = "ranked"
	// rankedBacklog is about how many tasks wait all the time, so that workers have
	// something to choose from.
	rankedBacklog = 300
	// quietTime is how long nothing is wrong, before the faults and after them; the
	// beginning of it does not count, in which leaders return to where they belong.
	quietTime   = 15 * time.Second
	QuietBegins = 3 * time.Second
	// Passing is for how long a better task may be passed over then: nodes tell each
	// other of the best that they have a few times a second.
	Passing = 5 * time.Second
	// leastRanked is how many tasks must have been granted in quiet times that had
	// waited for a second.
	leastRanked = 100
)

// ranked is the workload of one queue with priorities over all partitions (W7).
func ranked() Workload {
	return Workload{
		Name: "ranked", About: "one queue of five priorities in which 300 tasks wait; while nothing is wrong, 15 s before the faults and after them, no better task is passed over for long (W7)",
		Begin: (*Crew).choosers, Claims: true, Queues: []string{RankedQueue}, Calm: quietTime, Lacks: unranked,
	}
}

// choosers are the clients of workload ranked.
func (c *Crew) choosers() error {
	var waiting atomic.Int64
	for _, p := range c.Members() {
		if err := c.Join(p, 3*time.Second, c.Cfg.Think, func(h *Hand) {
			if waiting.Load() > rankedBacklog {
				return
			}
			for _, r := range h.Send(h.ranked(), client.Quorum, false) {
				if r.Err == nil {
					waiting.Add(1)
				}
			}
		}); err != nil {
			return err
		}
	}
	for range 3 {
		if err := c.Join(nil, 10*time.Second, c.Cfg.Think, func(h *Hand) {
			for _, got := range h.Claim(LongPoll) {
				waiting.Add(-1)
				j := &Job{Hand: h, Claim: got}
				j.work(50 * time.Millisecond)
				j.Complete()
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// ranked makes some tasks of any priority.
func (h *Hand) ranked() []client.Task {
	all := make([]client.Task, 1+h.Rnd.IntN(MaxBatch))
	for i, task := range h.Client.NewIDs(len(all)) {
		all[i] = client.Task{ID: task, Queue: RankedQueue, Priority: int32(h.Rnd.IntN(5) - 2), Payload: fmt.Appendf(nil, "%s", task)}
	}
	return all
}

// unranked says what is missing in a run for the order of grants to be judged.
func unranked(r *Seen) string {
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
			case ok && e.At-since > int64(time.Second) && r.quietAt(e.At):
				n++
			}
		}
	}
	if n < leastRanked {
		return fmt.Sprintf("tasks that were granted in quiet times and had waited: %d, %d are the least", n, leastRanked)
	}
	return ""
}
