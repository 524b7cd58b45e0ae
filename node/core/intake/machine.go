package intake

import (
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/settle"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
)

// Env is what a node takes tasks in by.
type Env struct {
	*ground.Ground
	// MaxPayload is how large the payload of a task may be, bytes.
	MaxPayload int
	// The others of the node.
	Standing    *standing.Machine
	Routes      *router.Machine
	Transfer    *transfer.Machine
	Replication *replication.Machine
	Retention   *retention.Machine
	Dependency  *dependency.Machine
	Queues      *queues.Machine
	Keys        *uniquekeys.Machine
	Settle      *settle.Machine
}

// Machine takes tasks in, and ends or begins them anew by request of those who do not hold them.
//
// Invariant: a task is stored at most once under an ID, with one spec: an enqueue of a known ID
// adds nothing, and is a conflict where the spec is another one. Two nodes may take two specs
// at the same time; then the join keeps one of them everywhere, and the other's receipt is
// counted as a clash.
//
// Invariant: nothing is looked up in a partition that is being deleted here
// ([transfer.Machine.Refuses]): an ID would seem new that is known to all others.
type Machine struct {
	Env

	// Disk has room for new tasks, or not.
	Disk Disk
	// Enqueued, Duplicates, Cancelled and Retried count what was done.
	Enqueued, Duplicates, Cancelled, Retried uint64
}

// New takes tasks in. disk is what is known of the room for them.
func New(env Env, disk Disk) *Machine { return &Machine{Env: env, Disk: disk} }
