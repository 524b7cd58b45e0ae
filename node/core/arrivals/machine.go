package arrivals

import (
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
)

// Env is what a node keeps facts of others by.
type Env struct {
	*ground.Ground
	// The others of the node.
	Transfer    *transfer.Machine
	Tombstones  *retention.Tombstones
	Keys        *uniquekeys.Machine
	Queues      *queues.Machine
	Dependency  *dependency.Machine
	Replication *replication.Machine
}

// Machine keeps the facts that other nodes send.
type Machine struct {
	Env

	// Stale is how many times facts of a task were left with a node outside the cohort: below the
	// horizon and unknown here.
	Stale uint64
	// Clashes are those of facts that cannot both be.
	Clashes Clashes
}

// New keeps facts of others.
func New(env Env) *Machine { return &Machine{Env: env} }

// Clashes counts facts that were here with another body.
type Clashes struct {
	N    uint64
	Last id.ID // the task of the last one
}

// Add counts some of a task.
func (c *Clashes) Add(task id.ID, n int) { c.N, c.Last = c.N+uint64(n), task }
