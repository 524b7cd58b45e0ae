package queues

import (
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/registercall"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/view"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Env is what the queues of a node go by.
type Env struct {
	// Policy is the zero one but in the hunt.
	Policy query.Policy
	// Self is this node in this incarnation.
	Self register.Member
	// Retry and Lease are those of queues that do not say, MaxQueues is how many names there may be.
	Retry     crdt.Retry
	Lease     time.Duration
	MaxQueues int
	// HasArchive tells whether there is somewhere to archive to.
	HasArchive bool
	// Eta bounds the difference of two clocks. GCGrace is how long a tombstone stays.
	Eta, GCGrace time.Duration
	// View and the others are those of the node. Partitions, Standing and Dispatch may come later,
	// before anything is asked for, and so may the functions.
	View       *view.View
	Round      *round.Writer
	Tenants    *quota.Machine
	Routes     *router.Machine
	Register   *registercall.Machine
	Partitions *partitions.Set
	Standing   *standing.Machine
	Dispatch   *dispatch.Machine
	// Rule is for how long finished tasks of a queue stay.
	Rule func(queue string) retention.Rule
	// Copying tells whether a partition is still being copied to here.
	Copying func(ring.Partition) bool
	// Origin is that of a request of this node's own.
	Origin func(nornv1.Method) message.Origin
}
