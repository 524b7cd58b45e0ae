package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// Left tells whether the node of a core is no member any more and has nothing
// here that others might lack.
func Left(c *Core) bool {
	return c.view.Dismissed && len(c.transfer.Outgoing)+len(c.view.Dropping) == 0
}

// shows tells whether a request is answered all the same: the others show in
// their status what a removed node has still to hand over, and what it keeps aside.
func (c observer) shows(r *message.Request) bool {
	_, status := r.Body.(*nornv1.StatusRequest)
	return status && r.Routed && c.view.Dismissed
}

// dismissed stops what only members do. What is here may be the only copy: it
// is given to those who keep it now, as the others say ([formerMember]), and deleted as
// a zombie's is, when a majority of them has it.
func (c *Core) dismissed(now clock.Time) {
	if c.view.Dismissed {
		return
	}
	c.view.Dismissed = true
	for p := range c.view.Cells {
		c.elector.StepDown(ring.Partition(p))
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "node %s was removed from the cluster, or another one has taken its place; ask another node", c.cfg.Self.Node).Again(time.Second)
	c.drain(e)
	c.view.Look() // nothing is available here any more
	c.transfer.Learn(now)
}
