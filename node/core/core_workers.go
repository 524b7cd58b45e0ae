package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// serving is what this node does for the sessions of workers.
type serving struct{ *Core }

// newWorkers has the sessions of a node.
func newWorkers(c *Core) (*workers.Machine, error) {
	s := serving{c}
	return workers.New(workers.Env{
		Self: c.cfg.Self, Buffer: c.cfg.Buffer, Sessions: c.cfg.Sessions, Random: c.cfg.Rand.Uint64,
		View: c.view, Round: c.round, Partitions: c.vnodes, Routes: s, Node: s,
	})
}

// Leader leads a partition, as far as is known.
func (c serving) Leader(p ring.Partition) (register.Member, bool) { return c.routes.Leader(p) }

// Leaders are the other nodes that lead any.
func (c serving) Leaders() []register.Member { return c.dispatch.Leaders() }

// Crowds is why one more request of a client may not wait for other nodes.
func (c serving) Crowds(from message.Origin) *proto.Error {
	if c.routes.Crowds(from) {
		return refusal.Crowded(router.MaxWaiting)
	}
	return nil
}

// Pass has another node answer a request.
func (c serving) Pass(now clock.Time, r *message.Request, to register.Member, body gproto.Message) {
	g := c.routes.Gather(now, r, &router.Whole{}, 0)
	c.routes.Forward(now, g, to, nil, body, nil)
	c.routes.Finish(g)
}

// Gather has some nodes answer it together.
func (c serving) Gather(now clock.Time, r *message.Request, join workers.Joiner, to []register.Member, body gproto.Message) {
	g := c.routes.Gather(now, r, join, statusTimeout-router.ForwardTimeout)
	for _, m := range to {
		c.routes.Forward(now, g, m, nil, body, nil)
	}
	c.routes.Finish(g)
}

// Closed tells that requests are taken no more.
func (c serving) Closed() bool { return c.closed != nil }

// Request takes a request of a session.
func (c serving) Request(now clock.Time, r *message.Request) { c.request(now, r) }

// Cancel withdraws one.
func (c serving) Cancel(from message.Origin) { c.cancel(from) }

// State is that of a task that is kept here.
func (c serving) State(task id.ID) nornv1.State { return settling(c).stateOf(task) }

// AskedFor is how many claim requests wait here for a queue, and when one last came.
func (c serving) AskedFor(queue string) (waiting uint64, last *timestamppb.Timestamp) {
	return uint64(c.dispatch.Index.WaitingFor(queue)), convert.Timestamp(c.dispatch.Index.AskedAt(queue))
}

// ChangeNames asks the register for changes of names.
func (c serving) ChangeNames(changes []register.NameChange, then func(clock.Time, register.Result)) {
	c.send(registerRequest{then: then}, register.Request{Names: changes})
}
