package ground

import (
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/register"
)

// Ground is what all machines of a node have in common.
type Ground struct {
	// Self is this node in this incarnation, Cluster the ID of the cluster.
	Self    register.Member
	Cluster register.UUID
	// Eta bounds the difference of two clocks. GCGrace is how long a tombstone stays, and an ID that
	// is not known may be enqueued.
	Eta, GCGrace time.Duration
	// View is the cluster as it is known here, Round has what this round writes and sends.
	View  *view.View
	Round *round.Writer
	// Partitions are those that are here.
	Partitions *partitions.Set
	// Tenants counts what tenants use, Pending has the requests that wait.
	Tenants *quota.Machine
	Pending *waiting.Table
	// Rand is the only source of randomness.
	Rand *rand.Rand
}
