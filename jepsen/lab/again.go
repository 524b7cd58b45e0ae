package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workloads again and collected.
const (
	goneQueue = "gone"
	// keptFor is for how long the finished tasks of that queue are kept.
	keptFor = 3 * time.Second
	// uniqueKeys are so many that each is free and taken again many times.
	uniqueKeys = 30
	// latest is how much later something is said again at most.
	latest = 15 * time.Second
)

// repeats is the workload of operations that come twice (W11).
func repeats() Workload {
	return Workload{
		Name: "again", About: "as claims, with unique keys; each operation is said again, through another node, at once or up to 15 s later (W11)",
		begin: func(c *crew) error { return c.stutterers(queues) }, claims: true, least: leastPerSecond, lacks: unrepeated,
	}
}

// collected is the workload of finished tasks that are forgotten (W10).
func collected() Workload {
	return Workload{
		Name: "collected", About: "finished tasks are deleted after 3 s; what was said of them is said again later, and at the end they are all enqueued once more: none may come back (W10)",
		begin: (*crew).forgetters, claims: true, queues: []string{goneQueue}, args: []string{"--collect-interval", "1s"}, kept: keptFor,
		least: leastPerSecond / 2, lacks: unrepeated,
	}
}

// errand is an operation that is to be done once more.
type errand struct {
	due time.Time
	do  func(*hand)
}

// repeat has an operation done once more, by whoever has nothing else to do.
func (h *hand) repeat(do func(*hand)) {
	wait := time.Duration(0)
	if h.rnd.IntN(2) == 0 {
		wait = time.Duration(h.rnd.Int64N(int64(latest)))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.later) < 10_000 {
		h.later = append(h.later, errand{time.Now().Add(wait), do})
	}
}

// errand does one that is due.
func (h *hand) errand() {
	h.mu.Lock()
	var do func(*hand)
	if n := len(h.later); n > 0 {
		i := h.rnd.IntN(n)
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
func (c *crew) forgetters() error {
	to, err := c.dial(30*time.Second, c.members()...)
	if err != nil {
		return err
	}
	_, err = to.Queues().Set(context.Background(), goneQueue, client.QueueChange{
		Settings: &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_DELETE, RetentionSeconds: keptFor.Seconds()},
		Fields:   []string{"retention", "retention_seconds"},
	})
	if err != nil {
		return fmt.Errorf("the retention of queue %s: %w", goneQueue, err)
	}
	return c.stutterers([]string{goneQueue})
}

// stutterers are the clients of workload again.
func (c *crew) stutterers(into []string) error {
	think := c.cfg.Think
	for _, p := range c.members() {
		for _, do := range []func(*hand){
			func(h *hand) { h.twice(into, client.Quorum) }, func(h *hand) { h.twice(into, client.One) }, (*hand).workTwice, (*hand).workTwice, (*hand).read,
		} {
			if err := c.join(p, 3*time.Second, think, do); err != nil {
				return err
			}
		}
		for range 2 {
			if err := c.join(p, 3*time.Second, think/8, (*hand).errand); err != nil {
				return err
			}
		}
	}
	for _, do := range []func(*hand){(*hand).workTwice, (*hand).workTwice, (*hand).workTwice, (*hand).errand} {
		if err := c.join(nil, 10*time.Second, think/8, do); err != nil {
			return err
		}
	}
	return nil
}

// twice enqueues some tasks, some with a unique key, and has it repeated.
func (h *hand) twice(into []string, level client.Durability) {
	all := h.tasks()
	for i := range all {
		all[i].Queue = into[h.rnd.IntN(len(into))]
	}
	if len(into) > 1 && h.rnd.IntN(4) == 0 { // in one queue: one key is one key
		key := fmt.Sprintf("key %d", h.rnd.IntN(uniqueKeys))
		all = []client.Task{{Queue: into[0], Key: key, Payload: []byte(key)}}
	}
	h.mu.Lock()
	h.sent = append(h.sent, all...)
	h.mu.Unlock()
	h.send(all, level, false)
	h.repeat(func(h *hand) { h.send(all, client.Quorum, false) })
}

// workTwice claims some tasks, and says twice what it does to them.
func (h *hand) workTwice() {
	for _, c := range h.claim(longPoll) {
		j := &job{hand: h, Claim: c}
		j.work(50 * time.Millisecond)
		var do func(*job)
		switch k := h.rnd.IntN(20); {
		case k < 13:
			do = (*job).complete
		case k < 15:
			j.update()
			j.repeated(func(o *job) { o.seq = 0; o.update() })
			do = (*job).complete
		case k < 16:
			do = (*job).fail
		case k < 17:
			do = (*job).release
		case k < 18:
			do = (*job).cancel
		case k < 19:
			if j.hold(shortLease) {
				do = (*job).complete
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
func (j *job) repeated(do func(*job)) {
	c, seq := *j.Claim, j.seq
	j.repeat(func(h *hand) { do(&job{hand: h, Claim: &c, seq: seq}) })
}

// cancel cancels the claim's task.
func (j *job) cancel() {
	asked := j.rec.invoke(j.process, &history.Event{Func: history.Cancel, Items: items([]id.ID{j.ID})})
	got, err := j.client.Cancel(context.Background(), []id.ID{j.ID}, client.CancelOptions{Reason: "on purpose"})
	j.rec.end(asked, err, history.Event{Items: results(asked, got)})
}

// forgets waits until all finished tasks are collected, and enqueues them all
// once more: that must bring none back.
func (c *crew) forgets(ctx context.Context) error {
	to, err := c.dial(10*time.Second, c.members()...)
	if err != nil {
		return err
	}
	for end := time.Now().Add(rest); ; <-time.After(500 * time.Millisecond) {
		n, err := to.Count(ctx, "")
		if err == nil && n.GetTotal().GetTotal() == 0 {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			c.found("stuck", "%v after everything was finished %d tasks are not collected (%v)", rest, n.GetTotal().GetTotal(), err)
			return errStuck
		}
	}
	c.say("everything is collected")
	h := &hand{crew: c, process: c.rec.process(), client: to}
	for left := c.sent; len(left) > 0; {
		some := left[:min(len(left), 200)]
		left = left[len(some):]
		h.send(some, client.Quorum, false)
	}
	return nil
}

// unrepeated says when too little was said twice.
func unrepeated(r *Result) string {
	again := 0
	for _, e := range r.Events {
		for i := range e.Items {
			if e.Phase == history.OK && e.Items[i].Existed {
				again++
			}
		}
	}
	if least := int(2 * r.Config.Duration.Seconds()); again < least {
		return fmt.Sprintf("%d writes that were found to be there already, %d are the least", again, least)
	}
	return ""
}
