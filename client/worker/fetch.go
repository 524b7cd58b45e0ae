package worker

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

const (
	// pollWait is one long wait for tasks.
	pollWait = 20 * time.Second
	// emptyPoll is one with ExitWhenEmpty, while something may still come.
	emptyPoll = 500 * time.Millisecond
	// retrySoon is how near a retry must be for ExitWhenEmpty to wait for it.
	retrySoon = time.Minute
	// afterError is the pause after a source failed altogether.
	afterError = time.Second
	// unled is how long ExitWhenEmpty waits for tasks that nobody hands out, or that
	// nobody knows of, before it says so, and again: a new leader needs less.
	unled = 15 * time.Second
)

// fetch takes tasks while there is room, until the worker stops. The error is
// one that no retry changes.
func (w *Worker) fetch(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // StopNow ends what runs, not the end of Run's context
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.stopped, cancel)()
	defer func() { w.from().close(ctx) }()
	var told time.Time // when it was last told, or begun, that tasks are left
	for !w.isStopping() {
		held, _ := w.room.left()
		d, freed, opened := w.room.demand(w.patience(held == 0))
		if len(d.queues) == 0 {
			var broken <-chan struct{}
			if b, is := w.from().(breaking); is {
				broken = b.broken()
			}
			select {
			case <-freed:
				continue
			case <-w.stopped.Done():
				continue
			case <-broken: // take says why
			}
		}
		if len(d.queues) == len(w.room.order) {
			opened = nil // none is left out
		}
		got, err := w.take(asking, d, opened)
		for _, g := range got {
			w.accept(ctx, g)
		}
		nothing := err == nil && len(got) == 0 && held == 0 && w.cfg.ExitWhenEmpty
		if !nothing {
			told = time.Time{}
		} else if told.IsZero() {
			told = time.Now()
		}
		switch {
		case nothing && !w.retriesDue(asking):
			left := w.left(asking)
			if left == nil || hopeless(left) {
				return left
			}
			if time.Since(told) >= unled && !w.isStopping() {
				told = time.Now()
				w.cfg.Logger.Warn("tasks are left, or may be, waiting for them", "reason", left)
			}
			w.nap(emptyPoll)
		case err == nil, w.isStopping():
		case errors.Is(err, errReopened):
		case errors.Is(err, errDrained):
			return nil
		case errors.Is(err, errNoSessions):
			w.ask()
		case hopeless(err):
			w.cfg.Logger.Error("cannot take tasks", "error", err)
			return err
		default:
			w.cfg.Logger.Warn("cannot take tasks, trying again", "error", err)
			w.nap(afterError/2 + rand.N(afterError))
		}
	}
	return nil
}

// errReopened is the cause of the end of a wait for tasks, because more queues
// can be asked now.
var errReopened = errors.New("a queue has room again")

// take asks the source, and gives up when the demand grows by a queue: its tasks
// must not wait for those of others.
func (w *Worker) take(ctx context.Context, d demand, opened <-chan struct{}) ([]granted, error) {
	if opened == nil {
		return w.from().take(ctx, d)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-opened:
			cancel(errReopened)
		case <-done:
		}
	}()
	got, err := w.from().take(ctx, d)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return got, err
}

// accept makes a job of what was granted, or gives it back when there is no place
// for it.
func (w *Worker) accept(ctx context.Context, g granted) {
	queue := g.Grant.GetTask().GetQueue()
	if !w.room.take(queue) {
		w.cfg.Logger.Warn("a task was granted that was not asked for", "task", g.ID, "queue", queue)
		ctx, cancel := context.WithTimeout(ctx, giveBackFor)
		defer cancel()
		if err := w.from().release(ctx, g.Ref()); err != nil {
			w.cfg.Logger.Warn("a claim could not be released and will lapse", "task", g.ID, "error", err)
		}
		return
	}
	j := w.adopt(ctx, g)
	if s, is := w.from().(stopping); is {
		s.stopMissed(g.Ref())
	}
	w.queue <- j
}

// patience is how long to wait for tasks.
func (w *Worker) patience(idle bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.cfg.ExitWhenEmpty:
		return pollWait
	case idle && len(w.retries) == 0:
		return 0
	}
	return emptyPoll
}

func (w *Worker) isStopping() bool { return w.stopped.Err() != nil }

// nap waits, or until the worker stops.
func (w *Worker) nap(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.stopped.Done():
	}
}

// hopeless lists the errors that no retry changes.
func hopeless(err error) bool {
	for _, e := range []error{
		client.ErrInvalid, client.ErrUnauthenticated, client.ErrPermissionDenied, client.ErrUnimplemented, client.ErrIncompatible, client.ErrClosed, ErrKilled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// left says why there may be tasks to hand out though nothing was granted; nil: there
// are none. While a partition has no leader, what it has is not handed out, and while
// none of its nodes is in reach, nobody knows what it has: neither is empty.
func (w *Worker) left(ctx context.Context) error {
	for _, name := range w.room.order {
		q, err := w.client.Queues().Get(ctx, name)
		switch {
		case errors.Is(err, client.ErrNotFound):
		case err != nil:
			return err
		case q.GetCount().GetReady() > 0 && !q.GetEffective().GetPaused() && !q.GetSettings().GetPaused():
			return fmt.Errorf("%d tasks of queue %s are ready, and not handed out", q.GetCount().GetReady(), name)
		}
	}
	return nil
}

// retriesDue tells whether a task that ran here will run again soon.
func (w *Worker) retriesDue(ctx context.Context) bool {
	w.mu.Lock()
	ids := make([]id.ID, 0, len(w.retries))
	for i := range w.retries { // Any order: each is asked for
		ids = append(ids, i)
	}
	w.mu.Unlock()
	due := false
	for _, i := range ids {
		t, err := w.client.Get(ctx, i)
		unknown := err != nil && !errors.Is(err, client.ErrNotFound) && !hopeless(err)
		soon := unknown || err == nil && (t.GetState() == nornv1.State_STATE_READY ||
			t.GetState() == nornv1.State_STATE_SCHEDULED && t.GetNotBefore().AsTime().Sub(w.client.Workers().Now()) < retrySoon)
		if soon {
			due = true
			continue
		}
		w.mu.Lock()
		delete(w.retries, i)
		w.mu.Unlock()
	}
	return due
}
