package dependency

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// WatchFor is how long a replica remembers who has asked; 0: a minute.
	WatchFor time.Duration
	// Hold is how long all have to have had a tombstone before it goes.
	Hold func() time.Duration
	// Routes, Reads, Leases, Times and Others are the rest of the node.
	Routes Routes
	Reads  Reads
	Leases Leases
	Times  Times
	Others Others
}

// Routes tell who keeps what.
type Routes interface {
	// Leader leads a partition, as far as is known, and Reader keeps it and is in reach.
	Leader(p ring.Partition) (register.Member, bool)
	Reader(p ring.Partition) (register.Member, bool)
	// Find asks a majority of those who keep a task for it, or all of them. Each task is found
	// there that is acknowledged and not forgotten.
	Find(now clock.Time, task id.ID, all bool, then func(clock.Time, *proto.Error))
}

// Reads ask other replicas for facts.
type Reads interface {
	// Room tells whether one more may be under way.
	Room() bool
	// Majority merges what a majority knows of a task, and says whether enough have answered.
	Majority(now clock.Time, task id.ID, then func(now clock.Time, enough bool))
}

// Leases know whether this node leads.
type Leases interface {
	// Confirm has a majority asked whether somebody else leads a partition, ConfirmedSince
	// tells whether they have said no at some time, mono ns, or later.
	Confirm(p ring.Partition)
	ConfirmedSince(p ring.Partition, since int64) bool
	// Shared tells whether others keep the partition too.
	Shared(p ring.Partition) bool
}

// Times are those of the cluster.
type Times interface {
	Stamp(now clock.Time, task id.ID) int64
	Wall(now clock.Time) int64
}

// Others hear of what becomes of tasks.
type Others interface {
	// Ended hears of a task that is finished here, and Heard of one that is elsewhere.
	Ended(task id.ID)
	Heard(task id.ID, outcome crdt.State)
	// Cancelled hears of a task that is cancelled because of a dependency.
	Cancelled(now clock.Time, t *crdt.Task)
}
