package workloads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// dependencies is the workload of tasks that wait for each other (W8).
func dependencies() Workload {
	return Workload{
		Name: "dependencies", About: "chains, fans, diamonds and random graphs of tasks over all partitions, sent in any order, dependants before their dependencies too; some fail for good (W8)",
		Begin: (*Crew).weavers, Claims: true, Finish: settleDebts, Least: LeastPerSecond / 2, Lacks: unwoven,
	}
}

// weavers are the clients of workload dependencies.
func (c *Crew) weavers() error {
	think := c.Cfg.Think
	for _, p := range c.Members() {
		for range 2 {
			if err := c.Join(p, 5*time.Second, 4*think, (*Hand).weave); err != nil {
				return err
			}
		}
		for range 3 {
			if err := c.Join(p, 3*time.Second, think/4, (*Hand).finishSome); err != nil {
				return err
			}
		}
		if err := c.Join(p, 3*time.Second, think, (*Hand).read); err != nil {
			return err
		}
	}
	for range 4 {
		if err := c.Join(nil, 10*time.Second, think/4, (*Hand).finishSome); err != nil {
			return err
		}
	}
	return nil
}

// maxWeb is how many tasks one graph has at most.
const maxWeb = 10

// web gives, task by task, which earlier ones of a graph it depends on.
func web(rnd *rand.Rand) [][]int {
	n := 3 + rnd.IntN(maxWeb-2)
	all := make([][]int, n)
	switch rnd.IntN(5) {
	case 0: // chain
		for i := 1; i < n; i++ {
			all[i] = []int{i - 1}
		}
	case 1: // many for one
		for i := range n - 1 {
			all[n-1] = append(all[n-1], i)
		}
	case 2: // one for many
		for i := 1; i < n; i++ {
			all[i] = []int{0}
		}
	case 3: // diamond
		for i := 1; i < n-1; i++ {
			all[i] = []int{0}
			all[n-1] = append(all[n-1], i)
		}
	default: // any, without a circle
		for i := 1; i < n; i++ {
			for j := range i {
				if rnd.IntN(3) == 0 {
					all[i] = append(all[i], j)
				}
			}
		}
	}
	return all
}

// weave sends one graph, in any order and in two parts.
func (h *Hand) weave() {
	graph := web(h.Rnd)
	ids := h.Client.NewIDs(len(graph))
	all := make([]client.Task, len(graph))
	for i, deps := range graph {
		all[i] = client.Task{
			ID: ids[i], Queue: Queues[h.Rnd.IntN(len(Queues))], Payload: fmt.Appendf(nil, "%s of process %d", ids[i], h.Process),
			Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
		}
		for _, d := range deps {
			all[i].Dependencies = append(all[i].Dependencies, ids[d])
		}
		if len(deps) > 0 && h.Rnd.IntN(4) == 0 {
			all[i].OnDependencyFailure = nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN
		}
	}
	h.Rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	h.knows(all)
	h.owes(all)
	half := h.Rnd.IntN(len(all))
	for _, part := range [][]client.Task{all[:half], all[half:]} {
		if len(part) == 0 {
			continue
		}
		h.pays(part, h.Send(part, client.Quorum, false))
		if h.Rnd.IntN(2) == 0 {
			h.pause()
		}
	}
}

// owes notes tasks that must be there in the end, because others wait for them.
func (h *Hand) owes(all []client.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		h.Owed[all[i].ID] = all[i]
	}
}

// pays notes those that are there.
func (h *Hand) pays(all []client.Task, got []client.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range got {
		if r.Err == nil {
			delete(h.Owed, all[i].ID)
		}
	}
}

// settleDebts enqueues what others wait for and nobody knows to be there.
func settleDebts(ctx context.Context, c *Crew) error {
	to, err := c.Dial(10*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	h := &Hand{Crew: c, Process: c.Rec.Process(), Client: to}
	for end := time.Now().Add(cluster.Rest); ; {
		left := slices.Collect(maps.Values(c.Owed)) // Any order: all are sent.
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			c.Found("stuck", "%d tasks cannot be enqueued", len(left))
			return errors.Join(cluster.ErrStuck, ctx.Err())
		}
		left = left[:min(len(left), 100)]
		h.pays(left, h.Send(left, client.Quorum, false))
	}
}

// finishSome claims tasks and ends most of them at once.
func (h *Hand) finishSome() {
	for _, c := range h.Claim(LongPoll) {
		j := &Job{Hand: h, Claim: c}
		switch k := h.Rnd.IntN(20); {
		case k < 16:
			j.work(50 * time.Millisecond)
			j.Complete()
		case k < 17:
			j.failWith(client.FailOptions{Error: "for good", Discard: true})
		case k < 18:
			j.fail()
		case k < 19:
			j.release()
		default: // forgotten
		}
	}
}

// unwoven says when too few tasks ran that had to wait for others.
func unwoven(r *Seen) string {
	waited, ran := map[id.ID]bool{}, 0
	for _, e := range r.Events {
		switch {
		case e.Func == history.Enqueue && e.Phase == history.Invoke:
			for i := range e.Items {
				waited[e.Items[i].Task] = len(e.Items[i].Spec.Deps) > 0
			}
		case e.Func == history.Claim && e.Phase == history.OK:
			for i := range e.Items {
				if waited[e.Items[i].Task] {
					ran++
				}
			}
		}
	}
	if least := int(r.Duration.Seconds()); ran < least {
		return fmt.Sprintf("%d grants of tasks that had waited for others, %d are the least", ran, least)
	}
	return ""
}
