package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of the workers of workload claims.
const (
	shortLease = 2 * time.Second
	maxClaims  = 4
	longPoll   = 500 * time.Millisecond
	// again is how often a claim request of unknown outcome is repeated.
	again = 3
)

// workers are the clients of workload claims: fewer producers than the AP
// workload has, and workers at each node and at all of them.
func (c *crew) workers() error {
	think := c.cfg.Think
	for _, p := range c.members() {
		for _, level := range []client.Durability{client.Quorum, client.One} {
			if err := c.join(p, 3*time.Second, 2*think, func(h *hand) { h.enqueue(level, level == client.One) }); err != nil {
				return err
			}
		}
		for range 2 {
			if err := c.join(p, 3*time.Second, think/4, (*hand).labour); err != nil {
				return err
			}
		}
		if err := c.join(p, 3*time.Second, think, (*hand).read); err != nil {
			return err
		}
	}
	for range 4 {
		if err := c.join(nil, 10*time.Second, think/4, (*hand).labour); err != nil {
			return err
		}
	}
	return nil
}

// queues of all workloads.
var queues = []string{"q0", "q1", "q2"}

// labour claims some tasks and does to each what workers do.
func (h *hand) labour() {
	for _, c := range h.claim(longPoll) {
		(&job{hand: h, Claim: c}).do()
	}
}

// at is a local time in the history.
func (r *recorder) at(t time.Time) int64 { return int64(t.Sub(r.began)) }

// claim asks for tasks, and again with the same number when nobody knows what
// came of it: the grants would block their tasks otherwise.
func (h *hand) claim(wait time.Duration) []*client.Claim {
	from := h.from
	if from == nil {
		from = queues
	}
	most := cmp.Or(h.most, maxClaims)
	number := h.client.NextClaim()
	for range again {
		asked := h.rec.invoke(h.process, &history.Event{
			Func: history.Claim, Queues: from, Max: most, Wait: int64(wait), Lease: int64(shortLease), Session: uint64(h.process), Request: number,
		})
		got, err := h.client.Claim(context.Background(), client.ClaimRequest{
			Queues: from, Max: most, Lease: shortLease, Wait: wait, Worker: fmt.Sprintf("w%d", h.process), Number: number,
		})
		var answer history.Event
		for _, c := range got {
			i := seen(c.Grant.GetTask())
			i.Token, i.Start, i.Until = c.Token, c.Grant.GetStart().AsTime().UnixNano(), h.rec.at(c.Deadline)
			i.Data = history.Digest(c.Grant.GetCheckpoint())
			answer.Items = append(answer.Items, i)
		}
		h.launched(got)
		if h.rec.end(asked, err, answer) != history.Info {
			return got
		}
	}
	return nil
}

// job is a worker's claim.
type job struct {
	*hand
	*client.Claim
	seq uint64
}

// do is what becomes of a claim. Some workers let it lapse, some come too late.
func (j *job) do() {
	switch n := j.rnd.IntN(20); {
	case n < 10:
		j.work(200 * time.Millisecond)
		j.complete()
	case n < 13:
		if j.hold(2 * shortLease) {
			j.complete()
		}
	case n < 16:
		for range 1 + j.rnd.IntN(4) {
			j.update()
		}
		j.complete()
	case n < 17:
		j.fail()
	case n < 18:
		j.release()
	case n < 19: // forgotten: it lapses
	default: // late: the lease is over
		j.work(2 * shortLease)
		j.complete()
	}
}

// work takes up to so long.
func (j *job) work(most time.Duration) {
	select {
	case <-j.ctx.Done():
	case <-time.After(time.Duration(j.rnd.Int64N(int64(most)))):
	}
}

// hold keeps the claim for some time by renewing it; false: it is lost.
func (j *job) hold(d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end) && j.ctx.Err() == nil; j.work(shortLease / 2) {
		if !j.renew() {
			return false
		}
	}
	return true
}

// renew renews the claim once; false: it is lost.
func (j *job) renew() bool {
	asked := j.ask(history.Renew, history.Item{Token: j.Token}, false)
	got, err := j.client.Renew(context.Background(), []client.Ref{j.Ref()}, shortLease)
	var answer history.Event
	if err == nil {
		i := history.Item{Task: j.ID, Token: j.Token, State: state(got[0].State)}
		if bad := got[0].Err; bad != nil {
			i.Error, i.Text, i.Unsure = kind(bad), bad.Error(), unknown(bad)
		} else {
			i.Until = j.rec.at(got[0].Deadline)
		}
		answer.Items = []history.Item{i}
	}
	j.rec.end(asked, err, answer)
	switch {
	case err == nil && got[0].Err == nil:
		j.Deadline = got[0].Deadline
	case err == nil && kind(got[0].Err) == "CLAIM_LOST", time.Now().After(j.Deadline):
		return false
	}
	return true
}

// ask writes down the begin of an operation on the claim's task.
func (j *job) ask(f history.Func, i history.Item, weak bool) *history.Event {
	i.Task = j.ID
	e := &history.Event{Func: f, Items: []history.Item{i}, Weak: weak}
	if f == history.Renew {
		e.Lease = int64(shortLease)
	}
	return j.rec.invoke(j.process, e)
}

// answered writes down what came of an operation on one task.
func (j *job) answered(asked *history.Event, receipt *nornv1.Receipt, s nornv1.State, err error) {
	answer := history.Event{Items: []history.Item{{Task: j.ID, State: state(s), Existed: receipt.GetExisted()}}}
	j.rec.end(asked, err, answer)
}

// complete ends the task, at times with one copy only.
func (j *job) complete() {
	level := client.Quorum
	if j.rnd.IntN(10) == 0 {
		level = client.One
	}
	_ = j.completeAt(level) // what came of it is in the history
}

func (j *job) completeAt(level client.Durability) error {
	seq, result := j.seq, fmt.Appendf(nil, "%s %d done by %d", j.ID, j.Token, j.process)
	asked := j.ask(history.Complete, history.Item{Token: j.Token, Seq: seq, Data: history.Digest(result)}, level == client.One)
	receipt, err := j.client.Complete(context.Background(), j.ID, j.Token, client.CompleteOptions{Seq: &seq, Result: result}, client.WithDurability(level))
	if err == nil && level == client.One && receipt.GetDurableCopies() < 2 {
		j.thinly(asked.Op, 0)
	}
	j.answered(asked, receipt, 0, err)
	return err
}

// update appends to the task's log.
func (j *job) update() {
	_ = j.updateAt(j.seq, client.Quorum) // what came of it is in the history
	j.seq++
}

// updateAt writes one entry of the claim's log.
func (j *job) updateAt(seq uint64, level client.Durability) error {
	data := fmt.Appendf(nil, "%s %d %d", j.ID, j.Token, seq)
	asked := j.ask(history.Update, history.Item{Token: j.Token, Seq: seq, Data: history.Digest(data)}, level == client.One)
	receipt, err := j.client.Update(context.Background(), j.ID, j.Token, seq, data, client.WithDurability(level))
	if err == nil && level == client.One && receipt.GetDurableCopies() < 2 {
		j.thinly(asked.Op, 0)
	}
	j.answered(asked, receipt, 0, err)
	return err
}

func (j *job) fail() {
	j.failWith(client.FailOptions{Error: "on purpose", RetryIn: 300 * time.Millisecond})
}

func (j *job) failWith(o client.FailOptions) {
	asked := j.ask(history.FailTask, history.Item{Token: j.Token, Uncounted: o.Uncounted, Discard: o.Discard}, false)
	s, err := j.client.Fail(context.Background(), j.ID, j.Token, o)
	j.answered(asked, nil, s, err)
}

func (j *job) release() {
	asked := j.ask(history.Release, history.Item{Token: j.Token}, false)
	got, err := j.client.Release(context.Background(), j.Ref())
	j.rec.end(asked, err, history.Event{Items: results(asked, got)})
}

// drained are the queues from which workers take in the end: those of all workloads, too,
// in which an overload puts tasks whatever the workload is.
func (w Workload) drained() []string {
	if w.queues == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(w.queues, queues))))
}

// finishers are the workers that finish everything in the end: after an hour of
// faults hundreds of thousands of tasks are open, and each worker waits for one
// answer at a time.
const finishers = 32

// standstill is for how long a cluster without faults may finish nothing.
const standstill = time.Minute

// drain has workers finish everything. However long that takes, something must
// be finished in every minute.
func (l *lab) drain(ctx context.Context, w Workload) error {
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &crew{lab: l, ctx: ctx, queues: w.drained()}
	for range finishers {
		if err := c.join(nil, 10*time.Second, time.Millisecond, func(h *hand) {
			for _, got := range h.claim(longPoll) {
				(&job{hand: h, Claim: got}).complete()
			}
		}); err != nil {
			return err
		}
	}
	dialled, err := l.dial(10*time.Second, l.members()...)
	if err != nil {
		return err
	}
	left := stillOpen(ctx, dialled)
	cancel()
	c.work.Wait()
	if errors.Is(asked.Err(), context.Canceled) { // somebody ends the run
		return asked.Err()
	}
	if left != "" {
		l.found("stuck", "not everything can be done: %s", left)
		return errStuck
	}
	l.say("everything is done")
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
