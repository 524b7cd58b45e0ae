package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/norn-dev/norn/id"
)

const (
	// firstAway is for how long a task keeps away from this worker whose kind has no handler
	// here, while it is ready for all others; with each further time that it comes it is twice
	// as long, up to maxAway.
	firstAway = time.Minute
	maxAway   = time.Hour
	// firstOff is for how long a task is put off, for all workers, that comes all the same before
	// that is over, as a leader has forgotten it; up to maxOff.
	firstOff = 250 * time.Millisecond
	maxOff   = 30 * time.Second
	// maxAwayTasks bounds the tasks of which is known how often they came. Others are put off
	// by maxOff at once: there are so many that nobody may handle them.
	maxAwayTasks = 4096
	// awayTold is between two lines of the log about one kind, maxAwayKinds bounds the kinds.
	awayTold     = time.Minute
	maxAwayKinds = 1024
)

// away keeps tasks from a worker that has no handler for their kind.
type away struct {
	mu    sync.Mutex // guards the fields below
	tasks map[id.ID]awayTask
	told  map[string]time.Time // by kind, when the log last said so
}

type awayTask struct {
	away time.Duration
	off  time.Duration // it is put off; 0: others may have it at once
	at   time.Time     // when it came last
}

// HandleKind sets the handler of the tasks of a kind, whatever queue they come from: it goes
// before that of the queue. Of a worker with such handlers a task that has neither is given
// back, without using an attempt, so that others get it, and does not come here again for a
// while; the log says so once a minute.
func (w *Worker) HandleKind(kind string, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h == nil || kind == "" {
		delete(w.kinds, kind)
		return
	}
	w.kinds[kind] = sync.OnceValue(func() Handler { return wrapped(w, h) })
}

// JSON makes a handler of one that takes payloads that are JSON. A payload that is not a T is
// discarded: no retry can help it.
func JSON[T any](h func(ctx context.Context, t *Task, v T) error) Handler {
	return func(ctx context.Context, t *Task) error {
		var v T
		if err := json.Unmarshal(t.Payload(), &v); err != nil {
			return Discard(fmt.Errorf("payload is not the JSON expected: %w", err))
		}
		return h(ctx, t, v)
	}
}

// unhandled is the error of a task that has no handler here.
func unhandled(w *Worker, t *Task) error {
	w.mu.Lock()
	byKind := len(w.kinds) > 0
	w.mu.Unlock()
	if !byKind {
		return fmt.Errorf("no handler for queue %s", t.Queue())
	}
	err := fmt.Errorf("worker %s has no handler for tasks of kind %q in queue %s", w.cfg.Name, t.Kind(), t.Queue())
	one, tell := w.away.comes(t.ID(), t.Kind(), time.Now())
	if tell {
		w.cfg.Logger.Warn("there is no handler for a kind of task; it is given back, so that another worker gets it",
			"kind", t.Kind(), "queue", t.Queue(), "task", t.ID())
	}
	return &steered{err: err, in: max(one.off, time.Nanosecond), snooze: true, away: one.away}
}

// comes notes that a task has come, and gives for how long it keeps away or is put off, and
// whether the log is to say so.
func (a *away) comes(task id.ID, kind string, now time.Time) (one awayTask, tell bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tasks == nil {
		a.tasks, a.told = make(map[id.ID]awayTask), make(map[string]time.Time)
	}
	one, known := a.tasks[task]
	if known && now.Sub(one.at) < one.away {
		one.off = min(max(2*one.off, firstOff), maxOff)
	} else {
		one.off = 0
	}
	one.away = min(max(2*one.away, firstAway), maxAway)
	if one.at = now; !known && len(a.tasks) >= maxAwayTasks {
		for other, o := range a.tasks { // Any order: each by itself
			if now.Sub(o.at) >= 2*o.away {
				delete(a.tasks, other)
			}
		}
	}
	if known || len(a.tasks) < maxAwayTasks {
		a.tasks[task] = one
	} else {
		one.off = maxOff
	}
	last, said := a.told[kind]
	if said && now.Sub(last) < awayTold || !said && len(a.told) >= maxAwayKinds {
		return one, false
	}
	a.told[kind] = now
	return one, true
}
