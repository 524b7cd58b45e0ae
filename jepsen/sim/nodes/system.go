package nodes

import (
	"time"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/run"
)

// System is what clients see: a node or a cluster, and the connections to it.
type System struct {
	*run.State
	Mutant Mutant
	Node   *Node   // of a run with one node
	Fleet  *Fleet  // of a run with several; nil: there is one
	Conns  []*Conn // those of clients that are open
	connID uint64
	Next   func() // plans the next crash of a node that is alone; nil: nobody does

	LastGrants []*nornv1.Grant // for a mutant
}

// server is the node that a client's next connection leads to, where it wants none in particular.
func (s *System) server(pin *Node) *Node {
	switch {
	case s.Fleet == nil:
		return s.Node
	case pin != nil:
		return pin
	}
	return world.Pick(&s.World, s.Fleet.Nodes)
}

// Dial makes a connection, to one node where a client has a pin, or nil when no node listens.
func (s *System) Dial(client Client, pin *Node) *Conn {
	n := s.server(pin)
	if n == nil || !n.Up || n.Draining {
		return nil
	}
	s.connID++
	c := &Conn{s: s, ID: s.connID, Node: n, life: n.Life, client: client, lostToNode: run.Never, lostToClient: run.Never}
	n.Conns[c.ID] = c
	if client != nil {
		s.Conns = append(s.Conns, c)
	}
	return c
}

// forget takes a dead connection off the list of those that may be cut.
func (s *System) forget(c *Conn) {
	for i, o := range s.Conns {
		if o == c {
			s.Conns = append(s.Conns[:i], s.Conns[i+1:]...)
			return
		}
	}
}

// Ghost sends a request once more over a connection of its own, at a later
// time: a frame that lay somewhere while its client had long turned away. In
// the history it is a request of nobody that never ends.
func (s *System) Ghost(m gproto.Message, by string) {
	s.After(s.Between(0, s.Plan.Net.Late), func() {
		c := s.Dial(nil, nil)
		if c == nil {
			return
		}
		s.Stats[stats.Ghosts]++
		for _, e := range convert.Invocations(m) {
			s.Invoke(e)
		}
		method := convert.MethodOf(m)
		c.Node.receive(c, &message.Request{From: message.Origin{Conn: c.ID, Request: 1, Method: uint16(method)}, Body: m, By: by}, convert.Urgent(method))
		s.After(s.About(50*time.Millisecond), c.goneAtNode)
	})
}
