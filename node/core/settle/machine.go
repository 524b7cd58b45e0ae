package settle

import (
	"time"

	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
)

// Env is what a node answers those by who hold claims.
type Env struct {
	// Policy is the zero one but in the hunt.
	Policy lease.Policy
	// GCGrace is how long an ID that is not known may be enqueued.
	GCGrace time.Duration
	// View and the others are those of the node.
	View        *view.View
	Round       *round.Writer
	Partitions  *partitions.Set
	Standing    *standing.Machine
	Leases      *lease.Machine
	Replication *replication.Machine
	Transfer    *transfer.Machine
	Index       *dispatch.Index
	Pending     *waiting.Table
	// Sessions hears whose session says that a claim has ended, before it does.
	Sessions interface{ Tells(session []byte) }
	// Clashes counts facts that were here with another body.
	Clashes *arrivals.Clashes
}

// Machine answers the requests of those who hold claims.
//
// Invariant: each counter counts what was not there before: the same request twice, as clients
// send after a timeout, counts once, and has the same answer but for the receipt's existed.
type Machine struct {
	Env

	// Renewed, Updated, Completed, Failed and Released count what was new.
	Renewed, Updated, Completed, Failed, Released uint64

	space []byte // for the further fields of a completion
}

// New answers those who hold claims.
func New(env Env) *Machine { return &Machine{Env: env} }
