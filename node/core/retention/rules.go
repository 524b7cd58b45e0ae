package retention

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Rule is what holds for a queue.
//
// Settings of the queue come before the defaults of the node. Where nodes have different
// defaults, the longer one counts for collecting and the shorter one for refusing retries: both
// err towards keeping.
func (m *Machine) Rule(queue string) Rule { return m.ruleOf(queue, true) }

// ruleOf is what holds for a queue by the longer default, or by the shorter one.
func (m *Machine) ruleOf(queue string, longer bool) Rule {
	r, s := m.Queues.Retention(longer), m.Queues.Settings(queue)
	if s.GetRetention() != nornv1.Retention_RETENTION_UNSPECIFIED {
		r.What = s.GetRetention()
	}
	if longer && r.What == nornv1.Retention_RETENTION_ARCHIVE && !m.HasArchive { // others may have one
		r.What = nornv1.Retention_RETENTION_KEEP // started again without a place to archive to
	}
	if s.GetRetentionSeconds() > 0 {
		r.After = proto.Seconds(s.GetRetentionSeconds())
	}
	if s.GetDeadRetentionSeconds() > 0 {
		r.Dead = proto.Seconds(s.GetDeadRetentionSeconds())
	}
	return r
}

// Cutoff is the instant up to which tasks of a queue have been kept long
// enough; below 0 when they stay, or something else is done with them than what
// is asked for.
//
// Long enough they have been kept only when all members have been compared with
// since, because what a task has come to is not for this node alone to know: another
// one may lead by now, this process may have stood still for an hour and not have
// heard of it yet, and a dead task may have been given a new run there. That is done
// before its retention is over or not at all ([Machine.Buried]), so a comparison
// that began after that has shown it.
func (m *Machine) Cutoff(now clock.Time, p ring.Partition, what nornv1.Retention) func(crdt.State, string) int64 {
	agreed := min(now.Wall, m.Tombstones.AgreedSince(now, p))
	return func(s crdt.State, queue string) int64 {
		r, deleted := m.Rule(queue), m.Queues.DeletedAt(queue)
		keep := r.After
		if s == crdt.StateDead {
			keep = r.Dead
		}
		switch {
		case agreed < 0, r.What != what, what == nornv1.Retention_RETENTION_KEEP:
			return -1
		case s == crdt.StateDead && keep == 0 && deleted == 0:
			return -1
		case s == crdt.StateDead && keep == 0:
			return min(agreed, deleted)
		}
		return max(agreed-int64(keep), min(agreed, deleted))
	}
}

// Buried refuses to give a task a new run that another node may have collected: the
// leader before this one, which has died or was cut off since, may have left a tombstone
// that nobody has heard of yet and that takes back what is acknowledged now. That is
// so once its retention is over by some clock. What is needed nobody collects, but it
// may not have been needed then: all members have to have been compared with since this
// node leads, and since a leader before it, cut off, has surely noticed.
// nil: nobody has collected it.
func (m *Machine) Buried(now clock.Time, v *vnode.Vnode, d *vnode.Detail) *proto.Error {
	r := m.ruleOf(d.Task.Enqueued.Queue, false)
	keep := r.After
	if d.State == crdt.StateDead {
		keep = r.Dead
	}
	deleted := d.Task.FinishedAt() <= m.Queues.DeletedAt(d.Task.Enqueued.Queue)
	if deleted {
		keep = 0
	}
	early := int64(keep) - int64(leadership.Lonely+2*m.Eta)
	wait := func(what string) *proto.Error {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the retention of task %s is over, and whether another %s is not known yet; try again", d.Task.ID, what).Again(time.Second)
	}
	switch {
	case !d.State.Finished(): // it backs off, and nobody collects it
		return nil
	case m.Interval <= 0, m.Alone(v.Partition), r.What == nornv1.Retention_RETENTION_KEEP, d.State == crdt.StateDead && keep == 0 && !deleted:
		return nil
	case d.Task.FinishedAt() > now.Wall-early:
		return nil
	case m.References.Named(now, d.Task.ID), v.Edges.Any(m.Round.Tx, d.Task.ID) && m.References.Awaited(v, d.Task.ID):
		if began := now.Wall - (now.Mono - m.References.LedSince(v.Partition)); m.Tombstones.AgreedSince(now, v.Partition) < began+int64(leadership.Lonely) {
			return wait("node has collected it before a task came that needs it")
		}
		return nil
	case m.References.Keeps(now, v.Partition, d.Task.ID): // not known yet
		return wait("task needs it")
	}
	return refusal.Conflict("task %s is %s, and its retention is over: another node may have collected it; enqueue it anew", d.Task.ID, d.State)
}
