package queues

import (
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/registercall"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// Env is what the queues of a node go by.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy query.Policy
	// Retry and Lease are those of queues that do not say, MaxQueues is how many names there may be.
	Retry     crdt.Retry
	Lease     time.Duration
	MaxQueues int
	// HasArchive tells whether there is somewhere to archive to.
	HasArchive bool
	// Routes and the others are those of the node. Standing and Dispatch may come later, before
	// anything is asked for, and so may the functions.
	Routes   *router.Machine
	Register *registercall.Machine
	Standing *standing.Machine
	Dispatch *dispatch.Machine
	// Rule is for how long finished tasks of a queue stay.
	Rule func(queue string) retention.Rule
	// Copying tells whether a partition is still being copied to here.
	Copying func(ring.Partition) bool
	// Origin is that of a request of this node's own.
	Origin func(nornv1.Method) message.Origin
}
