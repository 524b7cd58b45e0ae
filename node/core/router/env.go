package router

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
)

// Env is what a machine reads and writes.
//
// Node is called back in the course of a call: [Machine.Forward] may answer before it returns,
// where this node does.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// IDs makes IDs of tasks.
	IDs *id.Generator
	// Standing is that of the node; it may come later, before anything is asked for.
	Standing *standing.Machine
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
