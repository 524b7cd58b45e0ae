package status

import (
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/intake"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/register"
)

// Env is what a node tells of itself and of the cluster by.
type Env struct {
	*ground.Ground
	// Cluster is what is fixed for all nodes.
	Cluster register.Cluster
	// Address is that for clients, Zone the failure domain.
	Address, Zone string
	// The others of the node.
	Standing *standing.Machine
	Routes   *router.Machine
	Transfer *transfer.Machine
	Repairs  *repair.Machine
	// Disk is how much room there is, Clashes counts facts that were here with another body.
	Disk    *intake.Disk
	Clashes *arrivals.Clashes
}

// Machine looks at the cluster for operators, and at this node for who stops and asks it.
type Machine struct {
	Env

	filling filling
}

// New has looked at nothing yet.
func New(env Env) *Machine { return &Machine{Env: env} }
