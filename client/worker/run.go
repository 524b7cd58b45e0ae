package worker

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/norn-dev/norn/session"
)

// TimeoutHeader is the header of a task that says how long a handler may work on
// it, as in "90s": it counts instead of what the worker says. What is no duration
// over zero is logged and does not count.
const TimeoutHeader = "norn-timeout"

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

// errTooLate is why a task is given back whose claim would end too soon.
var errTooLate = errors.New("too little of the lease is left to begin")

// errLate is why a task is given back that was claimed ahead: others may have a slot.
var errLate = errors.New("no slot got free in time")

// errNoSlot is why a task is given back that waits for a slot: nobody can tell when there is one.
var errNoSlot = errors.New("all slots are taken by handlers that do not return")

// slotFor waits for a slot. The error is why the job shall not begin.
func (w *Worker) slotFor(j *job) (cause error) {
	var late <-chan time.Time
	if w.room.adapts && w.from() == source(w.direct) && len(w.slots) == cap(w.slots) { // a session gives no more than there are slots
		t := time.NewTimer(time.Until(j.came.Add(session.AheadFor)))
		defer t.Stop()
		late = t.C
	}
	select {
	case w.slots <- struct{}{}:
	case <-late:
		w.room.late()
		return errLate
	case <-w.room.jam():
		return errNoSlot
	case <-w.stopped.Done():
		return ErrShutdown
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	}
	// Of several cases that are ready select takes any.
	switch {
	case w.isStopping():
		cause = ErrShutdown
	case resting(w):
		cause = errResting
	case j.left() < w.cfg.MinLease && j.ctx.Err() == nil:
		cause = errTooLate
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
	leave := sync.OnceFunc(func() { <-w.slots })
	defer leave()
	began := time.Now()
	w.tell(Event{Kind: Started, Task: j.task})
	ctx, span := w.tel.begin(j.ctx, j.task, began)
	j.span = span
	unlimit := w.limit(j)
	unwatch := w.watchReturn(j, began)
	err := errGoexit
	// Deferred, because a handler may end this goroutine.
	defer func() {
		took := time.Since(began)
		w.room.ran(took)
		unlimit()
		unwatch()
		w.tel.returned(j.ctx, span, j.task, err, context.Cause(j.ctx))
		defer lend(w, j, leave)()
		if isUnable(err) {
			rest(w, err) // before the task is given back, or it would come here again
		} else {
			begun(w)
		}
		w.conclude(j, err, took)
	}()
	err = call(ctx, handlerOf(w), j.task)
}

// slowReport is after what time a task whose handler has returned takes no slot any more
// though what came of it is not acknowledged.
const slowReport = time.Second

// lend has the slot and the room of a task go to another one when its report takes long:
// the copies of one partition may be away for minutes, and those of others be there. A task
// that is handed to this worker would wait for that under its claim, and no other worker
// could have it. The function it returns ends that; then it is known whether they did.
func lend(w *Worker, j *job, leave func()) func() {
	var once sync.Once
	t := time.AfterFunc(slowReport, func() {
		once.Do(func() {
			if j.lent = w.room.lend(j.task.Queue()); j.lent {
				leave()
			}
		})
	})
	return func() {
		t.Stop()
		once.Do(func() {})
	}
}

// handlerOf runs the handler of a task's kind or queue; middleware may panic too.
func handlerOf(w *Worker) Handler {
	return func(ctx context.Context, t *Task) error {
		h := w.handler(t)
		if h == nil {
			return unhandled(w, t)
		}
		return h(ctx, t)
	}
}

// call runs a handler; a panic is an error. So is that of an error which cannot be
// looked at, a nil pointer as a rule: later it would end the process, and with it all
// other tasks.
func call(ctx context.Context, h Handler, t *Task) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if err = h(ctx, t); err != nil {
		_, _ = err.Error(), steers(err)
	}
	return err
}

// limit ends the handler's context when its time is over. The function it returns
// ends the limit.
func (w *Worker) limit(j *job) func() {
	d := timeoutOf(w, j.task)
	if d <= 0 {
		return func() {}
	}
	t := time.AfterFunc(d, func() { j.end(ErrTimeout) })
	return func() { t.Stop() }
}

// timeoutOf is how long a handler may work on a task, 0: as long as it likes.
func timeoutOf(w *Worker, t *Task) time.Duration {
	if text, ok := t.Headers()[TimeoutHeader]; ok {
		d, err := time.ParseDuration(text)
		if err == nil && d > 0 {
			return d
		}
		w.cfg.Logger.Warn("a task's time-out makes no sense", "task", t.ID(), "header", TimeoutHeader, "value", text)
	}
	if d := w.cfg.PerQueue[t.Queue()].Timeout; d != 0 {
		return d
	}
	return w.cfg.Timeout
}

// watchReturn sees to it that a handler that does not return in time after the
// end of its context is noticed. The function it returns ends the watch.
func (w *Worker) watchReturn(j *job, began time.Time) func() {
	returned := make(chan struct{})
	unlink := context.AfterFunc(j.ctx, func() {
		t := time.NewTimer(w.cfg.Grace)
		defer t.Stop()
		select {
		case <-t.C:
			w.abandon(j, time.Since(began))
			<-returned
			hang(w, j, false)
			w.tel.unstuck(j.task.Queue())
		case <-returned:
		}
	})
	return func() {
		unlink()
		close(returned)
	}
}

// abandon tells of a handler that does not return although its context has ended.
// Its slot is taken until it does. A task whose time is over fails all the same:
// a handler that hangs must not keep it for ever.
func (w *Worker) abandon(j *job, took time.Duration) {
	cause := context.Cause(j.ctx)
	w.cfg.Logger.Warn("a handler does not return although its context has ended; its slot is lost until it does",
		"task", j.task.ID(), "queue", j.task.Queue(), "cause", cause)
	w.tell(Event{Kind: Stuck, Task: j.task, Err: cause, Took: took})
	hang(w, j, true)
	if !errors.Is(cause, ErrTimeout) {
		return
	}
	if failing := j.giveUp(); failing != nil {
		go func() { // it may take minutes, and the handler be back by then
			defer close(failing)
			w.failed(j, ErrTimeout, took)
		}()
	}
}

// hang has the slot of a handler that does not return count as lost, or as there again.
func hang(w *Worker, j *job, lost bool) {
	n := 1
	if !lost {
		n = -1
	}
	w.room.hang(n)
	if s, is := w.from().(counting); is {
		s.stuck(j.task.claim.Ref(), lost)
	}
}
