package dependency

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

// References keep finished tasks from being collected while unfinished ones depend on
// them that other nodes keep (design 6). Where both are kept an edge says so; else
// the leader of the one that waits, or each of its replicas while it has none, tells
// the leader of each of its dependencies, every second, and that one remembers it for
// a while. Also of those that are done: which of them hold a task back every replica
// finds out for itself, and it may be asked to lead long after the first one was done.
// A leader that has just begun cannot know yet what is needed, and collects nothing
// that others may need. Who is cut off for longer finds a tombstone, which stays for
// as long.
type References struct {
	m   *Machine
	Led map[ring.Partition]int64 // mono ns since when this node leads what others may need
	// Invariant: there are at most [MaxWatched]; past that a needed task may be collected, and
	// its tombstone answers for it (Audit).
	Kept map[id.ID]Reference // for others
	now  map[id.ID]bool      // what this node needs, to be said in this round
	last id.ID               // task that was looked at last
	read int                 // bytes of specs in this look
}

// Reference is when a task was last said to be needed, and until when it is kept for that,
// mono ns.
type Reference struct{ Said, Until int64 }

const (
	// NeedFor is how many times as long as questions needs are remembered: it takes
	// that long to go through many waiting tasks.
	NeedFor = 3
	// maxNeeds and maxNeedBytes bound what is said, and read for it, in one look.
	maxNeeds     = 5000
	maxNeedBytes = 1 << 20
)

// newReferences makes the memory of a process to which nobody has said what it needs.
func newReferences(m *Machine) *References {
	return &References{m: m, Led: make(map[ring.Partition]int64), Kept: make(map[id.ID]Reference), now: make(map[id.ID]bool)}
}

// began notes that this node leads a partition from now on.
func (n *References) began(now clock.Time, p ring.Partition) {
	if !n.m.View.Alone {
		n.Led[p] = now.Mono
	}
}

// begin begins a look at waiting tasks, and full tells that it has been enough.
func (n *References) begin()     { n.last, n.read = id.ID{}, 0 }
func (n *References) full() bool { return len(n.now) >= maxNeeds || n.read >= maxNeedBytes }

// Orphaned tells whether a partition that is kept here, and not led, has no leader in
// reach, or is named as led by this node: then its replicas say what its tasks need.
func (n *References) Orphaned(p ring.Partition) bool {
	c := n.m
	leader, ok := c.Routes.Leader(p)
	return (!ok || leader == c.Self) && slices.Contains(c.View.Cells[p].Cohort, c.Self)
}

// of notes what a waiting task depends on that others lead, unless they keep the
// task as well.
func (n *References) of(task id.ID) {
	c := n.m
	p := ring.Of(task, len(c.View.Cells))
	if task == n.last {
		return
	}
	n.last = task
	t, err := vnode.LoadTask(c.Round.Tx, p, task)
	if !c.Round.Check(err) || t.Enqueued == nil || t.Finished() {
		return
	}
	n.read += len(t.Enqueued.Payload) + len(t.Enqueued.Further)
	for _, d := range t.Enqueued.Dependencies {
		if to, ok := c.Routes.Leader(ring.Of(d, len(c.View.Cells))); ok && to != c.Self && !slices.Contains(c.View.Cells[p].Cohort, to) {
			n.now[d] = true
		}
	}
}

// say has the leaders told.
func (n *References) say(asks map[register.Member]*message.Watch) {
	for _, d := range slices.SortedFunc(maps.Keys(n.now), id.ID.Compare) {
		to, ok := n.m.Routes.Leader(ring.Of(d, len(n.m.View.Cells)))
		if !ok || to == n.m.Self {
			continue // it is looked at again
		}
		mail := round.For(asks, to)
		mail.Keep = append(mail.Keep, d)
	}
	clear(n.now)
}

// Heard takes what another node needs. Past a number of tasks some may be collected
// although they are needed; their tombstones stay for a while. What is said again after a
// long time is remembered for longer: its sender has many waiting tasks to go through,
// [watchStep] a second.
//
// Said is repeated each second by its sender, so a lost message delays and loses nothing.
func (n *References) Heard(now clock.Time, tasks []id.ID) {
	if len(n.Kept)+len(tasks) > MaxWatched {
		n.Forget(now, 0) // those that would be remembered for their pause only
	}
	for _, task := range tasks {
		old, known := n.Kept[task]
		if !known && len(n.Kept) >= MaxWatched {
			continue
		}
		pause := n.m.Watches.Remember()
		if known {
			pause = max(pause, int64(now.SinceMono(old.Said)))
		}
		n.Kept[task] = Reference{now.Mono, now.Mono + NeedFor*pause}
	}
}

// keep tells whether what is left of a finished task of a partition that this node
// leads has to stay for others.
func (n *References) keep(now clock.Time, p ring.Partition, task id.ID) bool {
	if n.m.View.Holder {
		return false
	}
	return now.Mono-n.Led[p] < n.m.Watches.Remember() || n.Kept[task].Until > now.Mono
}

// Lasting is for how much longer finished tasks are kept that others have needed and have not
// named for a while; 0: none is kept for that.
func (n *References) Lasting(now clock.Time) (left time.Duration) {
	for _, o := range n.Kept { // Any order: the greatest counts.
		if now.Mono-o.Said >= n.m.Watches.Remember() {
			left = max(left, time.Duration(o.Until-now.Mono))
		}
	}
	return left
}

// sweep forgets what has not been needed for long.
func (n *References) sweep(now clock.Time) { n.Forget(now, n.m.Hold()) }

// Forget forgets what is not kept any more and was not said for so long.
func (n *References) Forget(now clock.Time, silent time.Duration) {
	maps.DeleteFunc(n.Kept, func(_ id.ID, o Reference) bool { return o.Until <= now.Mono && now.SinceMono(o.Said) >= silent })
}
