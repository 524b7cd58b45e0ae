package cron

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/schedule/policy"
)

const (
	// askEvery is the pause between two looks at running tasks, and maxAsk how many
	// are asked about in one: news come by themselves, this is the net below, and
	// all of them come round in turn.
	askEvery = time.Second
	maxAsk   = 1000
	// maxSeek is how many tasks are looked for among all replicas in one look: it
	// is about those that run for longer than gc-grace, or since before all was lost.
	maxSeek = 16
	// missing is how often nobody may know a task before it counts as forgotten:
	// one answer may be of a replica that is none any more.
	missing = 3
)

// running is a launch whose task is not known to be finished.
type running struct {
	it       *item
	instant  int64
	begun    int64 // wall ns
	enqueued bool  // a majority has it, or had
	missing  int   // how often nobody knew it
}

// watch is the launches whose tasks run.
//
// Invariant: ring has every task of the map, so that all are asked about in turn, whatever news
// got lost ([Audit]).
type watch struct {
	of   map[id.ID]running
	ring []id.ID // in the order in which they are asked about; may hold finished ones
	pos  int     // in ring
	old  int     // in ring: the next that may be forgotten
	at   int64   // mono ns of the next look
	// rebuilt is when the cluster began anew from a backup, all its nodes being lost,
	// wall ns; 0: never. Tasks of launches begun before may be lost with them.
	rebuilt int64
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
		add := func(task id.ID, instant, begun int64, status policy.Status) {
			if slices.Contains(tasks, task) {
				return
			}
			tasks = append(tasks, task)
			before, known := w.of[task]
			if !known {
				w.ring = append(w.ring, task)
			}
			w.of[task] = running{it, instant, begun, status == policy.Running, before.missing}
		}
		for i := range r.history {
			if e := &r.history[i]; e.live() {
				add(taskOf(it, e.task, e.instant, cluster), e.instant, e.begun, e.status)
			}
		}
		if last := &r.policy.Last; last.Status.Live() { // also when the history has forgotten it
			add(taskOf(it, id.ID{}, last.Instant, cluster), last.Instant, last.Begun, last.Status)
		}
	}
	for _, task := range it.doing().tasks {
		if !slices.Contains(tasks, task) {
			delete(w.of, task)
		}
	}
	it.run(tasks)
}

// taskOf is the task of an entry.
func taskOf(it *item, task id.ID, instant int64, cluster [16]byte) id.ID {
	if task != (id.ID{}) {
		return task
	}
	return id.Launch(cluster, it.entry.UUID, instant)
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
		w.ring, w.pos, w.old = nil, 0, 0
		return nil
	}
	if now.Mono < w.at {
		return nil
	}
	w.at = now.Mono + int64(askEvery)
	if len(w.ring) > 2*len(w.of)+maxAsk { // most of it has finished
		rest := slices.Concat(w.ring[w.pos:], w.ring[:w.pos])
		w.ring, w.pos = slices.DeleteFunc(rest, func(t id.ID) bool { _, ok := w.of[t]; return !ok }), 0
		w.old = 0
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

// mayBeGone tells whether the task of a launch may be there no more, though it is
// not known to have ended: one that is finished leaves a tombstone for gc-grace, which
// knows how it ended, and after that nothing; and what there was when a cluster began
// anew from a backup was lost.
func (w *watch) mayBeGone(now clock.Time, r *running, grace time.Duration) bool {
	return r.enqueued && (r.begun < w.rebuilt || grace > 0 && now.Wall-r.begun > int64(grace))
}

// seek gives tasks that may be gone. They come round in turn.
func (w *watch) seek(now clock.Time, grace time.Duration) (out []id.ID) {
	for range min(len(w.ring), 4*maxAsk) {
		if w.old >= len(w.ring) {
			w.old = 0
		}
		task := w.ring[w.old]
		w.old++
		if r, ok := w.of[task]; ok && w.mayBeGone(now, &r, grace) {
			if out = append(out, task); len(out) >= min(maxSeek, len(w.of)) {
				break
			}
		}
	}
	return out
}

// Forgotten tells that no majority of a task's cohort knows of it, in answer to
// Ready.Seek. A launch that was enqueued and is not there any more is finished:
// it would keep its schedule from the next one for ever where launches are not to
// overlap. How it ended is unknown, and is not made up.
func (m *Machine) Forgotten(now clock.Time, task id.ID) {
	r, ok := m.watch.of[task]
	if !ok || m.nonce == 0 || !m.watch.mayBeGone(now, &r, m.cfg.Grace) {
		return
	}
	if r.missing++; r.missing < missing {
		m.watch.of[task] = r
		return
	}
	note := "the task is finished and forgotten"
	if r.begun < m.watch.rebuilt {
		note = "the cluster began anew from a backup, and the task is not there"
	}
	m.conclude(now, task, policy.Unknown, note)
}
