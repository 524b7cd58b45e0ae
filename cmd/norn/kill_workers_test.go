package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// killWorker claims tasks and does with them what workers do, and fail to do.
type killWorker struct {
	*killLoad
	name string
	late []*client.Claim // to be completed when their leases are over
}

// workedQueues are those that workers take from.
var workedQueues = []string{qPlain, qDeps, qKeys, qGate, qBrief, qArchive}

func grantsOf(claims []*client.Claim) []grant {
	out := make([]grant, len(claims))
	for i, c := range claims {
		t := c.Grant.GetTask()
		out[i] = grant{
			id: c.ID, token: c.Token, until: c.Deadline, start: c.Grant.GetStart().AsTime(), payload: t.GetPayload(), queue: t.GetQueue(),
			key: t.GetKey(), window: time.Duration(t.GetKeyWindowSeconds() * float64(time.Second)),
		}
	}
	return out
}

// claim asks for tasks.
func (w *killWorker) claim(ctx context.Context, r *rand.Rand, queues []string) []*client.Claim {
	begun := w.j.claims(queues)
	ask := client.ClaimRequest{Queues: queues, Max: 1 + r.IntN(30), Wait: time.Duration(r.IntN(100)) * time.Millisecond, Worker: w.name, Number: w.c.NextClaim()}
	if r.IntN(3) > 0 { // otherwise the queue's
		ask.Lease = time.Second + time.Duration(r.IntN(500))*time.Millisecond
	}
	claims, err := w.c.Claim(ctx, ask)
	if errors.Is(err, client.ErrUnknown) { // the same request gets the same grants
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		claims, err = w.c.Claim(again, ask)
		w.j.note("claim asked for again", 1)
	}
	w.j.claimed(begun, queues, grantsOf(claims), err)
	return claims
}

// work is one step of a worker that is not always good.
func (w *killWorker) work(ctx context.Context, r *rand.Rand) {
	queues := workedQueues
	if r.IntN(2) == 0 {
		queues = []string{queues[r.IntN(len(queues))]}
	}
	var done []*client.Claim
	for _, c := range w.claim(ctx, r, queues) {
		fate := r.IntN(100)
		if c.Grant.GetTask().GetPayload()[0] == 'D' && fate < 80 {
			fate = 81 + fate%10 // fail or discard
			if c.Grant.GetTask().GetMaxAttempts() > 1 {
				fate = 90
			}
		}
		switch {
		case fate < 60:
			done = append(done, c)
		case fate < 66:
			w.complete(ctx, c, []byte("alone"))
		case fate < 70:
			w.late = append(w.late, c)
		case fate < 73:
			w.j.note("worker died silently", 1)
		case fate < 78:
			w.release(ctx, c)
		case fate < 84:
			w.fail(ctx, c, failing, client.FailOptions{Error: "in a while", RetryIn: time.Duration(r.IntN(100)) * time.Millisecond})
		case fate < 90:
			w.fail(ctx, c, failing, client.FailOptions{Error: "as the policy says", Uncounted: r.IntN(4) == 0 && c.Grant.GetTask().GetMaxAttempts() > 1})
		case fate < 91:
			w.fail(ctx, c, discarding, client.FailOptions{Error: "for good", Discard: true})
		case fate < 95:
			w.update(ctx, r, c)
			done = append(done, c)
		case w.renew(ctx, c):
			done = append(done, c)
		}
	}
	w.completeAll(ctx, done)
	w.completeLate(ctx)
}

func (w *killWorker) complete(ctx context.Context, c *client.Claim, result []byte) {
	begun := w.j.asks(completing, c.Ref())
	_, err := w.c.Complete(ctx, c.ID, c.Token, client.CompleteOptions{Result: result})
	w.j.hears(begun, completing, c.Ref(), 0, err)
	w.j.note("complete alone", 1)
}

func (w *killWorker) completeAll(ctx context.Context, claims []*client.Claim) {
	if len(claims) == 0 {
		return
	}
	refs, done := make([]client.Ref, len(claims)), make([]*nornv1.Completion, len(claims))
	for i, c := range claims {
		refs[i], done[i] = c.Ref(), &nornv1.Completion{Id: c.ID.Bytes(), Token: c.Token, AutoSeq: true}
	}
	begun := w.j.asks(completing, refs...)
	results, err := w.c.CompleteMany(ctx, done)
	w.j.settled(begun, completing, refs, results, err)
	w.j.note("complete as a batch", 1)
}

// completeLate completes what the worker was too slow for.
func (w *killWorker) completeLate(ctx context.Context) {
	kept := w.late[:0]
	for _, c := range w.late {
		if time.Now().Before(c.Deadline) {
			kept = append(kept, c)
			continue
		}
		begun := w.j.asks(completing, c.Ref())
		_, err := w.c.Complete(ctx, c.ID, c.Token, client.CompleteOptions{})
		w.j.hears(begun, completing, c.Ref(), 0, err)
		if err == nil {
			w.j.note("complete late", 1)
		}
	}
	w.late = kept
}

func (w *killWorker) release(ctx context.Context, c *client.Claim) {
	begun := w.j.asks(releasing, c.Ref())
	results, err := w.c.Release(ctx, c.Ref())
	w.j.settled(begun, releasing, []client.Ref{c.Ref()}, results, err)
}

func (w *killWorker) fail(ctx context.Context, c *client.Claim, d deed, o client.FailOptions) {
	begun := w.j.asks(d, c.Ref())
	state, err := w.c.Fail(ctx, c.ID, c.Token, o)
	w.j.hears(begun, d, c.Ref(), state, err)
	if err == nil && state == nornv1.State_STATE_DEAD {
		w.j.note("task died", 1)
	}
}

// update writes to the log of a task, until an outcome is not known.
func (w *killWorker) update(ctx context.Context, r *rand.Rand, c *client.Claim) {
	for seq := range uint64(1 + r.IntN(4)) {
		data := fmt.Sprintf("%s %d", w.name, seq)
		begun := w.j.begins()
		_, err := w.c.Update(ctx, c.ID, c.Token, seq, []byte(data))
		w.j.updated(begun, c.Ref(), data, err)
		if err != nil {
			return
		}
	}
}

// renew prolongs a claim and tells whether it holds.
func (w *killWorker) renew(ctx context.Context, c *client.Claim) bool {
	begun := w.j.begins()
	results, err := w.c.Renew(ctx, []client.Ref{c.Ref()}, 1200*time.Millisecond)
	if err != nil {
		w.j.renewed(begun, c.Ref(), time.Time{}, err)
		return true
	}
	w.j.renewed(begun, c.Ref(), results[0].Deadline, results[0].Err)
	return results[0].Err == nil
}

// finish is one step of a worker that does its work.
func (w *killWorker) finish(ctx context.Context, r *rand.Rand) {
	var done []*client.Claim
	for _, c := range w.claim(ctx, r, append([]string{qPurge}, workedQueues...)) {
		if c.Grant.GetTask().GetPayload()[0] == 'D' {
			w.fail(ctx, c, discarding, client.FailOptions{Error: "for good", Discard: true})
			continue
		}
		done = append(done, c)
	}
	w.completeAll(ctx, done)
	w.completeLate(ctx)
}

// admin pauses, drains and resumes a queue, and changes settings of another.
func (k *killLoad) admin(ctx context.Context, r *rand.Rand) {
	q, name := k.c.Queues(), qGate
	switch r.IntN(4) {
	case 0:
		k.j.pauses(name, true)
		_, err := q.Pause(ctx, name, "killed soon")
		k.j.paused(name, "pause", err)
	case 1:
		k.j.pauses(name, true)
		_, err := q.Drain(ctx, name, "")
		k.j.paused(name, "drain", err)
	case 2:
		k.j.pauses(name, false)
		_, err := q.Resume(ctx, name)
		k.j.paused(name, "resume", err)
	case 3:
		k.setNote(ctx, fmt.Sprintf("note %d", r.Uint64()))
	}
}

// setNote changes a setting that can be compared later.
func (k *killLoad) setNote(ctx context.Context, note string) {
	k.note += "|" + note // either, until it is acknowledged
	found, err := k.c.Queues().Set(ctx, qPlain, client.QueueChange{
		Settings: &nornv1.QueueSettings{Note: note, LeaseSeconds: 1.5}, Fields: []string{"note", "lease_seconds"},
	})
	if err != nil {
		return
	}
	k.note = note
	if found.GetVersion() <= k.version {
		k.j.mismatch("the settings of %s have version %d after version %d", qPlain, found.GetVersion(), k.version)
	}
	k.version = found.GetVersion()
	k.j.note("setting acknowledged", 1)
}

// mismatch reports what is wrong with something that is no task.
func (j *judge) mismatch(format string, args ...any) {
	_, end := j.hear()
	defer end()
	j.complain(nil, format, args...)
}

// read looks at something.
func (k *killLoad) read(ctx context.Context, r *rand.Rand) {
	if n, err := k.c.Count(ctx, ""); err == nil {
		t := n.GetTotal()
		k.open.Store(int64(t.GetWaiting() + t.GetScheduled() + t.GetReady() + t.GetClaimed()))
		k.j.note("count", 1)
	}
	switch r.IntN(3) {
	case 0:
		f := client.Filter{Queue: []string{"", qPlain, qDeps, qGate}[r.IntN(4)], Limit: 100, IDsOnly: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			f.States = []nornv1.State{nornv1.State(1 + r.IntN(7))}
		}
		begun := k.j.begins()
		for t, err := range k.c.List(ctx, f) {
			if err != nil {
				return
			}
			task, err := id.Parse(t.GetId())
			if err != nil {
				k.j.mismatch("list: %v", err)
				return
			}
			k.j.reads(begun, task, t.GetState())
		}
		k.j.note("list", 1)
	case 1:
		for _, task := range k.some(r, 1) {
			begun := k.j.begins()
			if e, err := k.c.Explain(ctx, task); err == nil {
				k.j.reads(begun, task, e.GetState())
				k.j.note("explain", 1)
			}
		}
	default:
		for _, task := range k.some(r, 3) {
			begun := k.j.begins()
			if t, err := k.c.Get(ctx, task); err == nil {
				k.j.reads(begun, task, t.GetState())
				k.j.note("get", 1)
			}
		}
	}
}
