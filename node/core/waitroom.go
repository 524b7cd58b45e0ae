package core

import (
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// roomToWait refuses a request that is to wait where all places are taken, unless the
// connection with the most of them has more than who asks: that one gives one up. So nobody
// has more than an equal share while others ask.
func roomToWait(c *Core, conn uint64, bytes int) *proto.Error {
	d, all := c.desk, c.logs.count+len(c.desk.byTime)
	if all < c.cfg.MaxWaiters && d.bytes+bytes <= maxWaitBytes || yields(c, len(d.byConn[conn])+len(c.logs.byConn[conn]), bytes) {
		return nil
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d requests wait already, the limit of this node (max-waiters), or they name too many queues", all)
	e.RetryAfter = time.Second
	return e
}

// fewWaits of a connection are no siege, however few places there are.
const fewWaits = 4

// yields sends the newest claim request of the connection with the most of them away, for
// the sake of one that has fewer, and tells whether it did.
func yields(c *Core, own, bytes int) bool {
	d := c.desk
	if len(d.byConn[d.widest]) <= max(own+1, fewWaits) {
		return false
	}
	var last *waiter
	// Any order: the numbers differ.
	for _, w := range d.byConn[d.widest] {
		if last == nil || w.number > last.number {
			last = w
		}
	}
	if d.bytes-last.bytes+bytes > maxWaitBytes {
		return false
	}
	d.drop(last)
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d requests wait, the limit of this node (max-waiters), and this connection has more of them than others that ask", c.cfg.MaxWaiters)
	e.RetryAfter = time.Second
	c.refuse(last.from, e)
	return true
}
