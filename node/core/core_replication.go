package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/register"
)

// replicating is what this node does with what replication brings.
type replicating struct{ *Core }

// newReplication brings the facts of a node to others. What is opened later is given to it then.
func newReplication(c *Core) *replication.Machine {
	return replication.New(replication.Env{
		Self: c.cfg.Self, Cluster: [16]byte(c.cfg.Cluster.ID), Random: c.cfg.Rand.Uint64, View: c.view, Round: c.round, Node: replicating{c},
	})
}

// Request handles a request that has waited.
func (c replicating) Request(now clock.Time, r *message.Request) { c.request(now, r) }

// Keep merges facts of a member.
func (c replicating) Keep(now clock.Time, from register.Member, part *message.PartFacts) {
	peers(c).keep(now, from, part, false)
}
