package transfer

import (
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// DeadAfter is for how long a node is not alive before others keep what it kept, Settle how
	// long the plan waits after changes.
	DeadAfter, Settle time.Duration
	// MaxAside is how many bytes of facts are kept aside at most; 0: 256 MiB.
	MaxAside int64
	// Replicas is how many copies there are to be until the register says so.
	Replicas int
	// Elections, Tombstones, Repairs and Node are the rest of the node.
	Elections  Elections
	Tombstones Tombstones
	Repairs    Repairs
	Node       Node
}

// Elections change cohorts.
// It is what leadership does, seen from here. MayForget is the one that safety depends on: with
// a promise still to be kept the partition stays, whatever the plan says.
type Elections interface {
	// Want asks for changes of cells, RequestElection has the leader of a partition stand in a
	// higher epoch than some.
	Want(now clock.Time, changes []register.Change)
	RequestElection(now clock.Time, p ring.Partition, above uint64)
	// MayForget tells whether no candidate counts on what is here of a partition, and below
	// which epoch nothing is accepted. Proposed: this node is to be of its cohort.
	MayForget(p ring.Partition, epoch uint64) (may bool, promise uint64)
	Proposed(p ring.Partition) bool
	// Leave ends what this node does for elections of a partition, and keeps its promise.
	Leave(p ring.Partition)
	// Registered takes over cells that have changed.
	Registered()
}

// Tombstones know what may have been collected.
// It is what retention knows. Stale is why a comparison counts for a limited time: a tombstone
// that has gone since on the other side would leave its task to be revived from here.
type Tombstones interface {
	// Stale tells whether tombstones may have gone since a comparison began.
	Stale(now clock.Time, began int64) bool
	// Forget forgets a partition.
	Forget(p ring.Partition)
	// Below tells whether facts may be of a task that was collected, Admission is when that was
	// enqueued.
	Below(now clock.Time, p ring.Partition, facts []crdt.Fact) bool
	Admission(facts []crdt.Fact) int64
	// Agreed tells whether both sides of a comparison have the same.
	Agreed(r *antientropy.Result) bool
}

// Repairs compare partitions.
type Repairs interface {
	// Copy compares at once.
	Copy(now clock.Time, k message.Pair)
	// Forget ends the comparisons of a partition, Grow has trees looked at.
	Forget(p ring.Partition)
	Grow()
}

// Node is what else there is.
type Node interface {
	// ChangeRegister asks the register for changes of nodes.
	ChangeRegister(r register.Request)
	// Blank is an empty partition, and Released one that is kept no longer.
	Blank(p ring.Partition) (*vnode.Vnode, error)
	Released(v *vnode.Vnode)
	// Met hears that other nodes come, or that other partitions are on their way here.
	Met()
	// Merge takes facts over.
	Merge(now clock.Time, v *vnode.Vnode, facts []crdt.Fact)
}
