package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workloads again and collected.
const (
	goneQueue = "gone"
	// KeptFor is for how long the finished tasks of that queue are kept.
	KeptFor = 3 * time.Second
	// uniqueKeys are so many that each is free and taken again many times.
	uniqueKeys = 30
	// latest is how much later something is said again at most.
	latest = 15 * time.Second
)

// repeats is the workload of operations that come twice (W11).
func repeats() Workload {
	return Workload{
		Name: "again", About: "as claims, with unique keys; each operation is said again, through another node, at once or up to 15 s later (W11)",
		Begin: func(c *Crew) error { return c.stutterers(Queues) }, Claims: true, Least: LeastPerSecond, Lacks: unrepeated,
	}
}

// collected is the workload of finished tasks that are forgotten (W10).
func collected() Workload {
	return Workload{
		Name: "collected", About: "finished tasks are deleted after 3 s; what was said of them is said again later, and at the end they are all enqueued once more: none may come back (W10)",
		Begin: (*Crew).forgetters, Claims: true, Queues: []string{goneQueue}, Args: []string{"--collect-interval", "1s"}, Kept: KeptFor,
		Least: LeastPerSecond / 2, Lacks: unrepeated,
	}
}

// errand is an operation that is to be done once more.
type errand struct {
	due time.Time
	do  func(*Hand)
}

// repeat has an operation done once more, by whoever has nothing else to do.
func (h *Hand) repeat(do func(*Hand)) {
	wait := time.Duration(0)
	if h.Rnd.IntN(2) == 0 {
		wait = time.Duration(h.Rnd.Int64N(int64(latest)))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.later) < 10_000 {
		h.later = append(h.later, errand{time.Now().Add(wait), do})
	}
}

// errand does one that is due.
func (h *Hand) errand() {
	h.mu.Lock()
	var do func(*Hand)
	if n := len(h.later); n > 0 {
		i := h.Rnd.IntN(n)
		if e := h.later[i]; time.Now().After(e.due) {
			do = e.do
			h.later[i] = h.later[n-1]
			h.later = h.later[:n-1]
		}
	}
	h.mu.Unlock()
	if do != nil {
		do(h)
	}
}

// forgetters are the clients of workload collected.
func (c *Crew) forgetters() error {
	to, err := c.Dial(30*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	_, err = to.Queues().Set(context.Background(), goneQueue, client.QueueChange{
		Settings: &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_DELETE, RetentionSeconds: KeptFor.Seconds()},
		Fields:   []string{"retention", "retention_seconds"},
	})
	if err != nil {
		return fmt.Errorf("the retention of queue %s: %w", goneQueue, err)
	}
	return c.stutterers([]string{goneQueue})
}

// stutterers are the clients of workload again.
func (c *Crew) stutterers(into []string) error {
	think := c.Cfg.Think
	for _, p := range c.Members() {
		for _, do := range []func(*Hand){
			func(h *Hand) { h.twice(into, client.Quorum) }, func(h *Hand) { h.twice(into, client.One) }, (*Hand).workTwice, (*Hand).workTwice, (*Hand).read,
		} {
			if err := c.Join(p, 3*time.Second, think, do); err != nil {
				return err
			}
		}
		for range 2 {
			if err := c.Join(p, 3*time.Second, think/8, (*Hand).errand); err != nil {
				return err
			}
		}
	}
	for _, do := range []func(*Hand){(*Hand).workTwice, (*Hand).workTwice, (*Hand).workTwice, (*Hand).errand} {
		if err := c.Join(nil, 10*time.Second, think/8, do); err != nil {
			return err
		}
	}
	return nil
}

// twice enqueues some tasks, some with a unique key, and has it repeated.
func (h *Hand) twice(into []string, level client.Durability) {
	all := h.tasks()
	for i := range all {
		all[i].Queue = into[h.Rnd.IntN(len(into))]
	}
	if len(into) > 1 && h.Rnd.IntN(4) == 0 { // in one queue: one key is one key
		key := fmt.Sprintf("key %d", h.Rnd.IntN(uniqueKeys))
		all = []client.Task{{Queue: into[0], Key: key, Payload: []byte(key)}}
	}
	h.mu.Lock()
	h.sent = append(h.sent, all...)
	h.mu.Unlock()
	h.Send(all, level, false)
	h.repeat(func(h *Hand) { h.Send(all, client.Quorum, false) })
}

// workTwice claims some tasks, and says twice what it does to them.
func (h *Hand) workTwice() {
	for _, c := range h.Claim(LongPoll) {
		j := &Job{Hand: h, Claim: c}
		j.work(50 * time.Millisecond)
		var do func(*Job)
		switch k := h.Rnd.IntN(20); {
		case k < 13:
			do = (*Job).Complete
		case k < 15:
			j.update()
			j.repeated(func(o *Job) { o.seq = 0; o.update() })
			do = (*Job).Complete
		case k < 16:
			do = (*Job).fail
		case k < 17:
			do = (*Job).release
		case k < 18:
			do = (*Job).cancel
		case k < 19:
			if j.hold(ShortLease) {
				do = (*Job).Complete
			}
		default: // forgotten
		}
		if do != nil {
			do(j)
			j.repeated(do)
		}
	}
}

// repeated has something done once more to a claim, by somebody else who knows
// its token.
func (j *Job) repeated(do func(*Job)) {
	c, seq := *j.Claim, j.seq
	j.repeat(func(h *Hand) { do(&Job{Hand: h, Claim: &c, seq: seq}) })
}

// cancel cancels the claim's task.
func (j *Job) cancel() {
	asked := j.Rec.Invoke(j.Process, &history.Event{Func: history.Cancel, Items: record.Items([]id.ID{j.ID})})
	got, err := j.Client.Cancel(context.Background(), []id.ID{j.ID}, client.CancelOptions{Reason: "on purpose"})
	j.Rec.End(asked, err, history.Event{Items: record.Results(asked, got)})
}

// Forgets waits until all finished tasks are collected, and enqueues them all
// once more: that must bring none back.
func (c *Crew) Forgets(ctx context.Context) error {
	to, err := c.Dial(10*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	for end := time.Now().Add(cluster.Rest); ; <-time.After(500 * time.Millisecond) {
		n, err := to.Count(ctx, "")
		if err == nil && n.GetTotal().GetTotal() == 0 {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			c.Found("stuck", "%v after everything was finished %d tasks are not collected (%v)", cluster.Rest, n.GetTotal().GetTotal(), err)
			return cluster.ErrStuck
		}
	}
	c.Say("everything is collected")
	h := &Hand{Crew: c, Process: c.Rec.Process(), Client: to}
	for left := c.sent; len(left) > 0; {
		some := left[:min(len(left), 200)]
		left = left[len(some):]
		h.Send(some, client.Quorum, false)
	}
	return nil
}

// unrepeated says when too little was said twice.
func unrepeated(r *Seen) string {
	again := 0
	for _, e := range r.Events {
		for i := range e.Items {
			if e.Phase == history.OK && e.Items[i].Existed {
				again++
			}
		}
	}
	if least := int(2 * r.Duration.Seconds()); again < least {
		return fmt.Sprintf("%d writes that were found to be there already, %d are the least", again, least)
	}
	return ""
}
