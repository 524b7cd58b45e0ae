package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// reading is the end of a run: the cluster comes to rest, and everything is read
// back through every node.
type reading struct {
	*workloads.Crew
	all []*workloads.Hand // one per node
}

// settle waits until the cluster is at rest, and says so in the history.
func (l trial) settle(ctx context.Context, c *workloads.Crew, w workloads.Workload) error {
	if err := l.Relink(func(all map[network.Way]network.Link) { clear(all) }); err != nil {
		return err
	}
	for _, p := range l.Members() {
		if p.Running(0) {
			continue
		}
		if err := l.Begin(p); err != nil {
			return err
		}
	}
	if err := l.Whole(ctx, cluster.Rest); err != nil {
		l.Found("stuck", "the cluster does not come to rest: %v", err)
		return cluster.ErrStuck
	}
	if err := l.Serves(ctx, cluster.Rest); err != nil {
		l.Found("stuck", "the cluster is whole, and does not serve: %v", err)
		return cluster.ErrStuck
	}
	l.Alike(ctx)
	if w.Claims {
		if w.Finish != nil {
			if err := w.Finish(ctx, c); err != nil {
				return err
			}
		}
		if err := l.drain(ctx, w); err != nil {
			return err
		}
		if w.Kept > 0 {
			if err := c.Forgets(ctx); err != nil {
				return err
			}
		}
	}
	if err := l.Rests(ctx); err != nil {
		return err
	}
	l.Note("whole")
	l.Rec.Note(check.Settled)
	return nil
}

// readBack reads everything through every node.
func (l trial) readBack(ctx context.Context, c *workloads.Crew) error {
	r := &reading{Crew: c}
	for _, p := range l.Members() {
		dialled, err := l.Dial(machine.Patience, p)
		if err != nil {
			return err
		}
		r.all = append(r.all, &workloads.Hand{Crew: c, Process: l.Rec.Process(), Client: dialled, Node: p})
	}
	var first []history.Item
	for i, h := range r.all {
		h.Program()
		h.Count(ctx)
		shown, err := h.List(ctx)
		switch {
		case err != nil:
			l.Found("stuck", "%s does not list: %v", h.Node.Name, err)
			return cluster.ErrStuck
		case i == 0:
			first = shown
		case len(shown) != len(first):
			l.Found("convergence", "%s lists %d tasks, %s %d", r.all[0].Node.Name, len(first), h.Node.Name, len(shown))
		}
	}
	l.Say("%d tasks are listed through each node", len(first))
	r.finish(ctx, unfinished(first))
	if err := l.Rests(ctx); err != nil {
		return err
	}
	l.Rec.Mu.Lock()
	all, _ := record.TasksOf(l.Rec.Events) // what is not listed too
	l.Rec.Mu.Unlock()
	for i := range first {
		all[first[i].Task] = true
	}
	r.getAll(ctx, slices.SortedFunc(maps.Keys(all), id.ID.Compare))
	for _, h := range r.all {
		h.Count(ctx)
		if _, err := h.List(ctx); err != nil {
			l.Found("stuck", "%s does not list: %v", h.Node.Name, err)
		}
	}
	return nil
}

// finish cancels what is left, so that everything is finished in the end.
func (r *reading) finish(ctx context.Context, tasks []id.ID) {
	h := r.all[0]
	for len(tasks) > 0 {
		some := tasks[:min(len(tasks), 1000)]
		tasks = tasks[len(some):]
		asked := h.Rec.Invoke(h.Process, &history.Event{Func: history.Cancel, Items: record.Items(some)})
		got, err := h.Client.Cancel(ctx, some, client.CancelOptions{Reason: "the end"})
		if phase := h.Rec.End(asked, err, history.Event{Items: record.Results(asked, got)}); phase != history.OK {
			h.Found("stuck", "tasks cannot be cancelled: %v", err)
			return
		}
	}
}

// readers are how many readings are under way at a time in the end.
const readers = 24

// getAll reads each task through some node.
func (r *reading) getAll(ctx context.Context, tasks []id.ID) {
	var work sync.WaitGroup
	for k := range readers {
		h := r.all[k%len(r.all)]
		own := &workloads.Hand{Crew: h.Crew, Process: r.Rec.Process(), Client: h.Client, Node: h.Node}
		work.Go(func() {
			for i := k; i < len(tasks) && ctx.Err() == nil; i += readers {
				own.Get(tasks[i], client.ReadQuorum)
			}
		})
	}
	work.Wait()
}

// finishers are the workers that finish everything in the end: after an hour of
// faults hundreds of thousands of tasks are open, and each worker waits for one
// answer at a time.
const finishers = 32

// standstill is for how long a cluster without faults may finish nothing.
const standstill = time.Minute

// drain has workers finish everything. However long that takes, something must
// be finished in every minute.
func (l trial) drain(ctx context.Context, w workloads.Workload) error {
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &workloads.Crew{Lab: l.Lab, Ctx: ctx, Queues: w.Drained()}
	for range finishers {
		if err := c.Join(nil, 10*time.Second, time.Millisecond, func(h *workloads.Hand) {
			for _, got := range h.Claim(workloads.LongPoll) {
				(&workloads.Job{Hand: h, Claim: got}).Complete()
			}
		}); err != nil {
			return err
		}
	}
	dialled, err := l.Dial(10*time.Second, l.Members()...)
	if err != nil {
		return err
	}
	left := stillOpen(ctx, dialled)
	cancel()
	c.Work.Wait()
	if errors.Is(asked.Err(), context.Canceled) { // somebody ends the run
		return asked.Err()
	}
	if left != "" {
		l.Found("stuck", "not everything can be done: %s", left)
		return cluster.ErrStuck
	}
	l.Say("everything is done")
	return nil
}

// stillOpen waits until no task is open; else it says which were, when none has
// been finished for too long.
func stillOpen(ctx context.Context, counting *client.Client) (left string) {
	last, least := time.Now(), uint64(1<<63)
	left = "nobody has counted"
	for tick := time.Tick(500 * time.Millisecond); time.Since(last) < standstill && ctx.Err() == nil; <-tick {
		n, err := counting.Count(ctx, "")
		if err != nil {
			continue // what was open before tells more
		}
		t := n.GetTotal()
		open := t.GetWaiting() + t.GetScheduled() + t.GetReady() + t.GetClaimed()
		if open == 0 {
			return ""
		}
		left = fmt.Sprintf("%d waiting, %d scheduled, %d ready, %d claimed", t.GetWaiting(), t.GetScheduled(), t.GetReady(), t.GetClaimed())
		if open < least {
			last, least = time.Now(), open
		}
	}
	return left
}

// unfinished are those of some tasks that are to be ended.
func unfinished(shown []history.Item) (left []id.ID) {
	for i := range shown {
		if !shown[i].State.Finished() {
			left = append(left, shown[i].Task)
		}
	}
	return left
}
