package dependency

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

// Machine holds tasks back until their dependencies are done (design 8). A task
// that waits is registered as an edge with each task it depends on; a task that
// finishes has its dependents told, in bounded steps, and remembers on disk
// that it has not told them all yet.
//
// Every replica keeps the edges of the tasks it keeps, and what holds them back;
// only the leader decides, and what it finds when it begins to lead it looks
// through. Of tasks that are kept elsewhere it asks there: see [Watches] and [Forgotten].
type Machine struct {
	Env
	// News are finished tasks with dependents, by time, and Told says which.
	// Invariant: Told has exactly the tasks of News.
	News []News
	Told map[id.ID]bool
	// Watches, Forgotten and Unconfirmed are what it does about tasks that others keep.
	Watches     *Watches
	Forgotten   *Forgotten
	Unconfirmed Unconfirmed

	// Invariant: a task is in done only while the note of its leaving is on disk:
	// [Machine.Recover] reads those that a crash has interrupted.
	done []id.ID // finished tasks with dependencies: their edges go
	// Invariant: a partition is looked through from its beginning each time that this node
	// comes to lead it. What became of dependencies before that nobody has acted on (mutant
	// FirstLook).
	looks []look // partitions that this node began to lead
}

// New makes the machine of a process; number is drawn: answers to the process before this one
// match nothing.
func New(env Env, number uint64) *Machine {
	m := &Machine{Env: env, Told: make(map[id.ID]bool)}
	m.Watches, m.Forgotten = newWatches(m, number), newForgotten(m)
	m.Unconfirmed = Unconfirmed{m: m, All: make(map[id.ID]Failure)}
	return m
}

// vnode is the partition of a task.
func (m *Machine) vnode(task id.ID) *vnode.Vnode {
	return m.Partitions.Use(ring.Of(task, len(m.View.Cells)))
}

// News is a finished task whose dependents are being told.
type News struct {
	Task    id.ID
	Last    id.ID      // the dependent that was told last
	Outcome crdt.State // of a task that is kept elsewhere; unknown: it is here
	Sure    bool       // its leader has said so, as far as it has failed
}

// look goes through the waiting tasks of a partition.
type look struct {
	partition        ring.Partition
	task, dependency id.ID // looked at last
}

// MaxTold bounds the dependents told in one round, so that a task with a
// million of them does not hold up everything else.
const MaxTold = 500

// LookBatch bounds the dependents of a task that are looked at for whether it is needed.
const LookBatch = 64

// Recover picks up what a crash has left in the middle.
func (m *Machine) Recover() {
	for _, v := range m.Partitions.Each() {
		m.done = append(m.done, vnode.Leaving(m.Round.Tx, v.Partition)...)
		for _, task := range v.Edges.News(m.Round.Tx) {
			m.Queue(task)
		}
	}
}

// Queue has the dependents of a task told that is kept here.
func (m *Machine) Queue(task id.ID) { m.Hear(task, crdt.StateUnknown) }

// Hear has the dependents of a task told; outcome is unknown for one that is
// kept here. A completion is final: what comes after it was said before it.
func (m *Machine) Hear(task id.ID, outcome crdt.State) {
	if m.Told[task] {
		for i := range m.News { // it finished once more: begin again
			if m.News[i].Task != task {
				continue
			}
			if m.News[i].Last = (id.ID{}); m.News[i].Outcome != crdt.StateCompleted {
				m.News[i].Outcome, m.News[i].Sure = outcome, false
			}
		}
		return
	}
	m.Told[task] = true
	m.News = append(m.News, News{Task: task, Outcome: outcome})
}

// Confirmed has the dependents of a task that is kept here told, whose leader says how it
// has ended.
func (m *Machine) Confirmed(task id.ID) {
	m.Queue(task)
	for i := range m.News {
		if m.News[i].Task == task {
			m.News[i].Sure = true
		}
	}
}

// Won notes that this node leads a partition from now on.
func (m *Machine) Won(now clock.Time, p ring.Partition) {
	m.Began(p)
	m.Watches.Needs.began(now, p)
}

// Began has the waiting tasks of a partition looked through that this node now
// leads: what became of their dependencies meanwhile nobody has acted on. Also by a
// node that is alone: it may be what is left of more.
func (m *Machine) Began(p ring.Partition) { m.looks = append(m.looks, look{partition: p}) }

// Holds tells whether a task is kept here, so that what is here says how it
// ended.
func (m *Machine) Holds(task id.ID) bool {
	return m.View.Holder || slices.Contains(m.View.Cells[ring.Of(task, len(m.View.Cells))].Cohort, m.Self)
}

// Awaited tells whether a task that is kept here depends on one, or some may. Edges
// of tasks that were kept here until their partition was handed over go: nothing
// else drops them, and their dependencies would stay for ever. Their leader asks
// when it wants to know ([Watches]).
func (m *Machine) Awaited(v *vnode.Vnode, task id.ID) bool {
	dependents := v.Edges.Of(m.Round.Tx, task, id.ID{}, LookBatch)
	for _, d := range dependents {
		p := m.vnode(d).Partition
		if m.Holds(d) || !m.View.Deleting(p) && vnode.Known(m.Round.Tx, p, d) {
			return true
		}
		v.Edges.Drop(m.Round.Tx, task, d)
	}
	return len(dependents) == LookBatch // it is looked at again
}

// Needed tells whether an unfinished task depends on a finished one, or may.
//
// A true answer may be wrong and is safe: the task stays, and is asked about again with the
// next pass of the collector. A false one must be right, since what is collected does not come
// back.
func (m *Machine) Needed(now clock.Time, v *vnode.Vnode, task id.ID) bool {
	return v.Edges.Any(m.Round.Tx, task) && m.Awaited(v, task) || m.Watches.Needs.keep(now, v.Partition, task)
}

// WaitedFor tells whether a task that is kept here waits, or may, for one of which the
// tombstone is left, and for others: whoever comes to lead it has to find how this one
// has ended. Edges of tasks that are not kept here any more go, as in [Machine.Awaited]: a
// member with many of them would never let the tombstone go.
func (m *Machine) WaitedFor(v *vnode.Vnode, task id.ID) bool {
	if !m.Awaited(v, task) {
		return false
	}
	dependents := v.Edges.Of(m.Round.Tx, task, id.ID{}, LookBatch)
	return len(dependents) == LookBatch || slices.ContainsFunc(dependents, func(d id.ID) bool {
		t, err := vnode.LoadTask(m.Round.Tx, m.vnode(d).Partition, d)
		return m.Round.Check(err) && t.Waiting() && !t.Finished()
	})
}

// Keeps tells whether what is left of a finished task has to stay for other nodes.
func (m *Machine) Keeps(now clock.Time, p ring.Partition, task id.ID) bool {
	return m.Watches.Needs.keep(now, p, task)
}

// Named tells whether another node has said so.
func (m *Machine) Named(now clock.Time, task id.ID) bool {
	return m.Watches.Needs.Kept[task].Until > now.Mono
}

// LedSince is since when this node leads a partition that others keep too, mono ns.
func (m *Machine) LedSince(p ring.Partition) int64 { return m.Watches.Needs.Led[p] }

// Finished hears from the vnodes that a task is finished.
func (m *Machine) Finished(p ring.Partition, task id.ID, linked bool) {
	if linked {
		vnode.Leave(m.Round.Tx, p, task)
		m.done = append(m.done, task)
	}
	m.Watches.finished(task)
	m.Others.Ended(task)
	edges := m.Partitions.Use(p).Edges
	if edges.Any(m.Round.Tx, task) {
		edges.Announce(m.Round.Tx, task)
		m.Queue(task)
	}
}

// Pending tells whether there is more to do at once. What becomes of dependents
// only a leader says, and a node that is alone leads everything in a moment.
func (m *Machine) Pending() bool {
	if len(m.News) == 0 && len(m.done) == 0 && len(m.looks) == 0 {
		return false
	}
	return !m.View.Alone || m.Partitions.Led() == len(m.View.Cells)
}

// Due is when it wants to be called, mono ns; 0: at once.
func (m *Machine) Due() int64 {
	if m.Pending() {
		return 0
	}
	return min(m.Watches.At, m.Unconfirmed.Due(), m.Forgotten.At)
}

// Work lets go of the edges of finished tasks and tells a bounded number of
// dependents.
//
// It does at most about [MaxTold] steps, and the rest in the next round: a task with 100,000
// dependents keeps nobody waiting.
func (m *Machine) Work(now clock.Time) {
	budget := MaxTold
	for m.Round.Fatal() == nil && m.Pending() {
		switch {
		case budget <= 0:
			return
		case len(m.done) > 0:
			budget -= 1 + m.release(m.done[0])
			if m.done = m.done[1:]; len(m.done) == 0 {
				m.done = nil
			}
		case len(m.looks) > 0:
			budget -= m.look(now, &m.looks[0], min(budget, 100))
		default:
			budget -= m.tell(now, &m.News[0], min(budget, 100))
		}
	}
}

// Unlink drops the edges of a task that does not depend on some tasks any more.
func (m *Machine) Unlink(task id.ID, dependencies []id.ID) {
	p := ring.Of(task, len(m.View.Cells))
	for _, dependency := range dependencies {
		m.vnode(dependency).Edges.Drop(m.Round.Tx, dependency, task)
		vnode.Free(m.Round.Tx, p, task, dependency)
	}
}

// release drops the edges of a finished task and gives their number.
func (m *Machine) release(task id.ID) int {
	p := ring.Of(task, len(m.View.Cells))
	vnode.Left(m.Round.Tx, p, task)
	t, err := vnode.LoadTask(m.Round.Tx, p, task)
	if !m.Round.Check(err) || t.Enqueued == nil || !t.Finished() {
		return 0
	}
	m.Unlink(task, t.Enqueued.Dependencies)
	return len(t.Enqueued.Dependencies)
}

// tell tells up to n dependents of a finished task and gives what it cost.
func (m *Machine) tell(now clock.Time, n *News, limit int) int {
	task := n.Task
	v := m.vnode(task)
	outcome := n.Outcome
	if outcome == crdt.StateUnknown {
		var err error
		if outcome, err = m.Outcome(task); !m.Round.Check(err) {
			return 1
		}
	}
	var dependents []id.ID
	if outcome != crdt.StateUnknown { // it may have been retried meanwhile
		dependents = v.Edges.Of(m.Round.Tx, task, n.Last, limit)
	}
	if m.hasty(n, outcome, dependents) { // it is queued again when its leader has said so; on disk it is announced until then
		delete(m.Told, task)
		m.News = slices.Delete(m.News, 0, 1)
		return 1 + len(dependents)
	}
	if len(dependents) < limit {
		v.Edges.Announced(m.Round.Tx, task)
		delete(m.Told, task)
		m.News = slices.Delete(m.News, 0, 1)
	} else {
		n.Last = dependents[len(dependents)-1]
	}
	for _, d := range dependents {
		m.resolve(now, d, task, outcome)
	}
	return 1 + len(dependents)
}

// hasty tells whether a failure would be acted on here of which others may know that it was
// retried since: facts come late, and in any order.
func (m *Machine) hasty(n *News, outcome crdt.State, dependents []id.ID) bool {
	if n.Sure || n.Outcome != crdt.StateUnknown || m.Policy.HastyFailure {
		return false
	}
	decides := slices.ContainsFunc(dependents, func(d id.ID) bool { return m.vnode(d).Leading() != 0 })
	return decides && !m.Unconfirmed.Stands(n.Task, outcome)
}

// look goes through some waiting tasks and gives what it cost.
func (m *Machine) look(now clock.Time, at *look, limit int) int {
	pairs := vnode.Waiting(m.Round.Tx, at.partition, at.task, at.dependency, limit)
	if len(pairs) < limit || m.Policy.FirstLook || m.Partitions.See(at.partition).Leading() == 0 {
		defer func() { m.looks = slices.Delete(m.looks, 0, 1) }()
	} else {
		at.task, at.dependency = pairs[len(pairs)-1].Task, pairs[len(pairs)-1].Dependency
	}
	for _, pair := range pairs {
		if !m.Holds(pair.Dependency) {
			m.Watches.anew(pair.Dependency)
			continue
		}
		outcome, err := m.Outcome(pair.Dependency)
		if !m.Round.Check(err) {
			return 1
		}
		m.Unconfirmed.anew(pair.Dependency)
		if outcome != crdt.StateUnknown && m.Unconfirmed.Stands(pair.Dependency, outcome) {
			m.resolve(now, pair.Task, pair.Dependency, outcome)
		}
	}
	return 1 + len(pairs)
}

// resolve applies what became of a dependency to one dependent.
func (m *Machine) resolve(now clock.Time, task, dependency id.ID, outcome crdt.State) {
	v := m.vnode(task)
	if v.Leading() == 0 {
		return // whoever leads says so; what holds it back is noted until then
	}
	if outcome != crdt.StateCompleted {
		t, err := vnode.LoadTask(m.Round.Tx, v.Partition, task)
		if !m.Round.Check(err) || !t.Waiting() || t.Finished() || !vnode.Blocks(m.Round.Tx, v.Partition, task, dependency) {
			return // or it was told before that the dependency is completed, and waits for another one
		}
		switch t.Enqueued.OnDepFailure {
		case crdt.DepFailureCancel:
			m.fail(now, v, task, dependency)
			return
		case crdt.DepFailureWait:
			return // until it is retried, and completed
		}
	}
	if was, last := vnode.Unblock(m.Round.Tx, v.Partition, task, dependency); was && last {
		m.unblock(now, v, task)
	}
}

// unblock makes a task ready, as its leader, with a fact that all replicas take over.
func (m *Machine) unblock(now clock.Time, v *vnode.Vnode, task id.ID) {
	_, err := v.Decide(m.Round.Tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) {
		return crdt.Unblocked{At: m.Times.Stamp(now, task)}.Fact(task), t.Waiting()
	})
	m.Round.Check(err)
}

// fail cancels a task because of a dependency.
func (m *Machine) fail(now clock.Time, v *vnode.Vnode, task, dependency id.ID) {
	_, err := v.Decide(m.Round.Tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) {
		f := crdt.DependencyCancelled{Generation: t.Generation(), Dependency: dependency, At: m.Times.Stamp(now, task)}
		does := t.Waiting() && !t.Finished()
		if does {
			m.Others.Cancelled(now, t)
		}
		return f.Fact(task), does
	})
	m.Round.Check(err)
}

// Link registers a task that was just enqueued, or retried, with everything it
// depends on, and lets it go at once when nothing holds it back.
func (m *Machine) Link(now clock.Time, task id.ID, spec *crdt.Enqueued) {
	v := m.vnode(task)
	t, err := vnode.LoadTask(m.Round.Tx, v.Partition, task)
	if !m.Round.Check(err) || t.Finished() {
		return
	}
	waiting, held, leads := t.Waiting(), false, v.Leading() != 0
	for _, dependency := range spec.Dependencies {
		at := m.vnode(dependency)
		at.Edges.Add(m.Round.Tx, dependency, task)
		if !waiting {
			continue
		}
		if !leads || !m.Holds(dependency) {
			vnode.Block(m.Round.Tx, v.Partition, task, dependency)
			held = true
			switch {
			case leads:
				m.Watches.anew(dependency)
			case m.View.Alone:
				m.remind(dependency)
			}
			continue
		}
		outcome, err := m.Outcome(dependency)
		if !m.Round.Check(err) {
			return
		}
		m.Unconfirmed.anew(dependency)
		switch {
		case !m.Unconfirmed.Stands(dependency, outcome): // until that is known
		case outcome == crdt.StateCompleted || m.Policy.AbsentIsDone && !vnode.Known(m.Round.Tx, at.Partition, dependency):
			continue
		case outcome != crdt.StateUnknown && spec.OnDepFailure == crdt.DepFailureRun:
			continue
		case outcome != crdt.StateUnknown && spec.OnDepFailure == crdt.DepFailureCancel:
			m.fail(now, v, task, dependency)
			return
		}
		vnode.Block(m.Round.Tx, v.Partition, task, dependency)
		held = true
	}
	if waiting && !held {
		m.unblock(now, v, task)
	}
}

// remind has the dependents of a task told again if it is finished. A node that
// is alone and does not lead yet does so in a moment; on its disk nothing waits for
// what is completed without a note of that.
func (m *Machine) remind(dependency id.ID) {
	v := m.vnode(dependency)
	outcome, err := m.Outcome(dependency)
	if m.Round.Check(err) && outcome != crdt.StateUnknown {
		v.Edges.Announce(m.Round.Tx, dependency)
		m.Queue(dependency)
	}
}

// Admit refuses dependencies that can never be completed: those older than the
// cluster remembers and not known here.
//
// The error is NOT_FOUND and names the dependency. A dependency that is merely unknown is
// admitted: it may be enqueued later, and the task waits for it.
func (m *Machine) Admit(now clock.Time, dependencies []id.ID) *proto.Error {
	for _, dependency := range dependencies {
		p := ring.Of(dependency, len(m.View.Cells))
		if !m.Holds(dependency) {
			continue // who keeps it is asked while the task waits: see [Forgotten]
		}
		if made, ok := madeBy(dependency); ok && m.Times.Wall(now)-made > int64(m.GCGrace) && !vnode.Known(m.Round.Tx, p, dependency) {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND,
				"dependency %s is older than gc-grace (%v) and not known here: whether it was completed cannot be told any more", dependency, m.GCGrace)
		}
	}
	return nil
}

// Outcome is how a task has ended by what is here: unknown, too, while its
// partition is being deleted, because what is left of its facts may say anything.
func (m *Machine) Outcome(task id.ID) (crdt.State, error) {
	p := ring.Of(task, len(m.View.Cells))
	if m.View.Deleting(p) {
		return crdt.StateUnknown, nil
	}
	return vnode.Outcome(m.Round.Tx, p, task)
}

// Obstacle is a dependency that would have the task cancelled again at once.
func (m *Machine) Obstacle(t *crdt.Task) (id.ID, bool) {
	if t.Enqueued.OnDepFailure != crdt.DepFailureCancel {
		return id.ID{}, false
	}
	for _, dependency := range t.Enqueued.Dependencies {
		o, err := m.Outcome(dependency)
		if !m.Round.Check(err) {
			return id.ID{}, false
		}
		if o != crdt.StateUnknown && o != crdt.StateCompleted {
			return dependency, true
		}
	}
	return id.ID{}, false
}
