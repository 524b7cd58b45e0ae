package cron

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

const (
	// askEvery is the pause between two looks at running tasks, and maxAsk how many
	// are asked about in one: news come by themselves, this is the net below, and
	// all of them come round in turn.
	askEvery = time.Second
	maxAsk   = 1000
)

// running is a launch whose task is not known to be finished.
type running struct {
	it      *item
	instant int64
}

// watch is the launches whose tasks run.
type watch struct {
	of   map[id.ID]running
	ring []id.ID // in the order in which they are asked about; may hold finished ones
	pos  int     // in ring
	at   int64   // mono ns of the next look
}

// Watches tells whether the end of a task is waited for.
func (m *Machine) Watches(task id.ID) bool {
	_, ok := m.watch.of[task]
	return ok
}

// replace takes over which tasks of a schedule run; r is nil when it is gone.
func (w *watch) replace(it *item, r *record, cluster [16]byte) {
	var tasks []id.ID
	if r != nil {
		add := func(task id.ID, instant int64) {
			if slices.Contains(tasks, task) {
				return
			}
			tasks = append(tasks, task)
			if _, known := w.of[task]; !known {
				w.ring = append(w.ring, task)
			}
			w.of[task] = running{it, instant}
		}
		for i := range r.history {
			if e := &r.history[i]; e.live() {
				add(taskOf(it, e.task, e.instant, cluster), e.instant)
			}
		}
		if last := &r.policy.Last; last.Status.Live() { // also when the history has forgotten it
			add(taskOf(it, id.ID{}, last.Instant, cluster), last.Instant)
		}
	}
	for _, task := range it.tasks {
		if !slices.Contains(tasks, task) {
			delete(w.of, task)
		}
	}
	it.tasks = tasks
}

// taskOf is the task of an entry.
func taskOf(it *item, task id.ID, instant int64, cluster [16]byte) id.ID {
	if task != (id.ID{}) {
		return task
	}
	return id.Launch(cluster, it.def.UUID, instant)
}

// next is when there is something to ask, mono ns.
func (w *watch) next() int64 {
	if len(w.of) == 0 {
		return clock.Never
	}
	return w.at
}

// ask gives the tasks whose turn it is.
func (w *watch) ask(now clock.Time) (out []id.ID) {
	if len(w.of) == 0 {
		w.ring, w.pos = nil, 0
		return nil
	}
	if now.Mono < w.at {
		return nil
	}
	w.at = now.Mono + int64(askEvery)
	if len(w.ring) > 2*len(w.of)+maxAsk { // most of it has finished
		rest := slices.Concat(w.ring[w.pos:], w.ring[:w.pos])
		w.ring, w.pos = slices.DeleteFunc(rest, func(t id.ID) bool { _, ok := w.of[t]; return !ok }), 0
	}
	for range min(len(w.ring), 4*maxAsk) {
		if w.pos >= len(w.ring) {
			w.pos = 0
		}
		task := w.ring[w.pos]
		w.pos++
		if _, ok := w.of[task]; !ok {
			continue
		}
		if out = append(out, task); len(out) >= min(maxAsk, len(w.of)) {
			break
		}
	}
	return out
}
