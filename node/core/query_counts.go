package core

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/call"
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

func (c *Core) log(now clock.Time, r *message.Request, m *nornv1.LogRequest) (gproto.Message, *proto.Error) {
	from, deadline := r.From, r.Deadline
	task, bad := convert.ReadID(m.GetId())
	wait := proto.Seconds(m.GetWaitSeconds())
	switch {
	case bad != nil:
	case convert.CheckWait(m) != nil:
		bad = convert.CheckWait(m)
	case wait > 0:
		bad = c.dispatch.RoomToWait(from.Conn, 0, r.Scope.Tenant())
	}
	if bad != nil {
		return nil, bad
	}
	w := &logWait{from: from, task: task, tenant: r.Scope.Tenant(), req: m, unsure: c.replication.Reads.TooFewAnswered, Deadline: call.Deadline{Until: now.Mono + int64(wait)}}
	if deadline != 0 {
		w.Until = min(w.Until, deadline)
	}
	if wait == 0 {
		c.round.Ready.Reads = append(c.round.Ready.Reads, c.logs.read(w, false))
		return nil, nil
	}
	c.round.Ready.Reads = append(c.round.Ready.Reads, c.logs.add(w))
	return nil, nil
}
