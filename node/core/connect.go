package core

import (
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// connect gives the machines of a node to each other, and the ports by which they reach what only
// the whole node does: a request, and what else is waiting.
func connect(c *Core, vcfg vnode.Config) {
	closed := func() bool { return c.closed != nil }
	c.register.Standing = c.standing
	c.routes.Standing = c.standing
	c.routes.Node = routing{c.request, &c.sessions.Asks, &c.dropped}
	r := c.replication
	r.Standing, r.Acceptors, r.Leadership, r.Leases, r.Transfer = c.standing, c.acceptors, c.elector, c.leases, c.transfer
	r.Node = replicating{c.request, c.arrivals}
	d := c.dispatch
	d.Standing, d.Leases, d.Node = c.standing, c.leases, dispatching{c.queues, c.sessions, c.elector}
	c.queues.Standing = c.standing
	k := c.keys
	k.Standing, k.Leaders, k.Proofs = c.standing, deciding{&r.Confirms, r.Writes}, comparing{c.retention.Tombstones, c.repairs}
	a := c.arrivals
	a.Transfer, a.Tombstones, a.Dependency = c.transfer, c.retention.Tombstones, c.dependency
	s := c.settle
	s.Standing, s.Leases, s.Transfer, s.Sessions = c.standing, c.leases, c.transfer, &c.sessions.Known
	i := c.intake
	i.Standing, i.Transfer, i.Retention, i.Dependency = c.standing, c.transfer, c.retention, c.dependency
	c.status.Standing, c.status.Transfer, c.status.Repairs = c.standing, c.transfer, c.repairs
	e := c.explain
	e.Leases, e.Sessions, e.Dependency = c.leases, c.sessions, c.dependency
	t := c.transfer
	t.Repairs, t.Tombstones = c.repairs, tombstones{c.retention.Tombstones}
	t.Elections = cohorts{c.elector, c.acceptors}
	t.Node = moving{
		register: c.register, facts: c.arrivals, clocks: c.standing.Clocks, index: c.dispatch.Index, queues: c.queues,
		blank: func(p ring.Partition) (*vnode.Vnode, error) {
			return vnode.Blank(p, vcfg, c.round.Tx, c.round.Now)
		},
	}
	c.schedules.Standing, c.schedules.Dependency = c.standing, c.dependency
	c.schedules.Node = launching{c.register, &c.intake.Disk, closed, c.lists()}
	w := serving{handler: c.request, closed: closed, routes: c.routes, dispatch: c.dispatch, settle: c.settle, register: c.register}
	c.sessions.Routes, c.sessions.Node = w, w
	dep := c.dependency
	dep.Routes, dep.Reads, dep.Leases, dep.Times = finding{c.routes, c.schedules}, r.Reads, c.leases, c.standing.Clocks
	dep.Others = ending{c.schedules, c.round}
}
