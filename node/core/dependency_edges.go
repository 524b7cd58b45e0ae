package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// edges holds tasks back until their dependencies are done (design 8). A task
// that waits is registered as an edge with each task it depends on; a task that
// finishes has its dependents told, in bounded steps, and remembers on disk
// that it has not told them all yet.
//
// Every replica keeps the edges of the tasks it keeps, and what holds them back;
// only the leader decides, and what it finds when it begins to lead it looks
// through. Of tasks that are kept elsewhere it asks there: see [remoteWatches] and [forgottenDependencies].
type edges struct {
	c     *Core
	done  []id.ID // finished tasks with dependencies: their edges go
	news  []news  // finished tasks with dependents, by time
	told  map[id.ID]bool
	looks []look // partitions that this node began to lead

	watches  *remoteWatches
	horizons *forgottenDependencies
	doubts   unconfirmedFailures
}

// news is a finished task whose dependents are being told.
type news struct {
	task    id.ID
	last    id.ID      // the dependent that was told last
	outcome crdt.State // of a task that is kept elsewhere; unknown: it is here
	sure    bool       // its leader has said so, as far as it has failed
}

// look goes through the waiting tasks of a partition.
type look struct {
	partition        ring.Partition
	task, dependency id.ID // looked at last
}

// maxTold bounds the dependents told in one round, so that a task with a
// million of them does not hold up everything else.
const maxTold = 500

// lookBatch bounds the dependents of a task that are looked at for whether it is needed.
const lookBatch = 64

// recover picks up what a crash has left in the middle.
func (l *edges) recover() {
	for _, v := range l.c.vnodes.Each() {
		l.done = append(l.done, vnode.Leaving(l.c.round.Tx, v.Partition)...)
		for _, task := range v.Edges.News(l.c.round.Tx) {
			l.queue(task)
		}
	}
}

func (l *edges) queue(task id.ID) { l.hear(task, crdt.StateUnknown) }

// hear has the dependents of a task told; outcome is unknown for one that is
// kept here. A completion is final: what comes after it was said before it.
func (l *edges) hear(task id.ID, outcome crdt.State) {
	if l.told[task] {
		for i := range l.news { // it finished once more: begin again
			if l.news[i].task != task {
				continue
			}
			if l.news[i].last = (id.ID{}); l.news[i].outcome != crdt.StateCompleted {
				l.news[i].outcome, l.news[i].sure = outcome, false
			}
		}
		return
	}
	l.told[task] = true
	l.news = append(l.news, news{task: task, outcome: outcome})
}

// confirmed has the dependents of a task that is kept here told, whose leader says how it
// has ended.
func (l *edges) confirmed(task id.ID) {
	l.queue(task)
	for i := range l.news {
		if l.news[i].task == task {
			l.news[i].sure = true
		}
	}
}

// began has the waiting tasks of a partition looked through that this node now
// leads: what became of their dependencies meanwhile nobody has acted on. Also by a
// node that is alone: it may be what is left of more.
func (l *edges) began(p ring.Partition) { l.looks = append(l.looks, look{partition: p}) }

// holds tells whether a task is kept here, so that what is here says how it
// ended.
func (l *edges) holds(task id.ID) bool {
	return l.c.view.Holder || slices.Contains(l.c.view.Cells[ring.Of(task, len(l.c.view.Cells))].Cohort, l.c.cfg.Self)
}

// Awaited tells whether a task that is kept here depends on one, or some may. Edges
// of tasks that were kept here until their partition was handed over go: nothing
// else drops them, and their dependencies would stay for ever. Their leader asks
// when it wants to know ([remoteWatches]).
func (l *edges) Awaited(v *vnode.Vnode, task id.ID) bool {
	dependents := v.Edges.Of(l.c.round.Tx, task, id.ID{}, lookBatch)
	for _, d := range dependents {
		p := l.c.vnode(d).Partition
		if l.holds(d) || !l.c.view.Deleting(p) && vnode.Known(l.c.round.Tx, p, d) {
			return true
		}
		v.Edges.Drop(l.c.round.Tx, task, d)
	}
	return len(dependents) == lookBatch // it is looked at again
}

// Needed tells whether an unfinished task depends on a finished one, or may.
func (l *edges) Needed(now clock.Time, v *vnode.Vnode, task id.ID) bool {
	return v.Edges.Any(l.c.round.Tx, task) && l.Awaited(v, task) || l.watches.needs.keep(now, v.Partition, task)
}

// WaitedFor tells whether a task that is kept here waits, or may, for one of which the
// tombstone is left, and for others: whoever comes to lead it has to find how this one
// has ended. Edges of tasks that are not kept here any more go, as in [edges.Awaited]: a
// member with many of them would never let the tombstone go.
func (l *edges) WaitedFor(v *vnode.Vnode, task id.ID) bool {
	if !l.Awaited(v, task) {
		return false
	}
	dependents := v.Edges.Of(l.c.round.Tx, task, id.ID{}, lookBatch)
	return len(dependents) == lookBatch || slices.ContainsFunc(dependents, func(d id.ID) bool {
		t, err := vnode.LoadTask(l.c.round.Tx, l.c.vnode(d).Partition, d)
		return l.c.round.Check(err) && t.Waiting() && !t.Finished()
	})
}

// Keeps tells whether what is left of a finished task has to stay for other nodes.
func (l *edges) Keeps(now clock.Time, p ring.Partition, task id.ID) bool {
	return l.watches.needs.keep(now, p, task)
}

// Named tells whether another node has said so.
func (l *edges) Named(now clock.Time, task id.ID) bool {
	return l.watches.needs.kept[task].until > now.Mono
}

// LedSince is since when this node leads a partition that others keep too, mono ns.
func (l *edges) LedSince(p ring.Partition) int64 { return l.watches.needs.led[p] }

// finished hears from the vnodes that a task is finished.
func (l *edges) finished(p ring.Partition, task id.ID, linked bool) {
	if linked {
		vnode.Leave(l.c.round.Tx, p, task)
		l.done = append(l.done, task)
	}
	l.watches.finished(task)
	l.c.crons.ended(task)
	edges := l.c.vnodes.Use(p).Edges
	if edges.Any(l.c.round.Tx, task) {
		edges.Announce(l.c.round.Tx, task)
		l.queue(task)
	}
}

// pending tells whether there is more to do at once. What becomes of dependents
// only a leader says, and a node that is alone leads everything in a moment.
func (l *edges) pending() bool {
	if len(l.news) == 0 && len(l.done) == 0 && len(l.looks) == 0 {
		return false
	}
	return !l.c.view.Alone || l.c.Leading() == len(l.c.view.Cells)
}

// work lets go of the edges of finished tasks and tells a bounded number of
// dependents.
func (l *edges) work(now clock.Time) {
	budget := maxTold
	for l.c.round.Fatal() == nil && l.pending() {
		switch {
		case budget <= 0:
			return
		case len(l.done) > 0:
			budget -= 1 + l.release(l.done[0])
			if l.done = l.done[1:]; len(l.done) == 0 {
				l.done = nil
			}
		case len(l.looks) > 0:
			budget -= l.look(now, &l.looks[0], min(budget, 100))
		default:
			budget -= l.tell(now, &l.news[0], min(budget, 100))
		}
	}
}

// unlink drops the edges of a task that does not depend on some tasks any more.
func (l *edges) unlink(task id.ID, dependencies []id.ID) {
	p := ring.Of(task, len(l.c.view.Cells))
	for _, dependency := range dependencies {
		l.c.vnode(dependency).Edges.Drop(l.c.round.Tx, dependency, task)
		vnode.Free(l.c.round.Tx, p, task, dependency)
	}
}

// release drops the edges of a finished task and gives their number.
func (l *edges) release(task id.ID) int {
	p := ring.Of(task, len(l.c.view.Cells))
	vnode.Left(l.c.round.Tx, p, task)
	t, err := vnode.LoadTask(l.c.round.Tx, p, task)
	if !l.c.round.Check(err) || t.Enqueued == nil || !t.Finished() {
		return 0
	}
	l.unlink(task, t.Enqueued.Dependencies)
	return len(t.Enqueued.Dependencies)
}

// tell tells up to n dependents of a finished task and gives what it cost.
func (l *edges) tell(now clock.Time, n *news, limit int) int {
	task := n.task
	v := l.c.vnode(task)
	outcome := n.outcome
	if outcome == crdt.StateUnknown {
		var err error
		if outcome, err = l.outcome(task); !l.c.round.Check(err) {
			return 1
		}
	}
	var dependents []id.ID
	if outcome != crdt.StateUnknown { // it may have been retried meanwhile
		dependents = v.Edges.Of(l.c.round.Tx, task, n.last, limit)
	}
	if l.hasty(n, outcome, dependents) { // it is queued again when its leader has said so; on disk it is announced until then
		delete(l.told, task)
		l.news = slices.Delete(l.news, 0, 1)
		return 1 + len(dependents)
	}
	if len(dependents) < limit {
		v.Edges.Announced(l.c.round.Tx, task)
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

// hasty tells whether a failure would be acted on here of which others may know that it was
// retried since: facts come late, and in any order.
func (l *edges) hasty(n *news, outcome crdt.State, dependents []id.ID) bool {
	if n.sure || n.outcome != crdt.StateUnknown || mutant.HastyFailure.On() {
		return false
	}
	decides := slices.ContainsFunc(dependents, func(d id.ID) bool { return l.c.vnode(d).Leading() != 0 })
	return decides && !l.doubts.stands(n.task, outcome)
}

// look goes through some waiting tasks and gives what it cost.
func (l *edges) look(now clock.Time, at *look, limit int) int {
	pairs := vnode.Waiting(l.c.round.Tx, at.partition, at.task, at.dependency, limit)
	if len(pairs) < limit || mutant.FirstLook.On() || l.c.vnodes.See(at.partition).Leading() == 0 {
		defer func() { l.looks = slices.Delete(l.looks, 0, 1) }()
	} else {
		at.task, at.dependency = pairs[len(pairs)-1].Task, pairs[len(pairs)-1].Dependency
	}
	for _, pair := range pairs {
		if !l.holds(pair.Dependency) {
			l.watches.anew(pair.Dependency)
			continue
		}
		outcome, err := l.outcome(pair.Dependency)
		if !l.c.round.Check(err) {
			return 1
		}
		l.doubts.anew(pair.Dependency)
		if outcome != crdt.StateUnknown && l.doubts.stands(pair.Dependency, outcome) {
			l.resolve(now, pair.Task, pair.Dependency, outcome)
		}
	}
	return 1 + len(pairs)
}

// resolve applies what became of a dependency to one dependent.
func (l *edges) resolve(now clock.Time, task, dependency id.ID, outcome crdt.State) {
	v := l.c.vnode(task)
	if v.Leading() == 0 {
		return // whoever leads says so; what holds it back is noted until then
	}
	if outcome != crdt.StateCompleted {
		t, err := vnode.LoadTask(l.c.round.Tx, v.Partition, task)
		if !l.c.round.Check(err) || !t.Waiting() || t.Finished() || !vnode.Blocks(l.c.round.Tx, v.Partition, task, dependency) {
			return // or it was told before that the dependency is completed, and waits for another one
		}
		switch t.Enqueued.OnDepFailure {
		case crdt.DepFailureCancel:
			l.fail(now, v, task, dependency)
			return
		case crdt.DepFailureWait:
			return // until it is retried, and completed
		}
	}
	if was, last := vnode.Unblock(l.c.round.Tx, v.Partition, task, dependency); was && last {
		l.unblock(now, v, task)
	}
}

func (l *edges) unblock(now clock.Time, v *vnode.Vnode, task id.ID) {
	_, err := v.Decide(l.c.round.Tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) {
		return crdt.Unblocked{At: l.c.standing.Clocks.Stamp(now, task)}.Fact(task), t.Waiting()
	})
	l.c.round.Check(err)
}

// fail cancels a task because of a dependency.
func (l *edges) fail(now clock.Time, v *vnode.Vnode, task, dependency id.ID) {
	_, err := v.Decide(l.c.round.Tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) {
		f := crdt.DependencyCancelled{Generation: t.Generation(), Dependency: dependency, At: l.c.standing.Clocks.Stamp(now, task)}
		does := t.Waiting() && !t.Finished()
		if does {
			decided(l.c, message.DecidedCancelled, endsNow(now, t))
		}
		return f.Fact(task), does
	})
	l.c.round.Check(err)
}

// link registers a task that was just enqueued, or retried, with everything it
// depends on, and lets it go at once when nothing holds it back.
func (l *edges) link(now clock.Time, task id.ID, spec *crdt.Enqueued) {
	v := l.c.vnode(task)
	t, err := vnode.LoadTask(l.c.round.Tx, v.Partition, task)
	if !l.c.round.Check(err) || t.Finished() {
		return
	}
	waiting, held, leads := t.Waiting(), false, v.Leading() != 0
	for _, dependency := range spec.Dependencies {
		at := l.c.vnode(dependency)
		at.Edges.Add(l.c.round.Tx, dependency, task)
		if !waiting {
			continue
		}
		if !leads || !l.holds(dependency) {
			vnode.Block(l.c.round.Tx, v.Partition, task, dependency)
			held = true
			switch {
			case leads:
				l.watches.anew(dependency)
			case l.c.view.Alone:
				l.remind(dependency)
			}
			continue
		}
		outcome, err := l.outcome(dependency)
		if !l.c.round.Check(err) {
			return
		}
		l.doubts.anew(dependency)
		switch {
		case !l.doubts.stands(dependency, outcome): // until that is known
		case outcome == crdt.StateCompleted || mutant.AbsentIsDone.On() && !vnode.Known(l.c.round.Tx, at.Partition, dependency):
			continue
		case outcome != crdt.StateUnknown && spec.OnDepFailure == crdt.DepFailureRun:
			continue
		case outcome != crdt.StateUnknown && spec.OnDepFailure == crdt.DepFailureCancel:
			l.fail(now, v, task, dependency)
			return
		}
		vnode.Block(l.c.round.Tx, v.Partition, task, dependency)
		held = true
	}
	if waiting && !held {
		l.unblock(now, v, task)
	}
}

// remind has the dependents of a task told again if it is finished. A node that
// is alone and does not lead yet does so in a moment; on its disk nothing waits for
// what is completed without a note of that.
func (l *edges) remind(dependency id.ID) {
	v := l.c.vnode(dependency)
	outcome, err := l.outcome(dependency)
	if l.c.round.Check(err) && outcome != crdt.StateUnknown {
		v.Edges.Announce(l.c.round.Tx, dependency)
		l.queue(dependency)
	}
}

// admit refuses dependencies that can never be completed: those older than the
// cluster remembers and not known here.
func (l *edges) admit(now clock.Time, dependencies []id.ID) *proto.Error {
	for _, dependency := range dependencies {
		p := ring.Of(dependency, len(l.c.view.Cells))
		if !l.holds(dependency) {
			continue // who keeps it is asked while the task waits: see [forgottenDependencies]
		}
		if made, ok := madeBy(dependency); ok && l.c.standing.Clocks.Wall(now)-made > int64(l.c.cfg.GCGrace) && !vnode.Known(l.c.round.Tx, p, dependency) {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND,
				"dependency %s is older than gc-grace (%v) and not known here: whether it was completed cannot be told any more", dependency, l.c.cfg.GCGrace)
		}
	}
	return nil
}
