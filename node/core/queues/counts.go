package queues

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Counts answers a request for how many tasks there are.
func (q *Machine) Counts(r *message.Request, m *nornv1.CountRequest) (gproto.Message, *proto.Error) {
	about := query.About(q.View, q.Partitions, r)
	if m.GetQueue() != "" {
		if err := proto.CheckQueue(m.GetQueue()); err != nil {
			return nil, err
		}
	}
	sums := make(map[string]*vnode.Counts)
	total := &vnode.Counts{}
	if name := m.GetQueue(); name != "" {
		n := q.Count(name, about)
		reply := &nornv1.CountReply{Total: convert.Count("", n)}
		if n.Total() > 0 {
			reply.Queues = []*nornv1.Count{convert.Count(name, n)}
		}
		return reply, nil
	}
	for _, p := range about {
		q.Partitions.See(p).Queues(func(name string, n *vnode.Counts) {
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
