package workloads

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/record"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of schedules whose tasks are worked on, in workload schedules.
const (
	RunQueue = "run"
	runsEach = 2 // schedules of each specification and policy
	// runsMost is for how long a worker is busy with a task at most: longer than
	// most of the schedules wait between two instants.
	runsMost = 3 * time.Second
	// cronKnows is how long after the end of a task a master may not know of it when
	// nothing is wrong: it hears at once, and asks each second.
	cronKnows = 3 * time.Second
)

// runSpecs are due while the task before runs, often or at times.
var runSpecs = []string{"* * * * * *", "*/2 * * * * *", "*/7 * * * * *"}

// runPolicies are the policies of overlap that runs show from the outside.
var runPolicies = []nornv1.Overlap{nornv1.Overlap_OVERLAP_ALLOW, nornv1.Overlap_OVERLAP_SKIP, nornv1.Overlap_OVERLAP_QUEUE_ONE}

// acquainted are the launched tasks that workers have met: the histories of clients
// have no enqueue of them.
type acquainted struct {
	mu  sync.Mutex // guards all
	all map[id.ID]bool
}

// meets tells whether a task was not met before.
func (a *acquainted) meets(task id.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[task] {
		return false
	}
	if a.all == nil {
		a.all = map[id.ID]bool{}
	}
	a.all[task] = true
	return true
}

// runners are the workers of such tasks, enough for all that may run at once.
func (c *Crew) runners() error {
	for _, p := range c.Members() {
		for range 3 {
			if err := c.Join(p, 3*time.Second, 10*time.Millisecond, (*Hand).runs); err != nil {
				return err
			}
		}
	}
	for range 12 {
		if err := c.Join(nil, 10*time.Second, 10*time.Millisecond, (*Hand).runs); err != nil {
			return err
		}
	}
	return nil
}

// runs claims one task of a schedule and is busy with it for a while. Some are
// forgotten: nobody runs them then, but they are not finished either.
func (h *Hand) runs() {
	h.from, h.most = []string{RunQueue}, 1
	for _, c := range h.Claim(LongPoll) {
		j := &Job{Hand: h, Claim: c}
		switch n := h.Rnd.IntN(20); {
		case n < 14:
			if j.hold(time.Duration(h.Rnd.Int64N(int64(runsMost)))) {
				_ = j.completeAt(client.Quorum) // what came of it is in the history
			}
		case n < 19:
			_ = j.completeAt(client.Quorum)
		}
	}
}

// Launched writes down that tasks of schedules, which a worker is told of for the
// first time, were enqueued by somebody.
func (h *Hand) Launched(got []*client.Claim) {
	for _, c := range got {
		if t := c.Grant.GetTask(); t.GetQueue() == RunQueue && h.Crons != nil && h.Crons.met.meets(c.ID) {
			h.Rec.Invoke(h.Rec.Process(), &history.Event{Func: history.Enqueue, Items: []history.Item{{
				Task: c.ID, Spec: record.SpecOf(&client.Task{Queue: RunQueue, Payload: t.GetPayload()}),
			}}})
		}
	}
}

// runOn has workers go on with the tasks of schedules while nothing is wrong.
func (c *Crew) runOn(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	more := &Crew{Lab: c.Lab, Ctx: ctx, Queues: c.Queues, Crons: c.Crons}
	stop = func() {
		cancel()
		more.Work.Wait()
	}
	if err := more.runners(); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// Worked brings what workers did with each launch into the schedules, in wall ns.
func (c *Crew) Worked() {
	c.Rec.Mu.Lock()
	works, began := check.Works(c.Rec.Events), c.Rec.Began.UnixNano()
	c.Rec.Mu.Unlock()
	wall := func(at int64) int64 {
		if at == 0 {
			return 0
		}
		return began + at
	}
	for i := range c.Crons.All {
		s := &c.Crons.All[i]
		for k := range s.Launches {
			l := &s.Launches[k]
			w := works[record.Parse(l.Task)]
			l.Work = check.Work{Asked: wall(w.Asked), Done: wall(w.Done)}
			for _, r := range w.Runs {
				l.Work.Runs = append(l.Work.Runs, check.Window{From: wall(r.From), To: wall(r.To)})
			}
		}
	}
	n := check.CronOverlaps(c.Crons.All)
	c.Note("of schedules whose tasks take their time %d launches were beside another one, %d waited for one, and %d times some were skipped for it", n.Beside, n.Waited, n.Skipped)
}

// skew is how far a master's clock may be from that of this process.
func (c *Crew) skew() time.Duration {
	c.Rec.Mu.Lock()
	defer c.Rec.Mu.Unlock()
	if record.Stepped(c.Rec.Events) {
		return cronWindow
	}
	return ClockSkew
}

// idle says when too few tasks of schedules were worked on for their policies of
// overlap to have had anything to decide.
func idle(r *Seen) string {
	n := 0
	mine := map[uint64]bool{}
	for _, e := range r.Events {
		if e.Func == history.Claim && e.Phase == history.Invoke && slices.Contains(e.Queues, RunQueue) {
			mine[e.Op] = true
		}
		if e.Func == history.Claim && e.Phase == history.OK && mine[e.Op] {
			n += len(e.Items)
		}
	}
	if least := int(r.Duration.Seconds()); n < least {
		return "tasks of schedules that were worked on"
	}
	return ""
}
