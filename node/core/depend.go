package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// links holds tasks back until their dependencies are done (design 8). A task
// that waits is registered as an edge with each task it depends on; a task that
// finishes has its dependents told, in bounded steps, and remembers on disk
// that it has not told them all yet.
type links struct {
	c    *Core
	done []id.ID // finished tasks with dependencies: their edges go
	news []news  // finished tasks with dependents, by time
	told map[id.ID]bool
}

// news is a finished task whose dependents are being told.
type news struct {
	task id.ID
	last id.ID // the dependent that was told last
}

// maxTold bounds the dependents told in one round, so that a task with a
// million of them does not hold up everything else.
const maxTold = 500

// recover picks up what a crash has left in the middle.
func (l *links) recover() {
	for _, v := range l.c.vnodes {
		l.done = append(l.done, vnode.Leaving(l.c.tx, v.Partition)...)
		for _, task := range v.Edges.News(l.c.tx) {
			l.queue(task)
		}
	}
}

func (l *links) queue(task id.ID) {
	if l.told[task] {
		for i := range l.news { // it finished once more: begin again
			if l.news[i].task == task {
				l.news[i].last = id.ID{}
			}
		}
		return
	}
	l.told[task] = true
	l.news = append(l.news, news{task: task})
}

// finished hears from the vnodes that a task is finished.
func (l *links) finished(p ring.Partition, task id.ID, linked bool) {
	if linked {
		vnode.Leave(l.c.tx, p, task)
		l.done = append(l.done, task)
	}
	edges := l.c.vnodes[p].Edges
	if edges.Any(l.c.tx, task) {
		edges.Announce(l.c.tx, task)
		l.queue(task)
	}
}

// pending tells whether there is more to do at once. What becomes of dependents
// only a leader says.
func (l *links) pending() bool {
	return (len(l.news) > 0 || len(l.done) > 0) && l.c.Leading() == len(l.c.vnodes)
}

// work lets go of the edges of finished tasks and tells a bounded number of
// dependents.
func (l *links) work(now clock.Time) {
	budget := maxTold
	for l.c.fatal == nil && l.pending() {
		switch {
		case budget <= 0:
			return
		case len(l.done) > 0:
			budget -= 1 + l.release(l.done[0])
			if l.done = l.done[1:]; len(l.done) == 0 {
				l.done = nil
			}
		default:
			budget -= l.tell(now, &l.news[0], min(budget, 100))
		}
	}
}

// release drops the edges of a finished task and gives their number.
func (l *links) release(task id.ID) int {
	p := ring.Of(task, len(l.c.vnodes))
	vnode.Left(l.c.tx, p, task)
	t, err := vnode.LoadTask(l.c.tx, p, task)
	if !l.c.check(err) || t.Enqueued == nil || !t.Finished() {
		return 0
	}
	for _, dependency := range t.Enqueued.Dependencies {
		l.c.vnode(dependency).Edges.Drop(l.c.tx, dependency, task)
		vnode.Free(l.c.tx, p, task, dependency)
	}
	return len(t.Enqueued.Dependencies)
}

// tell tells up to n dependents of a finished task and gives what it cost.
func (l *links) tell(now clock.Time, n *news, limit int) int {
	task := n.task
	v := l.c.vnode(task)
	outcome, err := vnode.Outcome(l.c.tx, v.Partition, task)
	if !l.c.check(err) {
		return 1
	}
	var dependents []id.ID
	if outcome != crdt.StateUnknown { // it may have been retried meanwhile
		dependents = v.Edges.Of(l.c.tx, task, n.last, limit)
	}
	if len(dependents) < limit {
		v.Edges.Announced(l.c.tx, task)
		delete(l.told, task)
		l.news = slices.Delete(l.news, 0, 1)
	} else {
		n.last = dependents[len(dependents)-1]
	}
	for _, d := range dependents {
		l.resolve(now, d, task, outcome)
	}
	return 1 + len(dependents)
}

// resolve applies what became of a dependency to one dependent.
func (l *links) resolve(now clock.Time, task, dependency id.ID, outcome crdt.State) {
	v := l.c.vnode(task)
	if outcome != crdt.StateCompleted {
		t, err := vnode.LoadTask(l.c.tx, v.Partition, task)
		if !l.c.check(err) || !t.Waiting() || t.Finished() {
			return
		}
		switch t.Enqueued.OnDepFailure {
		case crdt.DepFailureCancel:
			l.fail(now, v, task, dependency)
			return
		case crdt.DepFailureWait:
			return // until it is retried, and completed
		}
	}
	if was, last := vnode.Unblock(l.c.tx, v.Partition, task, dependency); was && last {
		l.unblock(now, v, task)
	}
}

func (l *links) unblock(now clock.Time, v *vnode.Vnode, task id.ID) {
	_, err := v.Decide(l.c.tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) {
		return crdt.Unblocked{At: now.Wall}.Fact(task), t.Waiting()
	})
	l.c.check(err)
}

// fail cancels a task because of a dependency.
func (l *links) fail(now clock.Time, v *vnode.Vnode, task, dependency id.ID) {
	_, err := v.Decide(l.c.tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) {
		f := crdt.DependencyCancelled{Generation: t.Generation(), Dependency: dependency, At: now.Wall}
		return f.Fact(task), t.Waiting() && !t.Finished()
	})
	l.c.check(err)
}

// link registers a task that was just enqueued, or retried, with everything it
// depends on, and lets it go at once when nothing holds it back.
func (l *links) link(now clock.Time, task id.ID, spec *crdt.Enqueued) {
	v := l.c.vnode(task)
	t, err := vnode.LoadTask(l.c.tx, v.Partition, task)
	if !l.c.check(err) || t.Finished() {
		return
	}
	waiting, held := t.Waiting(), false
	for _, dependency := range spec.Dependencies {
		at := l.c.vnode(dependency)
		at.Edges.Add(l.c.tx, dependency, task)
		if !waiting {
			continue
		}
		outcome, err := vnode.Outcome(l.c.tx, at.Partition, dependency)
		if !l.c.check(err) {
			return
		}
		switch {
		case outcome == crdt.StateCompleted:
			continue
		case outcome != crdt.StateUnknown && spec.OnDepFailure == crdt.DepFailureRun:
			continue
		case outcome != crdt.StateUnknown && spec.OnDepFailure == crdt.DepFailureCancel:
			l.fail(now, v, task, dependency)
			return
		}
		vnode.Block(l.c.tx, v.Partition, task, dependency)
		held = true
	}
	if waiting && !held {
		l.unblock(now, v, task)
	}
}

// admit refuses dependencies that can never be completed: those older than the
// cluster remembers and not known here.
func (l *links) admit(now clock.Time, dependencies []id.ID) *proto.Error {
	for _, dependency := range dependencies {
		p := ring.Of(dependency, len(l.c.vnodes))
		if dependency.Kind() == id.KindTask && now.Wall-dependency.Nanos() > int64(l.c.cfg.GCGrace) && !vnode.Known(l.c.tx, p, dependency) {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND,
				"dependency %s is older than gc-grace (%v) and not known here: whether it was completed cannot be told any more", dependency, l.c.cfg.GCGrace)
		}
	}
	return nil
}
