package core

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// references keep finished tasks from being collected while unfinished ones depend on
// them that other nodes keep (design 6). Where both are kept an edge says so; else
// the leader of the one that waits, or each of its replicas while it has none, tells
// the leader of each of its dependencies, every second, and that one remembers it for
// a while. Also of those that are done: which of them hold a task back every replica
// finds out for itself, and it may be asked to lead long after the first one was done.
// A leader that has just begun cannot know yet what is needed, and collects nothing
// that others may need. Who is cut off for longer finds a tombstone, which stays for
// as long.
type references struct {
	l    *edges
	led  map[ring.Partition]int64 // mono ns since when this node leads what others may need
	kept map[id.ID]reference      // for others
	now  map[id.ID]bool           // what this node needs, to be said in this round
	last id.ID                    // task that was looked at last
	read int                      // bytes of specs in this look
}

// reference is when a task was last said to be needed, and until when it is kept for that,
// mono ns.
type reference struct{ said, until int64 }

const (
	// needFor is how many times as long as questions needs are remembered: it takes
	// that long to go through many waiting tasks.
	needFor = 3
	// maxNeeds and maxNeedBytes bound what is said, and read for it, in one look.
	maxNeeds     = 5000
	maxNeedBytes = 1 << 20
)

func newNeeds(l *edges) *references {
	return &references{l: l, led: make(map[ring.Partition]int64), kept: make(map[id.ID]reference), now: make(map[id.ID]bool)}
}

// began notes that this node leads a partition from now on.
func (n *references) began(now clock.Time, p ring.Partition) {
	if !n.l.c.view.Alone {
		n.led[p] = now.Mono
	}
}

// begin begins a look at waiting tasks, and full tells that it has been enough.
func (n *references) begin()     { n.last, n.read = id.ID{}, 0 }
func (n *references) full() bool { return len(n.now) >= maxNeeds || n.read >= maxNeedBytes }

// orphaned tells whether a partition that is kept here, and not led, has no leader in
// reach, or is named as led by this node: then its replicas say what its tasks need.
func (n *references) orphaned(p ring.Partition) bool {
	c := n.l.c
	leader, ok := c.routes.leader(p)
	return (!ok || leader == c.cfg.Self) && slices.Contains(c.view.Cells[p].Cohort, c.cfg.Self)
}

// of notes what a waiting task depends on that others lead, unless they keep the
// task as well.
func (n *references) of(task id.ID) {
	c := n.l.c
	p := ring.Of(task, len(c.view.Cells))
	if task == n.last {
		return
	}
	n.last = task
	t, err := vnode.LoadTask(c.round.Tx, p, task)
	if !c.round.Check(err) || t.Enqueued == nil || t.Finished() {
		return
	}
	n.read += len(t.Enqueued.Payload) + len(t.Enqueued.Further)
	for _, d := range t.Enqueued.Dependencies {
		if to, ok := c.routes.leader(ring.Of(d, len(c.view.Cells))); ok && to != c.cfg.Self && !slices.Contains(c.view.Cells[p].Cohort, to) {
			n.now[d] = true
		}
	}
}

// say has the leaders told.
func (n *references) say(asks map[register.Member]*message.Watch) {
	for _, d := range slices.SortedFunc(maps.Keys(n.now), id.ID.Compare) {
		to, ok := n.l.c.routes.leader(ring.Of(d, len(n.l.c.view.Cells)))
		if !ok || to == n.l.c.cfg.Self {
			continue // it is looked at again
		}
		mail := round.For(asks, to)
		mail.Keep = append(mail.Keep, d)
	}
	clear(n.now)
}

// heard takes what another node needs. Past a number of tasks some may be collected
// although they are needed; their tombstones stay for a while. What is said again after a
// long time is remembered for longer: its sender has many waiting tasks to go through,
// [watchStep] a second.
func (n *references) heard(now clock.Time, tasks []id.ID) {
	if len(n.kept)+len(tasks) > maxWatched {
		n.forget(now, 0) // those that would be remembered for their pause only
	}
	for _, task := range tasks {
		old, known := n.kept[task]
		if !known && len(n.kept) >= maxWatched {
			continue
		}
		pause := n.l.watches.remember()
		if known {
			pause = max(pause, int64(now.SinceMono(old.said)))
		}
		n.kept[task] = reference{now.Mono, now.Mono + needFor*pause}
	}
}

// keep tells whether what is left of a finished task of a partition that this node
// leads has to stay for others.
func (n *references) keep(now clock.Time, p ring.Partition, task id.ID) bool {
	if n.l.c.view.Holder {
		return false
	}
	return now.Mono-n.led[p] < n.l.watches.remember() || n.kept[task].until > now.Mono
}

// Kept is for how much longer a node keeps finished tasks that others have needed and have
// not named for a while; 0: it keeps none for that.
func Kept(c *Core, now clock.Time) (left time.Duration) {
	n := c.edges.watches.needs
	for _, o := range n.kept { // Any order: the greatest counts.
		if now.Mono-o.said >= n.l.watches.remember() {
			left = max(left, time.Duration(o.until-now.Mono))
		}
	}
	return left
}

// sweep forgets what has not been needed for long.
func (n *references) sweep(now clock.Time) { n.forget(now, n.l.c.retention.Tombstones.Hold()) }

// forget forgets what is not kept any more and was not said for so long.
func (n *references) forget(now clock.Time, silent time.Duration) {
	maps.DeleteFunc(n.kept, func(_ id.ID, o reference) bool { return o.until <= now.Mono && now.SinceMono(o.said) >= silent })
}
