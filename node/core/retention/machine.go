package retention

import (
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Machine deletes finished tasks whose retention is over (design 6): a partition at a time,
// in bounded steps.
type Machine struct {
	Env
	Tombstones *Tombstones
	Archiving  Archiving
	// Pass is where the collector is.
	Pass Pass
	// At is when it takes its next step, mono ns. Seen is when it took the last one.
	At int64
	// Invariant: between two steps the wall clock and the monotonic one advance alike, or the
	// step is left out. A clock that jumps by a day must not delete a day's tasks (mutant
	// JumpCollects).
	Seen clock.Time
	// Collected and Archived count tasks.
	Collected, Archived uint64

	busy uint64 // requests taken in before the last step
}

// Pass is how far the collector has come with a partition.
//
// It is in memory only. After a restart a pass begins anew, which costs reads and loses
// nothing.
type Pass struct {
	Partition int
	From      vnode.DuesCursor // where it goes on in the partition's finished tasks
	Over      [6]bool          // what has come to its end there, see [Machine.Look]
	Keys      id.ID            // unique key looked at last
	Long      id.ID            // task with a long history looked at last
}

// New makes the machine of a process.
func New(env Env, now clock.Time) *Machine {
	m := &Machine{Env: env, At: now.Mono}
	m.Tombstones = newTombstones(&m.Env)
	m.Archiving = Archiving{At: clock.Never, from: make(map[ring.Partition]vnode.DuesCursor)}
	return m
}

// vnode is the partition of a task.
func (m *Machine) vnode(task id.ID) *vnode.Vnode {
	return m.Partitions.Use(ring.Of(task, len(m.View.Cells)))
}

// Batch bounds the tasks collected, archived or forgotten in one step, and
// WritesPerStep what is written for it: a task may have 131,072 updates, which go with it.
// The one that goes beyond that is the last one of the step.
const (
	Batch         = 64
	WritesPerStep = 4096
)

// partitionsPerStep is how many partitions are looked at in one step at most.
const partitionsPerStep = 16

// Pause is between two steps while there is much to do, so that clients
// come first; idlePause while there are none.
const (
	Pause     = 10 * time.Millisecond
	idlePause = 100 * time.Microsecond
)

// Work takes one step when it is time.
func (m *Machine) Work(now clock.Time) {
	m.WorkArchived(now)
	if now.Mono < m.At || m.Interval <= 0 {
		return
	}
	if m.jumped(now) {
		m.At = now.Mono + int64(m.Interval)
		return
	}
	// There is next to nothing to do about a partition that others lead: it is looked at on
	// the way to one that is led here, and wakes nobody.
	for looked := 1; ; looked++ {
		p, more := ring.Partition(m.Pass.Partition), false
		leads := m.Partitions.See(p).Leading() != 0
		if leads {
			more = m.Look(now, m.Partitions.Use(p))
		} else {
			more = m.sweepKeys(now, p)
		}
		if more {
			m.At = now.Mono + int64(m.pause())
			return
		}
		m.Pass = Pass{Partition: (m.Pass.Partition + 1) % len(m.View.Cells), Keys: m.Pass.Keys}
		if leads || looked == min(partitionsPerStep, len(m.View.Cells)) {
			m.At = now.Mono + int64(m.Interval)*int64(looked)/int64(len(m.View.Cells))
			return
		}
	}
}

// jumped tells whether the wall clock and the monotonic one have moved apart
// since the last step. What is deleted by a clock that is wrong for a moment
// does not come back, so a step is left out then.
func (m *Machine) jumped(now clock.Time) bool {
	wall, mono := now.Wall-m.Seen.Wall, now.Mono-m.Seen.Mono
	first := m.Seen == clock.Time{}
	m.Seen = now
	apart := max(wall-mono, mono-wall)
	return !first && apart > int64(m.Eta) && !m.Policy.JumpCollects
}

// pause is how long to leave the loop to others.
func (m *Machine) pause() time.Duration {
	quiet := m.busy == m.Taken()
	m.busy = m.Taken()
	if quiet {
		return idlePause
	}
	return Pause
}

// Look takes one step in a partition and tells whether there is more. What has come to its
// end waits for the others: begun again, two of them that take several steps may never be at
// their ends at once.
func (m *Machine) Look(now clock.Time, v *vnode.Vnode) (more bool) {
	for i, scan := range []func(clock.Time, *vnode.Vnode) bool{m.Tombstones.look, m.keysOf, m.Tombstones.Orphans, m.dues, m.Archive, m.histories} {
		if !m.Pass.Over[i] {
			m.Pass.Over[i] = !scan(now, v)
			more = more || !m.Pass.Over[i]
		}
	}
	return more
}

// keysOf is sweepKeys in the form that Look takes.
func (m *Machine) keysOf(now clock.Time, v *vnode.Vnode) (more bool) {
	return m.sweepKeys(now, v.Partition)
}

// dues collects some tasks whose retention is over, and tells whether there are more.
func (m *Machine) dues(now clock.Time, v *vnode.Vnode) (more bool) {
	dues, done := vnode.Dues(v, m.Round.Tx, &m.Pass.From, m.Cutoff(now, v.Partition, nornv1.Retention_RETENTION_DELETE), m.Tombstones.ComparedSince(v.Partition), Batch)
	defer m.Round.Tx.Together()()
	if n := m.some(dues, func(d vnode.Due) {
		if !m.References.Needed(now, v, d.Task) {
			m.collect(now, d)
		}
	}); n < len(dues) {
		m.Pass.From, done = vnode.DuesAfter(v, dues[n-1]), false
	}
	return !done && !m.Policy.FirstDues
}

// histories counts older failures and expiries of some tasks in one fact, once every member
// has them (design 5), and tells whether there are more tasks. A fact says when it was made by
// the clock of the leader of then.
func (m *Machine) histories(now clock.Time, v *vnode.Vnode) (more bool) {
	before := m.Tombstones.AgreedSince(now, v.Partition)
	switch before {
	case math.MinInt64:
		return false
	case math.MaxInt64:
	default:
		before -= m.Tombstones.Margin()
	}
	tasks, next := vnode.Trims(v, m.Round.Tx, m.Pass.Long, Batch)
	for left := m.left(); len(tasks) > 0 && left(); tasks = tasks[1:] {
		if _, err := vnode.Trim(v, m.Round.Tx, tasks[0], before); !m.Round.Check(err) {
			return false
		}
		m.Pass.Long = tasks[0]
	}
	if len(tasks) == 0 {
		m.Pass.Long = next
	}
	return !m.Pass.Long.IsZero() && (len(tasks) > 0 || !next.IsZero())
}

// some does as much as one step is to do, and gives of how many tasks that was: of one at
// least.
func (m *Machine) some(dues []vnode.Due, each func(vnode.Due)) (n int) {
	left := m.left()
	for n < min(len(dues), Batch) && left() {
		each(dues[n])
		n++
	}
	return n
}

// left tells whether more may be written in this step.
func (e *Env) left() func() bool {
	before := e.Round.Tx.Pending()
	return func() bool { return e.Round.Tx.Pending()-before < WritesPerStep }
}

// Due is when Work wants to be called, mono ns.
func (m *Machine) Due() int64 {
	if m.Interval <= 0 {
		return clock.Never
	}
	return min(m.At, m.Archiving.At)
}

// collect collects a task that was due, if it still is: an archive takes time.
//
// It returns false where somebody else leads by now, or the rule of the queue has changed since
// the task was found.
func (m *Machine) collect(now clock.Time, d vnode.Due) bool {
	v := m.vnode(d.Task)
	if v.Leading() == 0 || !m.Policy.RetentionStale && d.At > m.Cutoff(now, v.Partition, m.Rule(d.Queue).What)(d.State, d.Queue) {
		return false
	}
	gone, err := v.Collect(m.Round.Tx, d, now, func(t *crdt.Task) int64 { return m.bury(now, t) })
	if !m.Round.Check(err) || !gone {
		return false
	}
	m.Collected++
	return true
}

// bury says from when on the tombstone of a task counts as old, and moves its
// unique key on, so that its ID is never given out again.
func (m *Machine) bury(now clock.Time, t *crdt.Task) int64 {
	e, last := t.Enqueued, now.Wall
	switch {
	case t.ID.Kind() != id.KindKey:
	case e.KeyWindow > 0 && !m.Policy.WindowForgotten: // the key stays taken until its window is over
		last = max(last, t.ID.Nanos()+e.KeyWindow)
	default:
		m.PassKey(now, t.ID, e)
	}
	return last
}

// sweepKeys forgets unique keys whose tasks nobody knows any more.
func (m *Machine) sweepKeys(now clock.Time, p ring.Partition) bool {
	all := vnode.Keys(m.Round.Tx, p, m.Pass.Keys, Batch)
	for _, key := range all {
		m.Pass.Keys = key.First
		old := now.Wall-key.Changed > int64(m.GCGrace)
		// Where its task is kept by others, nobody here can tell.
		cohort := m.View.Cells[ring.Of(key.Current, len(m.View.Cells))].Cohort
		if old && slices.Contains(cohort, m.Self) && (m.Policy.KeyForgotten || !vnode.Known(m.Round.Tx, ring.Of(key.Current, len(m.View.Cells)), key.Current)) {
			vnode.DropKey(m.Round.Tx, p, key.First)
		}
	}
	if len(all) < Batch || m.Policy.FirstKeys {
		m.Pass.Keys = id.ID{}
		return false
	}
	return true
}
