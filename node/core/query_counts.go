package core

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

func (c *Core) count(r *message.Request, m *nornv1.CountRequest) (gproto.Message, *proto.Error) {
	about := c.about(r)
	if m.GetQueue() != "" {
		if err := proto.CheckQueue(m.GetQueue()); err != nil {
			return nil, err
		}
	}
	sums := make(map[string]*vnode.Counts)
	total := &vnode.Counts{}
	if name := m.GetQueue(); name != "" {
		n := c.queues.count(name, about)
		reply := &nornv1.CountReply{Total: convert.Count("", n)}
		if n.Total() > 0 {
			reply.Queues = []*nornv1.Count{convert.Count(name, n)}
		}
		return reply, nil
	}
	for _, p := range about {
		c.vnodes.See(p).Queues(func(name string, n *vnode.Counts) {
			if n.Total() == 0 || !r.Scope.May(guard.See, name) {
				return
			}
			if sums[name] == nil {
				sums[name] = &vnode.Counts{}
			}
			sums[name].Add(n)
			total.Add(n)
		})
	}
	reply := &nornv1.CountReply{Total: convert.Count("", total)}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		reply.Queues = append(reply.Queues, convert.Count(name, sums[name]))
	}
	return reply, nil
}

// log answers with lines of a log, or waits for some.
func (c *Core) log(now clock.Time, r *message.Request, m *nornv1.LogRequest) (gproto.Message, *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	wait := proto.Seconds(m.GetWaitSeconds())
	switch {
	case bad != nil:
	case convert.CheckWait(m) != nil:
		bad = convert.CheckWait(m)
	case wait > 0:
		bad = c.dispatch.RoomToWait(r.From.Conn, 0, r.Scope.Tenant())
	}
	if bad != nil {
		return nil, bad
	}
	c.logs.Follow(now, r, m, task, c.replication.Reads.TooFewAnswered)
	return nil, nil
}
