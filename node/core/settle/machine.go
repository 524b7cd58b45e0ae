package settle

import (
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
)

// Env is what a node answers those by who hold claims.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy lease.Policy
	// The others of the node.
	Standing    *standing.Machine
	Leases      *lease.Machine
	Replication *replication.Machine
	Transfer    *transfer.Machine
	Index       *dispatch.Index
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
