package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
)

// dispatching is what this node knows of others, for who hands out tasks.
type dispatching struct{ *Core }

// newDispatch hands out the tasks of a node. What is opened later is given to it then.
func newDispatch(c *Core) *dispatch.Machine {
	d := dispatching{c}
	return dispatch.New(dispatch.Env{
		Self: c.cfg.Self, Eta: c.cfg.Eta, PartitionCount: c.cfg.Cluster.Partitions,
		MaxClaims: c.cfg.MaxClaims, MaxQueues: c.cfg.MaxQueues, MaxWaiters: c.cfg.MaxWaiters, Rand: c.cfg.Rand,
		View: c.view, Round: c.round, Routes: c.routes, Tenants: c.tenants, Node: d, Readers: c.logs,
	})
}

// Lease is how long a claim lasts where nobody says.
func (c dispatching) Lease(queues []string) time.Duration { return c.queues.lease(queues) }

// Foreign refuses a session that is another principal's.
func (c dispatching) Foreign(session [16]byte, principal string) *proto.Error {
	return c.sessions.Foreign(session, principal)
}

// StepDown has this node lead a partition no more.
func (c dispatching) StepDown(p ring.Partition) { c.elector.StepDown(p) }

// PassedOver tells whether the claim requests of a client's connection are passed over now,
// because it is quiet.
func PassedOver(c *Core, conn uint64, now clock.Time) bool { return c.dispatch.PassedOver(conn, now) }

// timeouts answers the requests whose wait is over.
func (c *Core) timeouts(now clock.Time) {
	c.dispatch.Timeouts(now)
	c.logs.Timeouts(now)
}
