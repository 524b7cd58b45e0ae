package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Task is a task that a handler works on. Its methods may be called from any
// goroutine until the handler returns.
type Task struct {
	client *client.Client
	claim  *client.Claim
	job    *job
	keep   func(line string)
	began  func()

	log     chan struct{} // holds a token while the log is used; guards the fields below
	next    uint64        // number of the next update
	pending *update       // sent, and not known to have arrived
	unsure  bool          // it may have arrived
	result  atomic.Pointer[[]byte]
}

// update is entries of the log, in a row, which has numbers for them.
type update struct {
	data   [][]byte // what is not known to have arrived
	output bool
	last   bool
}

func newTask(c *client.Client, claim *client.Claim, j *job) *Task {
	return &Task{client: c, claim: claim, job: j, log: make(chan struct{}, 1)}
}

// ID names the task.
func (t *Task) ID() id.ID { return t.claim.ID }

// Token is the fencing token of this claim: hand it to what the task writes to.
func (t *Task) Token() uint64 { return t.claim.Token }

// Queue is the task's queue.
func (t *Task) Queue() string { return t.claim.Grant.GetTask().GetQueue() }

// Kind is what is to be done, "" where the task does not say.
func (t *Task) Kind() string { return t.claim.Grant.GetTask().GetKind() }

// Tags are those it was enqueued with. Do not change them.
func (t *Task) Tags() []string { return t.claim.Grant.GetTask().GetTags() }

// Payload is what was enqueued. Do not change it.
func (t *Task) Payload() []byte { return t.claim.Grant.GetTask().GetPayload() }

// Attempt is 1 for the first run; only attempts that count are counted.
func (t *Task) Attempt() int { return int(t.claim.Grant.GetTask().GetAttempts()) + 1 }

// MaxAttempts is how many attempts the task has before it is dead.
func (t *Task) MaxAttempts() int { return int(t.claim.Grant.GetTask().GetMaxAttempts()) }

// Headers are those it was enqueued with. Do not change them.
func (t *Task) Headers() map[string]string { return t.claim.Grant.GetTask().GetHeaders() }

// CreatedAt is when the task was enqueued.
func (t *Task) CreatedAt() time.Time { return t.claim.Grant.GetTask().GetCreatedAt().AsTime() }

// Checkpoint is the last update of earlier claims, nil when there is none.
func (t *Task) Checkpoint() []byte { return t.claim.Grant.GetCheckpoint() }

// Grant is all that the server sent. Do not change it.
func (t *Task) Grant() *nornv1.Grant { return t.claim.Grant }

// SetResult keeps up to 1 MiB of result with the task if the handler returns
// nil. The last one counts. With a larger one the attempt fails, though the
// handler returned nil: no server takes it, and the task must not look done without.
func (t *Task) SetResult(b []byte) { t.result.Store(&b) }

// fits says what is wrong with the size of the result, here and not at a node:
// a session has no way to refuse it.
func (t *Task) fits() error {
	if r := t.result.Load(); r != nil && len(*r) > proto.MaxUpdateBytes {
		return fmt.Errorf("the result of %d bytes is over the limit of %d; store it elsewhere and keep a reference", len(*r), proto.MaxUpdateBytes)
	}
	return nil
}

// Update appends to the task's log and waits until it is durable: a checkpoint
// that a later claim would start from. Updates are sent in order, one at a
// time. After an error that is client.ErrUnknown the update may have arrived; it
// is sent again before the next one, or, for a second, before the end. After any other error it is not
// there. ErrClaimLost and ErrCancelled: stop; they come without asking anybody once
// the claim is over by our own clocks, whatever ctx is. After ErrShutdown and ErrTimeout a last checkpoint can be saved, with a
// context of its own ([context.WithoutCancel]), as long as Grace allows. An error that
// is client.ErrConflict: the log of the task is full; the claim goes on.
func (t *Task) Update(ctx context.Context, data []byte) error {
	_, err := t.append(ctx, update{data: [][]byte{data}})
	return err
}

// Output appends a captured line of output to the task's log. It is no
// checkpoint, otherwise like Update.
func (t *Task) Output(ctx context.Context, line []byte) error {
	_, err := t.append(ctx, update{data: [][]byte{line}, output: true})
	return err
}

// UpdateMany is Update of several: it waits once for all of them. n is how many of them,
// from the first on, are durable; the error is about the one behind those.
func (t *Task) UpdateMany(ctx context.Context, data [][]byte) (n int, err error) {
	return t.append(ctx, update{data: data})
}

// UpdateLast is UpdateMany of what the handler has to say at last, with a line of output
// before, unless that is "": a log that is full has some room for it.
func (t *Task) UpdateLast(ctx context.Context, note string, data [][]byte) (n int, err error) {
	if note != "" {
		if _, err := t.append(ctx, update{data: [][]byte{[]byte(note)}, output: true, last: true}); err != nil {
			return 0, err
		}
	}
	return t.append(ctx, update{data: data, last: true})
}

// Log keeps a line of output in the memory of this process, for whoever asks for it
// while the process lives: `norn task log ID --lines`, through any node, while the
// task runs and after. It sends nothing and never waits. Of all tasks together the
// newest 4 MiB are kept, 4 KiB of each line. Without a session (see Config.Pull)
// nothing is. What must last is an Output or an Update.
func (t *Task) Log(line string) { t.keep(line) }

func (t *Task) append(ctx context.Context, u update) (n int, err error) {
	if len(u.data) == 0 {
		return 0, nil
	}
	select {
	case t.log <- struct{}{}:
		defer func() { <-t.log }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-t.job.claim.Done(): // nobody gives the token back that the end has
		return 0, t.job.valid()
	}
	// A process that was frozen must not write before it knows that its claim is
	// gone, so the clocks are asked here, not the timers.
	if err := t.job.valid(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.job.claim, func() { cancel(context.Cause(t.job.claim)) })()
	if t.pending != nil {
		t.pending.last = t.pending.last || u.last // or what comes behind it had no room either
	}
	if _, err := t.flush(ctx); err != nil {
		return 0, &unsent{err}
	}
	t.pending, t.unsure = &u, false
	return t.flush(ctx)
}

// unsent is why an update was not sent: one before it is still in doubt, or was refused.
type unsent struct{ err error }

func (u *unsent) Error() string { return "not sent, for the update before it: " + u.err.Error() }

// Is matches the reason, but not that the outcome is unknown: that is of the other one.
func (u *unsent) Is(target error) bool {
	return target != client.ErrUnknown && errors.Is(u.err, target)
}

// flush sends what is pending; the log's token is held. n is how many of it, from the first
// on, have arrived. The numbers of the others are used up unless it is certain that none of
// them is there: that an attempt had no effect says nothing of those before it.
func (t *Task) flush(ctx context.Context) (n int, err error) {
	u := t.pending
	if u == nil {
		return 0, nil
	}
	results, err := client.UpdateMany(ctx, t.client, t.claim.ID, t.claim.Token, client.Updates{Seq: t.next, Data: u.data, Output: u.output, Last: u.last})
	for n < len(results) && results[n].Err == nil {
		n++
	}
	if n < len(results) {
		err = results[n].Err
	}
	t.next += uint64(n)
	u.data = u.data[n:]
	for i := n; i < len(results); i++ {
		t.unsure = t.unsure || results[i].Err == nil || errors.Is(results[i].Err, client.ErrUnknown)
	}
	switch {
	case err == nil:
		t.pending = nil
	case errors.Is(err, client.ErrUnknown):
		t.unsure = true
	case !t.unsure, errors.Is(err, client.ErrInvalid): // no server has ever taken what it finds invalid
		t.pending = nil
	}
	return n, err
}

// seal sends what is pending and gives the number after the last update. ok is
// false when that is not certain.
func (t *Task) seal(ctx context.Context) (seq uint64, ok bool) {
	select {
	case t.log <- struct{}{}: // kept: no update comes after the end
	case <-ctx.Done():
		return 0, false
	}
	_, _ = t.flush(ctx) // either it is there, or not, or still pending
	return t.next, t.pending == nil
}
