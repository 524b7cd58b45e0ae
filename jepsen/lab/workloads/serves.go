package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// servesQueue begins the names of the queues, one for each node, in which a node shows
// that it serves.
const servesQueue = "serves-"

// Servers have the nodes of a run show that they serve, from one goroutine at a time.
type Servers struct {
	lab *cluster.Lab
	of  map[*cluster.Process]*Hand
}

// NewServers has nobody show anything yet.
func NewServers(l *cluster.Lab) *Servers { return &Servers{l, map[*cluster.Process]*Hand{}} }

// Serves waits until each node serves (I14): a task is enqueued, claimed and completed
// through it alone. A node may say that all is well and do nothing of it.
func (l *Servers) Serves(ctx context.Context, limit time.Duration) error {
	if l.lab.Cfg.Unfenced {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cluster.StarvedRests*limit)
	defer cancel()
	for _, p := range l.lab.Members() {
		h, err := l.Server(p)
		if err != nil {
			return err
		}
		if limit, err = (Asker{h}).served(ctx, limit); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// Server is the client that has a node show that it serves.
func (l *Servers) Server(p *cluster.Process) (*Hand, error) {
	if h := l.of[p]; h != nil {
		return h, nil
	}
	to, err := l.lab.Dial(5*time.Second, p)
	if err != nil {
		return nil, err
	}
	n := l.lab.Rec.Process()
	h := &Hand{
		Crew: &Crew{Lab: l.lab, Ctx: context.Background()}, Process: n, Client: to, Node: p,
		Rnd: rand.New(rand.NewPCG(l.lab.Cfg.Seed, uint64(n))), from: []string{servesQueue + p.Name}, most: 1,
	}
	l.of[p] = h
	return h, nil
}

// Asker has a node show that it serves.
type Asker struct{ *Hand }

// served has the node do all of it. It gives what is left of the limit, in which the times
// do not count when the machine was busy with something else.
func (h Asker) served(ctx context.Context, limit time.Duration) (left time.Duration, err error) {
	task := h.Client.NewID()
	all := []client.Task{{
		ID: task, Queue: h.from[0], Payload: fmt.Appendf(nil, "%s", task),
		Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
	}}
	sent := false
	for {
		before := h.Strain.Patient(h.Node)
		var why string
		if sent, why = h.serve(ctx, all, sent); why == "" {
			return limit, nil
		}
		if !h.Strain.Starved(h.Node, before) {
			limit -= time.Since(before.At)
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
func (h Asker) serve(ctx context.Context, all []client.Task, sent bool) (in bool, missing string) {
	if !sent {
		if h.Kept > 0 { // a queue of which nothing is to be left
			if _, err := h.Client.Queues().Set(ctx, all[0].Queue, client.QueueChange{
				Settings: &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_DELETE, RetentionSeconds: h.Kept.Seconds()},
				Fields:   []string{"retention", "retention_seconds"},
			}); err != nil {
				return false, fmt.Sprintf("not enqueued: its queue cannot be set: %v", err)
			}
		}
		got := h.Send(all, client.Quorum, false)
		if len(got) != 1 || got[0].Err != nil {
			return false, fmt.Sprintf("not enqueued: %v", got)
		}
	}
	for _, c := range h.Claim(LongPoll) {
		if (&Job{Hand: h.Hand, Claim: c}).completeAt(client.Quorum) == nil && c.ID == all[0].ID {
			return true, ""
		}
	}
	// The answer to a completion may have been lost.
	if t, err := h.Client.Get(ctx, all[0].ID); err == nil && t.GetState() == nornv1.State_STATE_COMPLETED {
		return true, ""
	}
	return true, "enqueued, and not claimed and completed"
}

// Grants has a task of a partition enqueued, claimed and completed through the node, and
// gives the token of the claim. It tells whether the machine was busy meanwhile.
func (h Asker) Grants(p ring.Partition, limit time.Duration) (token uint64, strained bool, err error) {
	task := client.Task{
		ID: h.drawn(p), Queue: h.from[0], Payload: fmt.Appendf(nil, "of partition %d", p),
		Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
	}
	for in := false; ; {
		before := h.Strain.Patient(h.Node)
		why := errors.New("it grants nothing")
		if !in {
			got := h.Send([]client.Task{task}, client.Quorum, false)
			if in = len(got) == 1 && got[0].Err == nil; !in {
				why = fmt.Errorf("an enqueue: %v", got)
			}
		}
		if in {
			for _, c := range h.Claim(LongPoll) {
				done := (&Job{Hand: h.Hand, Claim: c}).completeAt(client.Quorum)
				if c.ID != task.ID {
					continue
				}
				if token = cmp.Or(token, c.Token); done == nil { // the first grant counts
					return token, strained, nil
				}
				why = done
			}
		}
		if h.Strain.Starved(h.Node, before) {
			strained = true
		} else {
			limit -= time.Since(before.At)
		}
		if limit <= 0 {
			return 0, strained, why
		}
	}
}

// drawn is a new ID in a partition.
func (h Asker) drawn(p ring.Partition) id.ID {
	for {
		if task := h.Client.NewID(); ring.Of(task, cluster.Partitions) == p {
			return task
		}
	}
}
