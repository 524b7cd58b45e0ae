package nodes

import (
	"time"

	"github.com/norn-dev/norn/node/core/message"

	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// Client is the end of a connection that is not a node's.
type Client interface {
	// Answered takes in a reply.
	Answered(c *Conn, reply message.Reply)
	// Lost hears that a connection has broken: nothing on it will be answered.
	Lost(c *Conn)
}

// Conn is one connection between a client and the node, as TCP gives it: in
// order, without loss, until it breaks; then a prefix of what was under way
// still arrives, and each side hears of the end in its own time.
type Conn struct {
	s      *System
	ID     uint64
	Node   *Node
	life   int
	client Client // nil: a ghost, which sends one request and reads nothing

	ToNode, toClient         int64 // nothing arrives before these times: order is kept
	lostToNode, lostToClient int64 // nothing arrives after these
	dead                     bool  // it is broken or closed; both ends will hear of it
}

// Request sends a request to the node; it arrives or is lost.
func (c *Conn) Request(r *message.Request, urgent bool) {
	c.reach(func() { c.Node.receive(c, r, urgent) })
}

// Cancel sends the withdrawal of a request.
func (c *Conn) Cancel(request uint64, method uint16) {
	c.reach(func() {
		c.Node.Put(message.Cancel{From: message.Origin{Conn: c.ID, Request: request, Method: method}}, true)
	})
}

func (c *Conn) reach(fn func()) {
	at := max(c.s.Now+int64(c.s.Delay()), c.ToNode)
	c.ToNode = at
	c.s.At(at, func() {
		if at <= c.lostToNode && c.Node.Up && c.Node.Life == c.life && c.Node.Conns[c.ID] != nil {
			fn()
		}
	})
}

// answer sends a reply to the client; it arrives or is lost.
func (c *Conn) answer(reply message.Reply) {
	if c.client == nil {
		return
	}
	at := max(c.s.Now+int64(c.s.Delay()), c.toClient)
	c.toClient = at
	c.s.At(at, func() {
		if at <= c.lostToClient {
			c.client.Answered(c, reply)
		}
	})
}

// Cut breaks the connection somewhere between its ends.
func (c *Conn) Cut() {
	if c.dead {
		return
	}
	c.dead = true
	s := c.s
	s.Stats[stats.Cuts]++
	c.lostToNode = s.Now + int64(s.Delay())/2
	c.lostToClient = s.Now + int64(s.Delay())/2
	hear := s.Delay()
	if s.Chance(s.Plan.Net.Idle) {
		hear = s.Between(0, 10*time.Second)
	}
	s.At(c.lostToNode+int64(hear), c.goneAtNode)
	s.At(c.lostToClient+int64(s.Delay()), func() { c.client.Lost(c) })
	s.forget(c)
}

// Close is the client hanging up: what it sent before still arrives.
func (c *Conn) Close() {
	if c.dead {
		return
	}
	c.dead = true
	c.reach(c.goneAtNode)
	c.s.forget(c)
}

// broken is the end of the node's process, as the client hears of it.
func (c *Conn) broken() {
	c.dead = true
	c.lostToClient = min(c.lostToClient, c.s.Now+int64(c.s.Delay()))
	c.s.At(c.lostToClient+int64(c.s.Delay()), func() { c.client.Lost(c) })
}

func (c *Conn) goneAtNode() {
	if c.Node.Up && c.Node.Life == c.life {
		c.Node.gone(c)
	}
}
