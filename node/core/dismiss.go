package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// Left tells whether the node of a core is no member any more and has nothing
// here that others might lack.
func Left(c *Core) bool {
	return c.moves.dismissed && len(c.moves.out)+len(c.moves.drops) == 0
}

// dismissed stops what only members do. What is here may be the only copy: it
// is given to those of the last known cohorts that are in reach, and not
// deleted, because who keeps what now is not known here.
func (c *Core) dismissed(now clock.Time) {
	if c.moves.dismissed {
		return
	}
	c.moves.dismissed = true
	for p := range c.vnodes {
		c.elector.unlead(ring.Partition(p))
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "node %s was removed from the cluster, or another one has taken its place; ask another node", c.cfg.Self.Node)
	e.RetryAfter = time.Second
	c.drain(e)
	c.moves.learn(now)
}
