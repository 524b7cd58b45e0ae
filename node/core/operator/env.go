package operator

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// The others of the node.
	Standing    *standing.Machine
	Acceptors   *leadership.Acceptors
	Transfer    *transfer.Machine
	Repairs     *repair.Machine
	Routes      *router.Machine
	Retention   *retention.Machine
	Replication *replication.Machine
	// Node is the rest of it.
	Node Node
}

// Node is what the rest of a node does.
type Node interface {
	// Consult sends a request to the register and answers a client with what comes of it, or
	// that the register does not answer, which may have had an effect.
	Consult(
		from message.Origin, r register.Request, unavailable func(error, nornv1.Effect) *proto.Error, effect nornv1.Effect,
		then func(clock.Time, *register.Result) (gproto.Message, *proto.Error),
	) (gproto.Message, *proto.Error)
	// Full is why nothing is taken in, as the disk is nearly full; nil: it is taken.
	Full() *proto.Error
	// Merge joins facts of one task with what is here; false: they cannot be.
	Merge(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) bool
}
