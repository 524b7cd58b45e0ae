package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	came  time.Time  // when it was granted, as far as this process knows
	lent  bool       // its room is given back; known once its report has ended

	mu      sync.Mutex // guards the fields below
	until   time.Time  // when claim ends: the deadline less the grace
	wall    time.Time  // the same on the other clocks
	boot    time.Duration
	timer   *time.Timer   // ends claim then, whatever the network does
	settled bool          // what came of the task was told
	failing chan struct{} // closed when the failure is reported of a handler that hung; nil: it did not
}

// adopt makes a job of a claim.
func (w *Worker) adopt(ctx context.Context, g granted) *job {
	j := &job{grace: w.grace, clock: w.stamp, came: time.Now()}
	j.claim, j.lose = context.WithCancelCause(ctx)
	j.ctx, j.end = context.WithCancelCause(j.claim)
	j.task = newTask(w.client, g.Claim, j)
	j.task.keep = func(line string) {
		if k, ok := w.from().(remembering); ok {
			k.remember(g.Ref(), line)
		}
	}
	j.task.began = func() { begun(w) }
	j.extend(g.Deadline, g.before)
	w.mu.Lock()
	w.jobs[j], w.byClaim[g.Ref()] = struct{}{}, j
	before := w.byTask[g.ID]
	w.byTask[g.ID] = j
	delete(w.retries, g.ID)
	if w.killed {
		j.end(ErrShutdown)
	}
	w.mu.Unlock()
	w.tel.holds(j.task.Queue(), 1) // what the program hears it may answer by a call
	j.alone(before, w.cfg.Logger, w.tel)
	return j
}

// alone raises an alarm when a task was granted anew while its claim from before
// is valid here and nobody has told what came of it: the same work would be done
// twice at once, which the servers promise never to let happen. The older claim
// is over then, for its token is lower.
func (j *job) alone(before *job, log *slog.Logger, tel *telemetry) {
	if before == nil || before.task.Token() == j.task.Token() || before.told() || before.valid() != nil {
		return
	}
	older, newer := before, j
	if older.task.Token() > newer.task.Token() {
		older, newer = newer, older
	}
	log.Error("a task was started twice: it was granted while another claim on it is valid; the older one ends",
		"task", j.task.ID().String(), "queue", j.task.Queue(), "older", older.task.Token(), "newer", newer.task.Token())
	tel.doubled(j.task.Queue())
	older.lose(ErrClaimLost)
}

// told tells whether it was told what came of the task.
func (j *job) told() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.settled
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

// errReturned is told to what a handler has left behind.
var errReturned = fmt.Errorf("%w: the handler has returned", ErrClaimLost)

// valid is why nothing may be written for the task any more, or nil.
func (j *job) valid() error {
	if cause := context.Cause(j.claim); errors.Is(cause, context.Canceled) {
		return errReturned
	} else if cause != nil {
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

// giveUp is settle for a handler that hangs. It gives what is to be closed when its failure
// is reported, nil when something was told already.
func (j *job) giveUp() chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.settled {
		return nil
	}
	j.settled, j.failing = true, make(chan struct{})
	return j.failing
}

// failed waits until the failure is reported of a handler that hung, if it did.
func (j *job) failed() {
	j.mu.Lock()
	failing := j.failing
	j.mu.Unlock()
	if failing != nil {
		<-failing
	}
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
	if w.byTask[j.task.ID()] == j {
		delete(w.byTask, j.task.ID())
	}
	w.mu.Unlock()
	w.from().over(j.task.claim.Ref())
	w.tel.holds(j.task.Queue(), -1)
	if j.lent {
		w.room.repay()
		return
	}
	w.room.give(j.task.Queue())
}
