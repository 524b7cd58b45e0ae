package workloads

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/record"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of the workers of workload claims.
const (
	ShortLease = 2 * time.Second
	maxClaims  = 4
	LongPoll   = 500 * time.Millisecond
	// again is how often a claim request of unknown outcome is repeated.
	again = 3
)

// workers are the clients of workload claims: fewer producers than the AP
// workload has, and workers at each node and at all of them.
func (c *Crew) workers() error {
	think := c.Cfg.Think
	for _, p := range c.Members() {
		for _, level := range []client.Durability{client.Quorum, client.One} {
			if err := c.Join(p, 3*time.Second, 2*think, func(h *Hand) { h.Enqueue(level, level == client.One) }); err != nil {
				return err
			}
		}
		for range 2 {
			if err := c.Join(p, 3*time.Second, think/4, (*Hand).labour); err != nil {
				return err
			}
		}
		if err := c.Join(p, 3*time.Second, think, (*Hand).read); err != nil {
			return err
		}
	}
	for range 4 {
		if err := c.Join(nil, 10*time.Second, think/4, (*Hand).labour); err != nil {
			return err
		}
	}
	return nil
}

// Queues of all workloads.
var Queues = []string{"q0", "q1", "q2"}

// labour claims some tasks and does to each what workers do.
func (h *Hand) labour() {
	for _, c := range h.Claim(LongPoll) {
		(&Job{Hand: h, Claim: c}).do()
	}
}

// Claim asks for tasks, and again with the same number when nobody knows what
// came of it: the grants would block their tasks otherwise.
func (h *Hand) Claim(wait time.Duration) []*client.Claim {
	from := h.from
	if from == nil {
		from = Queues
	}
	most := cmp.Or(h.most, maxClaims)
	number := h.Client.NextClaim()
	for range again {
		asked := h.Rec.Invoke(h.Process, &history.Event{
			Func: history.Claim, Queues: from, Max: most, Wait: int64(wait), Lease: int64(ShortLease), Session: uint64(h.Process), Request: number,
		})
		got, err := h.Client.Claim(context.Background(), client.ClaimRequest{
			Queues: from, Max: most, Lease: ShortLease, Wait: wait, Worker: fmt.Sprintf("w%d", h.Process), Number: number,
		})
		var answer history.Event
		for _, c := range got {
			i := record.Seen(c.Grant.GetTask())
			i.Token, i.Start, i.Until = c.Token, c.Grant.GetStart().AsTime().UnixNano(), h.Rec.At(c.Deadline)
			i.Data = history.Digest(c.Grant.GetCheckpoint())
			answer.Items = append(answer.Items, i)
		}
		h.Launched(got)
		if h.Rec.End(asked, err, answer) != history.Info {
			return got
		}
	}
	return nil
}

// Job is a worker's claim.
type Job struct {
	*Hand
	*client.Claim
	seq uint64
}

// do is what becomes of a claim. Some workers let it lapse, some come too late.
func (j *Job) do() {
	switch n := j.Rnd.IntN(20); {
	case n < 10:
		j.work(200 * time.Millisecond)
		j.Complete()
	case n < 13:
		if j.hold(2 * ShortLease) {
			j.Complete()
		}
	case n < 16:
		for range 1 + j.Rnd.IntN(4) {
			j.update()
		}
		j.Complete()
	case n < 17:
		j.fail()
	case n < 18:
		j.release()
	case n < 19: // forgotten: it lapses
	default: // late: the lease is over
		j.work(2 * ShortLease)
		j.Complete()
	}
}

// work takes up to so long.
func (j *Job) work(most time.Duration) {
	select {
	case <-j.Ctx.Done():
	case <-time.After(time.Duration(j.Rnd.Int64N(int64(most)))):
	}
}

// hold keeps the claim for some time by renewing it; false: it is lost.
func (j *Job) hold(d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end) && j.Ctx.Err() == nil; j.work(ShortLease / 2) {
		if !j.renew() {
			return false
		}
	}
	return true
}

// renew renews the claim once; false: it is lost.
func (j *Job) renew() bool {
	asked := j.ask(history.Renew, history.Item{Token: j.Token}, false)
	got, err := j.Client.Renew(context.Background(), []client.Ref{j.Ref()}, ShortLease)
	var answer history.Event
	if err == nil {
		i := history.Item{Task: j.ID, Token: j.Token, State: record.State(got[0].State)}
		if bad := got[0].Err; bad != nil {
			i.Error, i.Text, i.Unsure = record.Kind(bad), bad.Error(), record.Unknown(bad)
		} else {
			i.Until = j.Rec.At(got[0].Deadline)
		}
		answer.Items = []history.Item{i}
	}
	j.Rec.End(asked, err, answer)
	switch {
	case err == nil && got[0].Err == nil:
		j.Deadline = got[0].Deadline
	case err == nil && record.Kind(got[0].Err) == "CLAIM_LOST", time.Now().After(j.Deadline):
		return false
	}
	return true
}

// ask writes down the begin of an operation on the claim's task.
func (j *Job) ask(f history.Func, i history.Item, weak bool) *history.Event {
	i.Task = j.ID
	e := &history.Event{Func: f, Items: []history.Item{i}, Weak: weak}
	if f == history.Renew {
		e.Lease = int64(ShortLease)
	}
	return j.Rec.Invoke(j.Process, e)
}

// answered writes down what came of an operation on one task.
func (j *Job) answered(asked *history.Event, receipt *nornv1.Receipt, s nornv1.State, err error) {
	answer := history.Event{Items: []history.Item{{Task: j.ID, State: record.State(s), Existed: receipt.GetExisted()}}}
	j.Rec.End(asked, err, answer)
}

// Complete ends the task, at times with one copy only.
func (j *Job) Complete() {
	level := client.Quorum
	if j.Rnd.IntN(10) == 0 {
		level = client.One
	}
	_ = j.completeAt(level) // what came of it is in the history
}

func (j *Job) completeAt(level client.Durability) error {
	seq, result := j.seq, fmt.Appendf(nil, "%s %d done by %d", j.ID, j.Token, j.Process)
	asked := j.ask(history.Complete, history.Item{Token: j.Token, Seq: seq, Data: history.Digest(result)}, level == client.One)
	receipt, err := j.Client.Complete(context.Background(), j.ID, j.Token, client.CompleteOptions{Seq: &seq, Result: result}, client.WithDurability(level))
	if err == nil && level == client.One && receipt.GetDurableCopies() < 2 {
		j.thinly(asked.Op, 0)
	}
	j.answered(asked, receipt, 0, err)
	return err
}

// update appends to the task's log.
func (j *Job) update() {
	_ = j.updateAt(j.seq, client.Quorum) // what came of it is in the history
	j.seq++
}

// updateAt writes one entry of the claim's log.
func (j *Job) updateAt(seq uint64, level client.Durability) error {
	data := fmt.Appendf(nil, "%s %d %d", j.ID, j.Token, seq)
	asked := j.ask(history.Update, history.Item{Token: j.Token, Seq: seq, Data: history.Digest(data)}, level == client.One)
	receipt, err := j.Client.Update(context.Background(), j.ID, j.Token, seq, data, client.WithDurability(level))
	if err == nil && level == client.One && receipt.GetDurableCopies() < 2 {
		j.thinly(asked.Op, 0)
	}
	j.answered(asked, receipt, 0, err)
	return err
}

func (j *Job) fail() {
	j.failWith(client.FailOptions{Error: "on purpose", RetryIn: 300 * time.Millisecond})
}

func (j *Job) failWith(o client.FailOptions) {
	asked := j.ask(history.FailTask, history.Item{Token: j.Token, Uncounted: o.Uncounted, Discard: o.Discard}, false)
	s, err := j.Client.Fail(context.Background(), j.ID, j.Token, o)
	j.answered(asked, nil, s, err)
}

func (j *Job) release() {
	asked := j.ask(history.Release, history.Item{Token: j.Token}, false)
	got, err := j.Client.Release(context.Background(), j.Ref())
	j.Rec.End(asked, err, history.Event{Items: record.Results(asked, got)})
}

// Drained are the queues from which workers take in the end: those of all workloads, too,
// in which an overload puts tasks whatever the workload is.
func (w Workload) Drained() []string {
	if w.Queues == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(w.Queues, Queues))))
}
