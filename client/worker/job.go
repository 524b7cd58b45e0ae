package worker

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// job is a claim that is held.
//
// There are two contexts. claim ends when the claim is lost or about to be, or
// the task cancelled: nothing may be written for it any more. ctx, the handler's,
// ends then too, and also when the handler shall stop for other reasons: then
// there is still time to save a checkpoint.
type job struct {
	task  *Task
	grace time.Duration
	clock func() stamp
	claim context.Context
	lose  context.CancelCauseFunc
	ctx   context.Context
	end   context.CancelCauseFunc
	span  trace.Span // of the handler; nil before it runs

	mu      sync.Mutex // guards the fields below
	until   time.Time  // when claim ends: the deadline less the grace
	wall    time.Time  // the same on the other clocks
	boot    time.Duration
	timer   *time.Timer // ends claim then, whatever the network does
	settled bool        // what came of the task was told
}

// adopt makes a job of a claim.
func (w *Worker) adopt(ctx context.Context, g granted) *job {
	j := &job{grace: w.grace, clock: w.stamp}
	j.claim, j.lose = context.WithCancelCause(ctx)
	j.ctx, j.end = context.WithCancelCause(j.claim)
	j.task = newTask(w.client, g.Claim, j)
	j.extend(g.Deadline, g.before)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[j], w.byClaim[g.Ref()] = struct{}{}, j
	w.tel.holds(j.task.Queue(), 1)
	delete(w.retries, g.ID)
	if w.killed {
		j.end(ErrShutdown)
	}
	return j
}

// extend moves the end of the claim; it never comes nearer. Counted from before
// the request, so that a suspend in between, or a step of the wall clock, shows.
func (j *job) extend(deadline time.Time, before stamp) {
	until := deadline.Add(-j.grace)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !until.After(j.until) {
		return
	}
	lasts := until.Sub(before.at)
	j.until, j.wall, j.boot = until, before.wall.Add(lasts), before.boot+lasts
	if j.timer == nil {
		j.timer = time.AfterFunc(time.Until(until), j.expire)
	} else {
		j.timer.Reset(time.Until(until))
	}
}

// expire ends the claim unless it was extended meanwhile.
func (j *job) expire() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if left := time.Until(j.until); left > 0 {
		j.timer.Reset(left)
		return
	}
	j.lose(ErrClaimLost)
}

// left is how much time the claim has before its context ends, on the clock that
// says the least: monotonic, boot or wall. When nothing is left it ends the
// claim, before anything else can happen: a process that was frozen has timers
// that are late.
func (j *job) left() time.Duration {
	now := j.clock()
	j.mu.Lock()
	defer j.mu.Unlock()
	left := min(j.until.Sub(now.at), j.boot-now.boot, j.wall.Sub(now.wall))
	if left <= 0 {
		j.lose(ErrClaimLost)
	}
	return left
}

// valid is why nothing may be written for the task any more, or nil.
func (j *job) valid() error {
	if cause := context.Cause(j.claim); cause != nil {
		return cause
	}
	if j.left() <= 0 {
		return context.Cause(j.claim)
	}
	return nil
}

// settle is true for the first who tells what came of the task.
func (j *job) settle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.settled
	j.settled = true
	return first
}

// drop forgets a job. Its contexts end.
func (w *Worker) drop(j *job) {
	j.mu.Lock()
	j.timer.Stop()
	j.mu.Unlock()
	j.lose(nil)
	w.mu.Lock()
	delete(w.jobs, j)
	if w.byClaim[j.task.claim.Ref()] == j {
		delete(w.byClaim, j.task.claim.Ref())
	}
	w.mu.Unlock()
	w.from().over(j.task.claim.Ref())
	w.tel.holds(j.task.Queue(), -1)
	w.room.give(j.task.Queue())
}
