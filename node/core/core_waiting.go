package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
)

// gone forgets the waiting requests of a closed connection.
func (c *Core) gone(conn uint64) {
	c.ground.Pending.Gone(conn)
	c.sessions.Gone(c.round.Now, conn)
	c.dispatch.Gone(conn)
}

// drain sends waiting requests away and refuses new ones, for a reason.
func (c *Core) drain(why *proto.Error) {
	c.closed = why
	c.dispatch.Drain(why)
	c.logs.Drain(why)
	c.ground.Pending.Drain(why)
}

// timeouts answers the requests whose wait is over.
func (c *Core) timeouts(now clock.Time) {
	c.dispatch.Timeouts(now)
	c.logs.Timeouts(now)
}
