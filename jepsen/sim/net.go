package sim

import (
	"time"

	"github.com/norn-dev/norn/node/core/message"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// conn is one connection between a client and the node, as TCP gives it: in
// order, without loss, until it breaks; then a prefix of what was under way
// still arrives, and each side hears of the end in its own time.
type conn struct {
	s      *sim
	id     uint64
	node   *node
	life   int
	client *caller // nil: a ghost, which sends one request and reads nothing

	toNode, toClient         int64 // nothing arrives before these times: order is kept
	lostToNode, lostToClient int64 // nothing arrives after these
	dead                     bool  // it is broken or closed; both ends will hear of it
}

// dial makes a connection, or nil when no node listens.
func (s *sim) dial(client *caller) *conn {
	n := s.server(client)
	if n == nil || !n.up || n.draining {
		return nil
	}
	s.connID++
	c := &conn{s: s, id: s.connID, node: n, life: n.Life, client: client, lostToNode: never, lostToClient: never}
	n.conns[c.id] = c
	if client != nil {
		s.conns = append(s.conns, c)
	}
	return c
}

// delay draws how long a frame travels.
func (s *sim) delay() time.Duration {
	if s.Chance(s.plan.Net.Spike) {
		return s.Between(0, time.Second)
	}
	return s.About(s.plan.Net.Delay)
}

// request sends a request to the node; it arrives or is lost.
func (c *conn) request(r *message.Request, urgent bool) {
	c.reach(func() { c.node.receive(c, r, urgent) })
}

// cancel sends the withdrawal of a request.
func (c *conn) cancel(request uint64, method uint16) {
	c.reach(func() {
		c.node.put(message.Cancel{From: message.Origin{Conn: c.id, Request: request, Method: method}}, true)
	})
}

func (c *conn) reach(fn func()) {
	at := max(c.s.Now+int64(c.s.delay()), c.toNode)
	c.toNode = at
	c.s.At(at, func() {
		if at <= c.lostToNode && c.node.up && c.node.Life == c.life && c.node.conns[c.id] != nil {
			fn()
		}
	})
}

// answer sends a reply to the client; it arrives or is lost.
func (c *conn) answer(reply message.Reply) {
	if c.client == nil {
		return
	}
	at := max(c.s.Now+int64(c.s.delay()), c.toClient)
	c.toClient = at
	c.s.At(at, func() {
		if at <= c.lostToClient && c.client.conn == c {
			c.client.answered(reply)
		}
	})
}

// cut breaks the connection somewhere between its ends.
func (c *conn) cut() {
	if c.dead {
		return
	}
	c.dead = true
	s := c.s
	s.stats[stats.Cuts]++
	c.lostToNode = s.Now + int64(s.delay())/2
	c.lostToClient = s.Now + int64(s.delay())/2
	hear := s.delay()
	if s.Chance(s.plan.Net.Idle) {
		hear = s.Between(0, 10*time.Second)
	}
	s.At(c.lostToNode+int64(hear), c.goneAtNode)
	s.At(c.lostToClient+int64(s.delay()), func() { c.client.lost(c) })
	s.forget(c)
}

// close is the client hanging up: what it sent before still arrives.
func (c *conn) close() {
	if c.dead {
		return
	}
	c.dead = true
	c.reach(c.goneAtNode)
	c.s.forget(c)
}

// broken is the end of the node's process, as the client hears of it.
func (c *conn) broken() {
	c.dead = true
	c.lostToClient = min(c.lostToClient, c.s.Now+int64(c.s.delay()))
	c.s.At(c.lostToClient+int64(c.s.delay()), func() { c.client.lost(c) })
}

func (c *conn) goneAtNode() {
	if c.node.up && c.node.Life == c.life {
		c.node.gone(c)
	}
}

// forget takes a dead connection off the list of those that may be cut.
func (s *sim) forget(c *conn) {
	for i, o := range s.conns {
		if o == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			return
		}
	}
}

// ghost sends a request once more over a connection of its own, at a later
// time: a frame that lay somewhere while its client had long turned away. In
// the history it is a request of nobody that never ends.
func (s *sim) ghost(m gproto.Message, by string) {
	s.After(s.Between(0, s.plan.Net.Late), func() {
		c := s.dial(nil)
		if c == nil {
			return
		}
		s.stats[stats.Ghosts]++
		for _, e := range convert.Invocations(m) {
			s.invoke(e)
		}
		method := convert.MethodOf(m)
		c.node.receive(c, &message.Request{From: message.Origin{Conn: c.id, Request: 1, Method: uint16(method)}, Body: m, By: by}, convert.Urgent(method))
		s.After(s.About(50*time.Millisecond), c.goneAtNode)
	})
}
