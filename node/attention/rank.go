package attention

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Limits of one ranking.
const (
	mostRanked  = 100_000 // queues that are read
	usualRanked = 100     // queues in an answer
	largeRanked = 1000
	maxPart     = 128 // bytes of a part of a name, as of a name
)

// Rank gives some of all queues in an order.
func Rank(ctx context.Context, ask Ask, m *nornv1.RankQueuesRequest) (*nornv1.RankQueuesReply, *proto.Error) {
	by, known := orders[m.GetBy()]
	switch {
	case len(m.GetContains()) > maxPart:
		return nil, proto.Invalid("contains has %d bytes, over the limit of %d", len(m.GetContains()), maxPart)
	case m.GetLimit() > largeRanked:
		return nil, proto.Invalid("limit is %d, over the limit of %d", m.GetLimit(), largeRanked)
	case !known:
		return nil, proto.Invalid("by is %v, which this server does not know", m.GetBy())
	}
	reply, part := &nornv1.RankQueuesReply{Total: &nornv1.Count{}}, strings.ToLower(m.GetContains())
	var all []*nornv1.Queue
	read := 0
	for page := (&nornv1.QueuesRequest{}); ; {
		got, err := one[*nornv1.QueuesReply](look{ctx: ctx, ask: ask}, nornv1.Method_METHOD_QUEUES, page)
		if err != nil {
			return nil, err
		}
		read += len(got.GetQueues())
		for _, q := range got.GetQueues() {
			if strings.Contains(strings.ToLower(q.GetName()), part) {
				all = append(all, q)
				add(reply.GetTotal(), q.GetCount())
			}
		}
		if len(got.GetNextCursor()) == 0 {
			break
		}
		if read >= mostRanked {
			reply.Cut = true
			break
		}
		page = &nornv1.QueuesRequest{Cursor: got.GetNextCursor()}
	}
	slices.SortFunc(all, func(a, b *nornv1.Queue) int {
		c := 0
		if by != nil {
			c = cmp.Compare(by(a), by(b))
		}
		if m.GetDescending() {
			c = -c
		}
		if by == nil && m.GetDescending() {
			return strings.Compare(b.GetName(), a.GetName())
		}
		return cmp.Or(c, strings.Compare(a.GetName(), b.GetName()))
	})
	reply.Found = uint64(len(all))
	all = all[min(int(m.GetOffset()), len(all)):]
	reply.Queues = all[:min(len(all), cmp.Or(int(m.GetLimit()), usualRanked))]
	return reply, nil
}

// orders are the values that queues are put in order by; nil: their names.
var orders = map[nornv1.QueueOrder]func(*nornv1.Queue) float64{
	nornv1.QueueOrder_QUEUE_ORDER_UNSPECIFIED:    nil,
	nornv1.QueueOrder_QUEUE_ORDER_READY:          func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetReady()) },
	nornv1.QueueOrder_QUEUE_ORDER_CLAIMED:        func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetClaimed()) },
	nornv1.QueueOrder_QUEUE_ORDER_WAITING:        func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetWaiting()) },
	nornv1.QueueOrder_QUEUE_ORDER_SCHEDULED:      func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetScheduled()) },
	nornv1.QueueOrder_QUEUE_ORDER_COMPLETED:      func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetCompleted()) },
	nornv1.QueueOrder_QUEUE_ORDER_DEAD:           func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetDead()) },
	nornv1.QueueOrder_QUEUE_ORDER_CANCELLED:      func(q *nornv1.Queue) float64 { return float64(q.GetCount().GetCancelled()) },
	nornv1.QueueOrder_QUEUE_ORDER_OLDEST_READY:   (*nornv1.Queue).GetOldestReadySeconds,
	nornv1.QueueOrder_QUEUE_ORDER_WAITING_CLAIMS: func(q *nornv1.Queue) float64 { return float64(q.GetWaitingClaims()) },
	nornv1.QueueOrder_QUEUE_ORDER_BUSY: func(q *nornv1.Queue) float64 {
		return float64(q.GetCount().GetReady() + q.GetCount().GetClaimed())
	},
}

// add adds the tasks of a queue to those of others.
func add(sum, n *nornv1.Count) {
	sum.Total += n.GetTotal()
	sum.Waiting += n.GetWaiting()
	sum.Scheduled += n.GetScheduled()
	sum.Ready += n.GetReady()
	sum.Claimed += n.GetClaimed()
	sum.Completed += n.GetCompleted()
	sum.Dead += n.GetDead()
	sum.Cancelled += n.GetCancelled()
}
