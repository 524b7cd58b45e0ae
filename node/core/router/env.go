package router

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/register"
)

// Env is what a machine reads and writes.
//
// Node is called back in the course of a call: [Machine.Forward] may answer before it returns,
// where this node does.
type Env struct {
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Self is this node in this incarnation.
	Self register.Member
	// Random draws the number of the first request.
	Random func() uint64
	// IDs makes IDs of tasks.
	IDs *id.Generator
	// View, Round, Partitions and Standing are those of the node. Partitions and Standing may
	// come later, before anything is asked for.
	View       *view.View
	Round      *round.Writer
	Partitions *partitions.Set
	Standing   *standing.Machine
	// Pending has the requests of the node that wait.
	Pending *waiting.Table
	// Node is the rest of it.
	Node Node
}

// Node is what the rest of a node does.
type Node interface {
	// Request handles a request here, which is a part of another one or of another node.
	Request(now clock.Time, r *message.Request)
	// Answered takes the answer to what a worker's session has asked for.
	Answered(a *message.Reply)
	// Dropped hears of grants of this node that nobody will hear of.
	Dropped(grants []message.GrantRef)
}
