package nodes

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
)

// Mutant is a node that is wrong on purpose: hooks around the core, and the
// invariants of which one must be found broken. The zero Mutant is a node as it
// is.
type Mutant struct {
	Name string
	// Breaks lists the invariants by which it may be found out.
	Breaks []string

	// NoSync lets answers go before anything is durable.
	NoSync bool
	// Config changes what the core is made with.
	Config func(*core.Config)
	// Clock changes what the core sees of time.
	Clock func(n *Node, now clock.Time) clock.Time
	// Event sees every event before the core and may change it; false drops it.
	Event func(n *Node, event any) bool
	// Reply sees every answer after the core and may change it; false drops it.
	Reply func(n *Node, r *message.Reply) bool
	// Send sees every message of the core to another node; false drops it.
	Send func(n *Node, m *message.Send) bool
	// Crash may damage the disk while the node is down.
	Crash func(n *Node)
}
