package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// conclude says what came of a task whose handler has returned.
func (w *Worker) conclude(j *job, err error, took time.Duration) {
	defer j.failed() // Run shall not end before that report
	cause := context.Cause(j.ctx)
	first := j.settle()
	if err == nil {
		err = j.task.fits()
	}
	switch {
	case err == nil:
		w.complete(j, took) // work that is done counts, however late
	case !first: // the task has failed already
	case context.Cause(j.claim) != nil:
		w.tell(Event{Kind: Lost, Task: j.task, Err: context.Cause(j.claim), Took: took})
	case errors.Is(cause, ErrShutdown), isUnable(err):
		w.release(j, err, took)
	case errors.Is(cause, ErrTimeout) && !steers(err):
		if !errors.Is(err, ErrTimeout) {
			err = errors.Join(ErrTimeout, err)
		}
		w.failed(j, err, took)
	default:
		w.failed(j, err, took)
	}
}

func steers(err error) bool {
	var s *steered
	return errors.As(err, &s)
}

// maxRetryIn is the longest that a task is put off. Nodes take no more, and with one
// message of a session they refuse all that come with it.
const maxRetryIn = proto.MaxRetryIn

// failed reports a failure, steered by its error.
func (w *Worker) failed(j *job, err error, took time.Duration) {
	o, kind := client.FailOptions{Error: err.Error()}, Failed
	var s *steered
	if errors.As(err, &s) {
		o.RetryIn, o.Discard, o.Uncounted, o.KeepAway = min(s.in, maxRetryIn), s.discard, s.snooze, s.away
		if s.snooze {
			kind = Snoozed
		}
	}
	ctx, cancel := w.reporting(j)
	defer cancel()
	state, told := w.from().report(ctx, j.task.claim.Ref(), outcome{failed: &o})
	if told == nil && o.KeepAway == 0 && w.cfg.ExitWhenEmpty && (state == nornv1.State_STATE_SCHEDULED || state == nornv1.State_STATE_READY) {
		w.mu.Lock()
		w.retries[j.task.ID()] = struct{}{}
		w.mu.Unlock()
	}
	w.reported(j, kind, err, told, took)
}

// reporting is a context for one report.
func (w *Worker) reporting(j *job) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(w.final, reportFor)
	if j.span == nil {
		return ctx, cancel
	}
	ctx, span := w.tel.settling(ctx, j.span, j.task)
	return ctx, func() {
		span.End()
		cancel()
	}
}

func (w *Worker) complete(j *job, took time.Duration) {
	ctx, cancel := w.reporting(j)
	defer cancel()
	var o outcome
	// A session holds the task in a slot until it has the report, so an update that is in
	// doubt is not tried for longer than a slot waits for one.
	short, stop := context.WithTimeout(ctx, slowReport)
	seq, certain := j.task.seal(short)
	stop()
	if certain {
		o.done.Seq = &seq
	}
	if r := j.task.result.Load(); r != nil {
		o.done.Result = *r
	}
	_, err := w.from().report(ctx, j.task.claim.Ref(), o)
	if errors.Is(err, client.ErrInvalid) { // doing it all again would end here again, and nobody would see why
		w.failed(j, fmt.Errorf("the completion was refused: %w", err), took)
		return
	}
	w.reported(j, Completed, nil, err, took)
}

// release gives a task back.
func (w *Worker) release(j *job, why error, took time.Duration) {
	j.settle() // it may be granted anew before the answer is here
	ctx, cancel := w.reporting(j)
	defer cancel()
	w.reported(j, Released, why, w.from().release(ctx, j.task.claim.Ref()), took)
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
