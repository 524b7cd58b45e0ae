package worker

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// job is a claim that is held.
type job struct {
	task  *Task
	grace time.Duration
	ctx   context.Context
	end   context.CancelCauseFunc

	mu    sync.Mutex // guards the fields below
	until time.Time  // when ctx ends: the deadline less the grace
	boot  time.Duration
	timer *time.Timer // ends ctx then, whatever the network does
}

// stamp is a moment on the clocks of this process.
type stamp struct {
	at   time.Time
	boot time.Duration
}

func (w *Worker) stamp() stamp { return stamp{at: time.Now(), boot: w.boot()} }

// adopt makes a job of a claim. before was taken before it was asked for.
func (w *Worker) adopt(ctx context.Context, c *client.Claim, before stamp) *job {
	j := &job{task: newTask(w.client, c), grace: w.grace}
	j.ctx, j.end = context.WithCancelCause(ctx)
	j.extend(c.Deadline, before)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[j] = struct{}{}
	delete(w.retries, c.ID)
	if w.killed {
		j.end(ErrShutdown)
	}
	return j
}

// extend moves the end of the context; it never comes nearer. Counted from
// before the request, on the boot clock, so that a suspend in between shows.
func (j *job) extend(deadline time.Time, before stamp) {
	until := deadline.Add(-j.grace)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !until.After(j.until) {
		return
	}
	j.until, j.boot = until, before.boot+until.Sub(before.at)
	if j.timer == nil {
		j.timer = time.AfterFunc(time.Until(until), j.expire)
	} else {
		j.timer.Reset(time.Until(until))
	}
}

// expire ends the context unless it was extended meanwhile.
func (j *job) expire() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if left := time.Until(j.until); left > 0 {
		j.timer.Reset(left)
		return
	}
	j.end(ErrClaimLost)
}

// check ends the context when the boot or the wall clock says that it is time.
func (j *job) check(now stamp) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now.boot > j.boot || now.at.Round(0).After(j.until.Round(0)) {
		j.end(ErrClaimLost)
	}
}

// drop forgets a job. Its context ends.
func (w *Worker) drop(j *job) {
	j.mu.Lock()
	j.timer.Stop()
	j.mu.Unlock()
	j.end(nil)
	w.mu.Lock()
	delete(w.jobs, j)
	w.mu.Unlock()
	<-w.held
}

// dispatch gives slots to jobs in the order in which they were granted, which
// is that of their priority. It ends with the queue.
func (w *Worker) dispatch() {
	for j := range w.queue {
		if cause := w.slotFor(j); cause != nil {
			go w.returnUnused(j, cause)
			continue
		}
		go w.work(j)
	}
}

// slotFor waits for a slot. The error is why the job shall not begin.
func (w *Worker) slotFor(j *job) (cause error) {
	select {
	case w.slots <- struct{}{}:
	case <-w.soft:
		return ErrShutdown
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	}
	// Of several cases that are ready select takes any.
	switch {
	case w.isStopping():
		cause = ErrShutdown
	case j.ctx.Err() != nil:
		cause = context.Cause(j.ctx)
	}
	if cause != nil {
		<-w.slots
	}
	return cause
}

// returnUnused gives a task back that was not begun.
func (w *Worker) returnUnused(j *job, cause error) {
	defer w.drop(j)
	w.release(j, cause, 0)
}

// work runs the handler in a slot and reports.
func (w *Worker) work(j *job) {
	defer w.drop(j)
	defer func() { <-w.slots }()
	began := time.Now()
	w.tell(Event{Kind: Started, Task: j.task})
	err := errGoexit
	// Deferred, because a handler may end this goroutine.
	defer func() { w.report(j, err, time.Since(began)) }()
	err = call(w.handler(j.task.Queue()), j)
}

// call runs a handler; a panic is an error.
func call(h Handler, j *job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if h == nil {
		return errors.New("no handler for queue " + j.task.Queue())
	}
	return h(j.ctx, j.task)
}

// report tells the server what came of a task.
func (w *Worker) report(j *job, err error, took time.Duration) {
	cause := context.Cause(j.ctx)
	var s *steered
	switch {
	case err == nil:
		w.complete(j, took)
	case cause != nil && !errors.Is(cause, ErrShutdown):
		w.tell(Event{Kind: Lost, Task: j.task, Err: cause, Took: took})
	case cause != nil:
		w.release(j, err, took)
	case !errors.As(err, &s):
		w.fail(j, Failed, err, client.FailOptions{Error: err.Error()}, took)
	case s.snooze:
		w.fail(j, Snoozed, err, client.FailOptions{Error: err.Error(), RetryIn: s.in, Uncounted: true}, took)
	default:
		w.fail(j, Failed, err, client.FailOptions{Error: err.Error(), RetryIn: s.in, Discard: s.discard}, took)
	}
}

// reporting is a context for one report.
func (w *Worker) reporting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.final, reportFor)
}

func (w *Worker) complete(j *job, took time.Duration) {
	ctx, cancel := w.reporting()
	defer cancel()
	o := client.CompleteOptions{}
	if seq, ok := j.task.seal(ctx); ok {
		o.Seq = &seq
	}
	if r := j.task.result.Load(); r != nil {
		o.Result = *r
	}
	_, err := w.client.Complete(ctx, j.task.ID(), j.task.Token(), o)
	w.reported(j, Completed, nil, err, took)
}

func (w *Worker) fail(j *job, kind EventKind, why error, o client.FailOptions, took time.Duration) {
	ctx, cancel := w.reporting()
	defer cancel()
	state, err := w.client.Fail(ctx, j.task.ID(), j.task.Token(), o)
	if err == nil && w.cfg.ExitWhenEmpty && (state == nornv1.State_STATE_SCHEDULED || state == nornv1.State_STATE_READY) {
		w.mu.Lock()
		w.retries[j.task.ID()] = struct{}{}
		w.mu.Unlock()
	}
	w.reported(j, kind, why, err, took)
}

// release gives a task back.
func (w *Worker) release(j *job, why error, took time.Duration) {
	ctx, cancel := w.reporting()
	defer cancel()
	results, err := w.client.Release(ctx, j.task.claim.Ref())
	if err == nil {
		err = results[0].Err
	}
	w.reported(j, Released, why, err, took)
}

// reported tells of a report that was made or failed.
func (w *Worker) reported(j *job, kind EventKind, why, err error, took time.Duration) {
	switch {
	case err == nil:
	case errors.Is(err, client.ErrClaimLost), errors.Is(err, client.ErrNotFound):
		kind, why = Lost, err
	default:
		w.cfg.Logger.Error("what came of a task could not be reported", "task", j.task.ID(), "report", string(kind), "error", err)
		kind, why = Unreported, errors.Join(err, why)
	}
	w.tell(Event{Kind: kind, Task: j.task, Err: why, Took: took})
}
