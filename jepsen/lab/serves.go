package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// servesQueue begins the names of the queues, one for each node, in which a node shows
// that it serves.
const servesQueue = "serves-"

// serves waits until each node serves (I14): a task is enqueued, claimed and completed
// through it alone. A node may say that all is well and do nothing of it.
func (l *lab) serves(ctx context.Context, limit time.Duration) error {
	if l.cfg.Unfenced {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, starvedRests*limit)
	defer cancel()
	for _, p := range l.members() {
		h, err := l.server(p)
		if err != nil {
			return err
		}
		if limit, err = (asker{h}).served(ctx, limit); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// server is the client that has a node show that it serves.
func (l *lab) server(p *process) (*hand, error) {
	if h := l.servers[p]; h != nil {
		return h, nil
	}
	to, err := l.dial(5*time.Second, p)
	if err != nil {
		return nil, err
	}
	n := l.rec.process()
	h := &hand{
		crew: &crew{lab: l, ctx: context.Background()}, process: n, client: to, node: p,
		rnd: rand.New(rand.NewPCG(l.cfg.Seed, uint64(n))), from: []string{servesQueue + p.name}, most: 1,
	}
	if l.servers == nil {
		l.servers = map[*process]*hand{}
	}
	l.servers[p] = h
	return h, nil
}

// asker has a node show that it serves.
type asker struct{ *hand }

// served has the node do all of it. It gives what is left of the limit, in which the times
// do not count when the machine was busy with something else.
func (h asker) served(ctx context.Context, limit time.Duration) (left time.Duration, err error) {
	task := h.client.NewID()
	all := []client.Task{{
		ID: task, Queue: h.from[0], Payload: fmt.Appendf(nil, "%s", task),
		Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
	}}
	sent := false
	for {
		before := h.strain.patient(h.node)
		var why string
		if sent, why = h.serve(ctx, all, sent); why == "" {
			return limit, nil
		}
		if !h.strain.starved(h.node, before) {
			limit -= time.Since(before.at)
		}
		if limit <= 0 || ctx.Err() != nil {
			return 0, fmt.Errorf("a task that goes through it alone is %s", why)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// serve goes one step further: it says whether the task is in by now, and what is
// missing; "": nothing.
func (h asker) serve(ctx context.Context, all []client.Task, sent bool) (in bool, missing string) {
	if !sent {
		if h.kept > 0 { // a queue of which nothing is to be left
			if _, err := h.client.Queues().Set(ctx, all[0].Queue, client.QueueChange{
				Settings: &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_DELETE, RetentionSeconds: h.kept.Seconds()},
				Fields:   []string{"retention", "retention_seconds"},
			}); err != nil {
				return false, fmt.Sprintf("not enqueued: its queue cannot be set: %v", err)
			}
		}
		got := h.send(all, client.Quorum, false)
		if len(got) != 1 || got[0].Err != nil {
			return false, fmt.Sprintf("not enqueued: %v", got)
		}
	}
	for _, c := range h.claim(longPoll) {
		if (&job{hand: h.hand, Claim: c}).completeAt(client.Quorum) == nil && c.ID == all[0].ID {
			return true, ""
		}
	}
	// The answer to a completion may have been lost.
	if t, err := h.client.Get(ctx, all[0].ID); err == nil && t.GetState() == nornv1.State_STATE_COMPLETED {
		return true, ""
	}
	return true, "enqueued, and not claimed and completed"
}
