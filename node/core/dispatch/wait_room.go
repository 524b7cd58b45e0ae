package dispatch

import (
	"time"

	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// RoomToWait refuses a request that is to wait where all places are taken, unless the
// connection with the most of them has more than who asks: that one gives one up. So nobody
// has more than an equal share while others ask. tenant is the prefix of the sender's.
func (c *Machine) RoomToWait(conn uint64, bytes int, tenant string) *proto.Error {
	if t := c.Index.tenants.Of(tenant); t != nil {
		_, _, waits := c.Index.tenants.Use(tenant)
		if e := t.Wait(waits); e != nil {
			return e
		}
	}
	d, all := c.Index, c.Readers.Count()+len(c.Index.byTime)
	if all < c.MaxWaiters && d.bytes+bytes <= maxWaitBytes || yields(c, waitsOf(c, conn), bytes) {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d requests wait already, the limit of this node (max-waiters), or they name too many queues", all).Again(time.Second)
}

// fewWaits of a connection are no siege, however few places there are.
const fewWaits = 4

// yields sends the newest request that waits on the connection with the most of them away,
// for the sake of one that has fewer, and tells whether it did.
//
// It ends a request of the widest connection, even if that one is not at fault: max-min
// fairness among the connections, and the newest of its requests is the one that has waited
// least.
func yields(c *Machine, own, bytes int) bool {
	d, most := c.Index, widest(c)
	if waitsOf(c, most) <= max(own+1, fewWaits) {
		return false
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d requests wait, the limit of this node (max-waiters), and this connection has more of them than others that ask", c.MaxWaiters).Again(time.Second)
	if c.Readers.Of(most) > len(d.byConn[most]) && d.bytes+bytes <= maxWaitBytes {
		return c.Readers.SendAway(most, e)
	}
	if len(d.byConn[most]) == 0 {
		return false
	}
	w := call.Latest(d.byConn[most], func(*claimRequest) bool { return true })
	if d.bytes-w.bytes+bytes > maxWaitBytes {
		return false
	}
	d.drop(w)
	c.Round.Refuse(w.from, e)
	return true
}

// waitsOf is how many requests of a connection wait.
func waitsOf(c *Machine, conn uint64) int {
	return len(c.Index.byConn[conn]) + c.Readers.Of(conn)
}

// widestAgain is for how long who has the most waits is taken to be known: to look is to look
// at all connections.
const widestAgain = 100 * time.Millisecond

// widest is the client's connection with the most requests that wait, or about so.
// The answer is kept for [widestAgain], because the walk over all connections is O(connections)
// and every request past the limit asks for it.
func widest(c *Machine) uint64 {
	d := c.Index
	if c.Round.Now.Mono < d.lookedAt+int64(widestAgain) && waitsOf(c, d.widest) > fewWaits {
		return d.widest
	}
	d.lookedAt = c.Round.Now.Mono
	best := 0
	look := func(conn uint64) {
		n := waitsOf(c, conn)
		if conn < message.OwnConns && (n > best || n == best && conn < d.widest) {
			best, d.widest = n, conn
		}
	}
	for conn := range d.byConn { // Any order: the most, of equals the first.
		look(conn)
	}
	for conn := range c.Readers.Conns() { // Any order: likewise.
		look(conn)
	}
	return d.widest
}
