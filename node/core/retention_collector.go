package core

import (
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Retention says what happens to finished tasks in the end.
type Retention struct {
	What nornv1.Retention // delete, archive or keep
	// After is how long completed and cancelled tasks stay.
	After time.Duration
	// Dead is how long dead tasks stay; 0: until they are retried or cancelled.
	Dead time.Duration
}

// collector deletes finished tasks whose retention is over (design 6): a
// partition at a time, in bounded steps.
type collector struct {
	c    *Core
	at   int64            // mono ns of the next step
	p    int              // partition it looks at
	from vnode.DuesCursor // where it goes on in the partition's finished tasks
	over [6]bool          // what has come to its end there, see look
	seen clock.Time       // of the last step
	busy uint64           // requests taken in before the last step
	keys id.ID            // unique key looked at last
	long id.ID            // task with a long history looked at last

	tombstones *tombstones

	archives archives
}

// collectBatch bounds the tasks collected, archived or forgotten in one step, and
// collectWrites what is written for it: a task may have 131,072 updates, which go with it.
// The one that goes beyond that is the last one of the step.
const (
	collectBatch  = 64
	collectWrites = 4096
)

// collectAlong is how many partitions are looked at in one step at most.
const collectAlong = 16

// collectPause is between two steps while there is much to do, so that clients
// come first; idlePause while there are none.
const (
	collectPause = 10 * time.Millisecond
	idlePause    = 100 * time.Microsecond
)

type rule struct {
	what  nornv1.Retention
	after time.Duration
	dead  time.Duration
}

// rule is what holds for a queue.
func (k *collector) rule(queue string) rule { return k.ruleOf(queue, true) }

// ruleOf is what holds for a queue by the longer default, or by the shorter one.
func (k *collector) ruleOf(queue string, longer bool) rule {
	d := k.c.sharedConfig.retention(longer)
	r := rule{what: d.What, after: d.After, dead: d.Dead}
	s := k.c.queues.of(queue)
	if s.GetRetention() != nornv1.Retention_RETENTION_UNSPECIFIED {
		r.what = s.GetRetention()
	}
	if longer && r.what == nornv1.Retention_RETENTION_ARCHIVE && !k.c.cfg.Archive { // others may have one
		r.what = nornv1.Retention_RETENTION_KEEP // started again without a place to archive to
	}
	if s.GetRetentionSeconds() > 0 {
		r.after = proto.Seconds(s.GetRetentionSeconds())
	}
	if s.GetDeadRetentionSeconds() > 0 {
		r.dead = proto.Seconds(s.GetDeadRetentionSeconds())
	}
	return r
}

// cutoff is the instant up to which tasks of a queue have been kept long
// enough; below 0 when they stay, or something else is done with them than what
// is asked for.
//
// Long enough they have been kept only when all members have been compared with
// since, because what a task has come to is not for this node alone to know: another
// one may lead by now, this process may have stood still for an hour and not have
// heard of it yet, and a dead task may have been given a new run there. That is done
// before its retention is over or not at all ([collector.buried]), so a comparison
// that began after that has shown it.
func (k *collector) cutoff(now clock.Time, p ring.Partition, what nornv1.Retention) func(crdt.State, string) int64 {
	agreed := min(now.Wall, k.tombstones.agreedSince(now, p))
	return func(s crdt.State, queue string) int64 {
		r, deleted := k.rule(queue), k.c.queues.deletedAt(queue)
		keep := r.after
		if s == crdt.StateDead {
			keep = r.dead
		}
		switch {
		case agreed < 0, r.what != what, what == nornv1.Retention_RETENTION_KEEP:
			return -1
		case s == crdt.StateDead && keep == 0 && deleted == 0:
			return -1
		case s == crdt.StateDead && keep == 0:
			return min(agreed, deleted)
		}
		return max(agreed-int64(keep), min(agreed, deleted))
	}
}

// work takes one step when it is time.
func (k *collector) work(now clock.Time) {
	k.archives.work(now)
	if now.Mono < k.at || k.c.cfg.CollectInterval <= 0 {
		return
	}
	if k.jumped(now) {
		k.at = now.Mono + int64(k.c.cfg.CollectInterval)
		return
	}
	// There is next to nothing to do about a partition that others lead: it is looked at on
	// the way to one that is led here, and wakes nobody.
	for looked := 1; ; looked++ {
		p, more := ring.Partition(k.p), false
		leads := k.c.vnodes.See(p).Leading() != 0
		if leads {
			more = k.look(now, k.c.vnodes.Use(p))
		} else {
			more = k.sweepKeys(now, p)
		}
		if more {
			k.at = now.Mono + int64(k.pause())
			return
		}
		k.long = id.ID{}
		k.p, k.from, k.over = (k.p+1)%len(k.c.view.Cells), vnode.DuesCursor{}, [6]bool{}
		if leads || looked == min(collectAlong, len(k.c.view.Cells)) {
			k.at = now.Mono + int64(k.c.cfg.CollectInterval)*int64(looked)/int64(len(k.c.view.Cells))
			return
		}
	}
}

// jumped tells whether the wall clock and the monotonic one have moved apart
// since the last step. What is deleted by a clock that is wrong for a moment
// does not come back, so a step is left out then.
func (k *collector) jumped(now clock.Time) bool {
	wall, mono := now.Wall-k.seen.Wall, now.Mono-k.seen.Mono
	first := k.seen == clock.Time{}
	k.seen = now
	apart := max(wall-mono, mono-wall)
	return !first && apart > int64(k.c.cfg.Eta) && !mutant.JumpCollects.On()
}

// pause is how long to leave the loop to others.
func (k *collector) pause() time.Duration {
	quiet := k.busy == k.c.taken
	k.busy = k.c.taken
	if quiet {
		return idlePause
	}
	return collectPause
}

// look takes one step in a partition and tells whether there is more. What has come to its
// end waits for the others: begun again, two of them that take several steps may never be at
// their ends at once.
func (k *collector) look(now clock.Time, v *vnode.Vnode) (more bool) {
	for i, scan := range []func(clock.Time, *vnode.Vnode) bool{k.tombstones.look, k.keysOf, k.tombstones.orphans, k.dues, k.archives.look, k.histories} {
		if !k.over[i] {
			k.over[i] = !scan(now, v)
			more = more || !k.over[i]
		}
	}
	return more
}

func (k *collector) keysOf(now clock.Time, v *vnode.Vnode) (more bool) {
	return k.sweepKeys(now, v.Partition)
}

// dues collects some tasks whose retention is over, and tells whether there are more.
func (k *collector) dues(now clock.Time, v *vnode.Vnode) (more bool) {
	dues, done := vnode.Dues(v, k.c.round.Tx, &k.from, k.cutoff(now, v.Partition, nornv1.Retention_RETENTION_DELETE), k.tombstones.comparedSince(v.Partition), collectBatch)
	if n := k.some(dues, func(d vnode.Due) {
		if !k.c.edges.needed(now, v, d.Task) {
			k.collect(now, d)
		}
	}); n < len(dues) {
		k.from, done = vnode.DuesAfter(v, dues[n-1]), false
	}
	return !done && !mutant.FirstDues.On()
}

// histories counts older failures and expiries of some tasks in one fact, once every member
// has them (design 5), and tells whether there are more tasks. A fact says when it was made by
// the clock of the leader of then.
func (k *collector) histories(now clock.Time, v *vnode.Vnode) (more bool) {
	before := k.tombstones.agreedSince(now, v.Partition)
	switch before {
	case math.MinInt64:
		return false
	case math.MaxInt64:
	default:
		before -= k.tombstones.Margin()
	}
	tasks, next := vnode.Trims(v, k.c.round.Tx, k.long, collectBatch)
	for left := k.left(); len(tasks) > 0 && left(); tasks = tasks[1:] {
		if _, err := vnode.Trim(v, k.c.round.Tx, tasks[0], before); !k.c.round.Check(err) {
			return false
		}
		k.long = tasks[0]
	}
	if len(tasks) == 0 {
		k.long = next
	}
	return !k.long.IsZero() && (len(tasks) > 0 || !next.IsZero())
}

// some does as much as one step is to do, and gives of how many tasks that was: of one at
// least.
func (k *collector) some(dues []vnode.Due, each func(vnode.Due)) (n int) {
	left := k.left()
	for n < min(len(dues), collectBatch) && left() {
		each(dues[n])
		n++
	}
	return n
}

// left tells whether more may be written in this step.
func (k *collector) left() func() bool {
	before := k.c.round.Tx.Pending()
	return func() bool { return k.c.round.Tx.Pending()-before < collectWrites }
}

// buried refuses to give a task a new run that another node may have collected: the
// leader before this one, which has died or was cut off since, may have left a tombstone
// that nobody has heard of yet and that takes back what is acknowledged now. That is
// so once its retention is over by some clock. What is needed nobody collects, but it
// may not have been needed then: all members have to have been compared with since this
// node leads, and since a leader before it, cut off, has surely noticed.
// nil: nobody has collected it.
func (k *collector) buried(now clock.Time, v *vnode.Vnode, d *vnode.Detail) *proto.Error {
	r := k.ruleOf(d.Task.Enqueued.Queue, false)
	keep := r.after
	if d.State == crdt.StateDead {
		keep = r.dead
	}
	deleted := d.Task.FinishedAt() <= k.c.queues.deletedAt(d.Task.Enqueued.Queue)
	if deleted {
		keep = 0
	}
	early := int64(keep) - int64(leadership.Lonely+2*k.c.cfg.Eta)
	needs := k.c.edges.watches.needs
	wait := func(what string) *proto.Error {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the retention of task %s is over, and whether another %s is not known yet; try again", d.Task.ID, what).Again(time.Second)
	}
	switch {
	case !d.State.Finished(): // it backs off, and nobody collects it
		return nil
	case k.c.cfg.CollectInterval <= 0, k.c.quorumWrites.alone(v.Partition), r.what == nornv1.Retention_RETENTION_KEEP, d.State == crdt.StateDead && keep == 0 && !deleted:
		return nil
	case d.Task.FinishedAt() > now.Wall-early:
		return nil
	case needs.kept[d.Task.ID].until > now.Mono, v.Edges.Any(k.c.round.Tx, d.Task.ID) && k.c.edges.awaited(v, d.Task.ID):
		if began := now.Wall - (now.Mono - needs.led[v.Partition]); k.tombstones.agreedSince(now, v.Partition) < began+int64(leadership.Lonely) {
			return wait("node has collected it before a task came that needs it")
		}
		return nil
	case needs.keep(now, v.Partition, d.Task.ID): // not known yet
		return wait("task needs it")
	}
	return refusal.Conflict("task %s is %s, and its retention is over: another node may have collected it; enqueue it anew", d.Task.ID, d.State)
}

// next is when work wants to be called, mono ns.
func (k *collector) next() int64 {
	if k.c.cfg.CollectInterval <= 0 {
		return clock.Never
	}
	return min(k.at, k.archives.at)
}

// collect collects a task that was due, if it still is: an archive takes time.
func (k *collector) collect(now clock.Time, d vnode.Due) bool {
	v := k.c.vnode(d.Task)
	if v.Leading() == 0 || !mutant.RetentionStale.On() && d.At > k.cutoff(now, v.Partition, k.rule(d.Queue).what)(d.State, d.Queue) {
		return false
	}
	gone, err := v.Collect(k.c.round.Tx, d, now, func(t *crdt.Task) int64 { return k.bury(now, t) })
	if !k.c.round.Check(err) || !gone {
		return false
	}
	k.c.stats.Collected++
	return true
}

// bury says from when on the tombstone of a task counts as old, and moves its
// unique key on, so that its ID is never given out again.
func (k *collector) bury(now clock.Time, t *crdt.Task) int64 {
	e, last := t.Enqueued, now.Wall
	switch {
	case t.ID.Kind() != id.KindKey:
	case e.KeyWindow > 0 && !mutant.WindowForgotten.On(): // the key stays taken until its window is over
		last = max(last, t.ID.Nanos()+e.KeyWindow)
	default:
		keys{k.c}.pass(now, t.ID, e)
	}
	return last
}

// pass moves a unique key without a window on to the next generation, because the
// task of this one was collected. It is remembered for as long as that is: a key
// that begins anew at an ID forgotten long ago, while somebody else still knows a
// later one, would be taken twice.
func (k keys) pass(now clock.Time, task id.ID, e *crdt.Enqueued) {
	if h := k.look(now, e.Queue, e.Key, 0); h.next > 0 {
		vnode.SetKey(k.c.round.Tx, k.c.vnode(h.first).Partition, vnode.Key{First: h.first, Generation: h.next, Current: k.nth(h.first, e.Queue, e.Key, h.next-1), Changed: now.Wall})
	}
}

// buried gives the spec of a task with such a key that another node has collected,
// before its facts go; nil when it is none. The key has to move on here, too: the
// next one who asks for it may ask this node, when the tombstone is forgotten.
func (k keys) buried(p ring.Partition, facts []crdt.Fact) *crdt.Enqueued {
	task := facts[0].Task
	stone := func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }
	if task.Kind() != id.KindKey || !slices.ContainsFunc(facts, stone) {
		return nil
	}
	t, err := vnode.LoadTask(k.c.round.Tx, p, task)
	if !k.c.round.Check(err) || t.Enqueued == nil || t.Enqueued.KeyWindow > 0 {
		return nil
	}
	return t.Enqueued
}

// sweepKeys forgets unique keys whose tasks nobody knows any more.
func (k *collector) sweepKeys(now clock.Time, p ring.Partition) bool {
	all := vnode.Keys(k.c.round.Tx, p, k.keys, collectBatch)
	for _, key := range all {
		k.keys = key.First
		old := now.Wall-key.Changed > int64(k.c.cfg.GCGrace)
		// Where its task is kept by others, nobody here can tell.
		cohort := k.c.view.Cells[ring.Of(key.Current, len(k.c.view.Cells))].Cohort
		if old && slices.Contains(cohort, k.c.cfg.Self) && (mutant.KeyForgotten.On() || !vnode.Known(k.c.round.Tx, ring.Of(key.Current, len(k.c.view.Cells)), key.Current)) {
			vnode.DropKey(k.c.round.Tx, p, key.First)
		}
	}
	if len(all) < collectBatch || mutant.FirstKeys.On() {
		k.keys = id.ID{}
		return false
	}
	return true
}
