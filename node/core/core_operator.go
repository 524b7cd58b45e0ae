package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// operating is what this node does for operators.
type operating struct{ *Core }

// newOperator does what operators ask of a node, once all is opened.
func newOperator(c *Core) *operator.Machine {
	return operator.New(operator.Env{
		Self: c.cfg.Self, Cluster: c.cfg.Cluster.ID, View: c.view, Round: c.round, Partitions: c.vnodes, Standing: c.standing,
		Acceptors: c.acceptors, Transfer: c.transfer, Repairs: c.repairs, Routes: c.routes, Retention: c.retention,
		Replication: c.replication, Node: operating{c},
	})
}

// Consult sends a request to the register, and answers a client with what comes of it.
func (c operating) Consult(
	from message.Origin, r register.Request, unavailable func(error, nornv1.Effect) *proto.Error, effect nornv1.Effect,
	then func(clock.Time, *register.Result) (gproto.Message, *proto.Error),
) (gproto.Message, *proto.Error) {
	return c.consult(from, r, unavailable, effect, then)
}

// Full is why nothing is taken in, as the disk is nearly full.
func (c operating) Full() *proto.Error {
	if diskLow(c.Core) {
		return enqueuing{Core: c.Core}.full()
	}
	return nil
}

// Merge joins facts of one task with what is here.
func (c operating) Merge(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) bool {
	_, ok := peers(c).merge(now, v, facts)
	return ok
}
