package retention

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Rule says what happens to finished tasks in the end.
//
// A queue's own settings replace single fields of it (see [Machine.Rule]).
type Rule struct {
	What nornv1.Retention // delete, archive or keep
	// After is how long completed and cancelled tasks stay.
	After time.Duration
	// Dead is how long dead tasks stay; 0: until they are retried or cancelled.
	Dead time.Duration
}

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Interval is that in which every partition is looked at once; 0: nothing is collected.
	Interval time.Duration
	// HasArchive tells whether there is somewhere to archive to.
	HasArchive bool
	// Queues and References are what collection depends on.
	Queues     Queues
	References References
	// Alone tells whether nobody else keeps a partition, or is about to.
	Alone func(p ring.Partition) bool
	// Number gives each archive a number of its own; Taken is how many requests have come.
	Number, Taken func() uint64
	// PassKey moves a unique key without a window on to its next task.
	PassKey func(now clock.Time, task id.ID, e *crdt.Enqueued)
}

// Queues are the settings of queues.
type Queues interface {
	// Settings are those that were made of a queue; nil: none were.
	Settings(queue string) *nornv1.QueueSettings
	// DeletedAt is when a queue was deleted, wall ns; 0: it was not.
	DeletedAt(queue string) int64
	// Retention is the default: the longer or the shorter one where nodes differ.
	Retention(longer bool) Rule
}

// References tell which finished tasks others depend on.
type References interface {
	// Needed tells whether an unfinished task depends on a finished one, or may.
	Needed(now clock.Time, v *vnode.Vnode, task id.ID) bool
	// Awaited tells whether a task that is kept here depends on one, or may; WaitedFor
	// whether one does that waits.
	Awaited(v *vnode.Vnode, task id.ID) bool
	WaitedFor(v *vnode.Vnode, task id.ID) bool
	// Keeps tells whether what is left of a finished task has to stay for other nodes, and
	// Named whether one of them has said so.
	Keeps(now clock.Time, p ring.Partition, task id.ID) bool
	Named(now clock.Time, task id.ID) bool
	// LedSince is since when this node leads a partition that others keep too, mono ns.
	LedSince(p ring.Partition) int64
}
