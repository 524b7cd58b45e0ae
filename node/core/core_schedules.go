package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// launching is what this node does for the master of schedules.
type launching struct{ operating }

// newSchedules has the schedules of a node. What is opened later is given to it then.
func newSchedules(c *Core) *schedules.Machine {
	return schedules.New(schedules.Env{
		Self: c.cfg.Self, Cluster: [16]byte(c.cfg.Cluster.ID), Grace: c.cfg.GCGrace, MaxPayload: c.cfg.MaxPayload, Rand: c.cfg.Rand,
		View: c.view, Round: c.round, Routes: c.routes, Tenants: c.tenants, Node: launching{operating{c}},
	})
}

// Closed tells that requests are taken no more.
func (c launching) Closed() bool { return c.closed != nil }

// DiskLow tells that the disk is nearly full.
func (c launching) DiskLow() bool { return diskLow(c.Core) }

// Send asks the register for something.
func (c launching) Send(r register.Request, then func(clock.Time, register.Result)) {
	c.send(registerRequest{then: then}, r)
}

// Items are those of a request that is a list.
func (c launching) Items(now clock.Time, body gproto.Message) router.List {
	list, _ := itemsOf(c.Core, now, body)
	return list
}
