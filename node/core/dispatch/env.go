package dispatch

import (
	"iter"
	"time"

	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// PartitionCount is how many partitions there are.
	PartitionCount int
	// MaxClaims, MaxQueues and MaxWaiters bound the tasks under a claim, the names of queues and
	// the requests that wait.
	MaxClaims, MaxQueues, MaxWaiters int
	// Routes are those of the node, and so are Standing and Leases, which may come later, before
	// anything is asked for.
	Routes   *router.Machine
	Standing *standing.Machine
	Leases   *lease.Machine
	// Node is the rest of it, and Readers are those who wait for lines of a log.
	Node    Node
	Readers Readers
}

// Node is what the rest of a node knows and does.
type Node interface {
	// Lease is how long a claim lasts by the settings of queues, where nobody says.
	Lease(queues []string) time.Duration
	// Foreign refuses a session that is another principal's.
	Foreign(session [16]byte, principal string) *proto.Error
	// StepDown has this node lead a partition no more, until it is elected again.
	StepDown(p ring.Partition)
}

// Readers are requests that wait for lines of a log: they share the room of those that wait for
// tasks.
type Readers interface {
	// Count is how many wait, Of how many of a connection, and Conns gives the connections.
	Count() int
	Of(conn uint64) int
	Conns() iter.Seq[uint64]
	// SendAway refuses the newest of a connection, and tells whether there was one that may be.
	SendAway(conn uint64, why *proto.Error) bool
}
