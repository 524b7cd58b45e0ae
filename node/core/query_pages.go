package core

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// lists joins pages of several nodes into one, in ID order.
type lists struct {
	limit int
	pages []*nornv1.ListReply
	err   *proto.Error
}

func (l *lists) take(_ []int, m gproto.Message) {
	if page, ok := m.(*nornv1.ListReply); ok {
		l.pages = append(l.pages, page)
	}
}

func (l *lists) fail(_ []int, err *proto.Error) { l.err = err }

// answer cuts the page where the first of the parts that have more has ended:
// what that part has not shown may come before what others have.
func (l *lists) answer() (gproto.Message, *proto.Error) {
	if l.err != nil {
		return nil, l.err
	}
	if l.limit == 0 {
		l.limit = defaultPage
	}
	reply := &nornv1.ListReply{}
	more, end := false, ""
	for _, page := range l.pages {
		reply.Tasks = append(reply.Tasks, page.GetTasks()...)
		reply.LookedAt += page.GetLookedAt()
		if last, err := afterTask(page.GetNextCursor()); err == nil && !last.IsZero() {
			if at := last.String(); !more || (at < end) != mutant.PageToLast.On() {
				more, end = true, at
			}
		}
	}
	slices.SortFunc(reply.Tasks, func(a, b *nornv1.Task) int { return cmp.Compare(a.GetId(), b.GetId()) })
	size := 0
	for i, t := range reply.Tasks {
		size += gproto.Size(t)
		switch past := more && (t.GetId() > end || mutant.PageEnd.On() && t.GetId() == end); {
		case past:
			reply.Tasks = reply.Tasks[:i]
		case i == l.limit, i > 0 && size > proto.MaxPageBytes:
			more, end = true, reply.Tasks[i-1].GetId()
			reply.Tasks = reply.Tasks[:i]
		default:
			continue
		}
		break
	}
	if more {
		if last, err := id.Parse(end); err == nil {
			reply.NextCursor, reply.Reached = taskCursor.seal(last[:]), convert.Timestamp(last.Nanos())
		}
	}
	return reply, nil
}

// counts adds up what several nodes count.
type counts struct {
	total  nornv1.Count
	queues map[string]*nornv1.Count
	err    *proto.Error
}

func (c *counts) take(_ []int, m gproto.Message) {
	reply, ok := m.(*nornv1.CountReply)
	if !ok {
		return
	}
	if c.queues == nil {
		c.queues = make(map[string]*nornv1.Count)
	}
	addCount(&c.total, reply.GetTotal())
	for _, q := range reply.GetQueues() {
		if c.queues[q.GetQueue()] == nil {
			c.queues[q.GetQueue()] = &nornv1.Count{Queue: q.GetQueue()}
		}
		addCount(c.queues[q.GetQueue()], q)
	}
}

func (c *counts) fail(_ []int, err *proto.Error) { c.err = err }

func (c *counts) answer() (gproto.Message, *proto.Error) {
	if c.err != nil {
		return nil, c.err
	}
	reply := &nornv1.CountReply{Total: &c.total}
	for _, name := range slices.Sorted(maps.Keys(c.queues)) {
		reply.Queues = append(reply.Queues, c.queues[name])
	}
	return reply, nil
}

func addCount(to, n *nornv1.Count) {
	to.Waiting += n.GetWaiting()
	to.Scheduled += n.GetScheduled()
	to.Ready += n.GetReady()
	to.Claimed += n.GetClaimed()
	to.Completed += n.GetCompleted()
	to.Dead += n.GetDead()
	to.Cancelled += n.GetCancelled()
	to.Total += n.GetTotal()
}

// fill is a page of queues or workers that is being filled.
type fill struct{ limit, count, size int }

// newFill begins a page of so many, or of as many as fit it (0).
func newFill(limit uint32) *fill {
	if limit == 0 || limit > proto.MaxPageBytes {
		limit = proto.MaxPageBytes // each takes more than a byte
	}
	return &fill{limit: int(limit)}
}

// takes tells whether one more goes on the page; the first one does.
func (f *fill) takes(m gproto.Message) bool {
	f.count, f.size = f.count+1, f.size+gproto.Size(m)
	return f.count == 1 || f.count <= f.limit && f.size <= proto.MaxPageBytes
}

// queueLists adds up what several nodes know of queues. One that a node does
// not know may have its tasks elsewhere. Pages are joined as those of tasks are.
type queueLists struct {
	asked  *nornv1.QueuesRequest
	waits  func(name string) uint32 // who waits here, where no part is this node's own; nil: one is
	queues map[string]*nornv1.Queue
	end    []byte // of the first of the parts that have more; nil: none has
	err    *proto.Error
}

func (l *queueLists) take(_ []int, m gproto.Message) {
	reply, ok := m.(*nornv1.QueuesReply)
	if !ok {
		return
	}
	if l.queues == nil {
		l.queues = make(map[string]*nornv1.Queue)
	}
	if c, err := queueCursor.open(reply.GetNextCursor()); err == nil && len(c) > 0 && (l.end == nil || bytes.Compare(c, l.end) < 0) {
		l.end = c
	}
	twice := make(map[string]bool, len(reply.GetQueues())) // where the request names a queue twice, so does each part
	for _, q := range reply.GetQueues() {
		if twice[q.GetName()] {
			continue
		}
		twice[q.GetName()] = true
		sum := l.queues[q.GetName()]
		if sum == nil {
			l.queues[q.GetName()] = gproto.CloneOf(q)
			continue
		}
		if q.GetVersion() > sum.GetVersion() {
			sum.Version, sum.Settings, sum.Effective = q.GetVersion(), q.GetSettings(), q.GetEffective()
		}
		addCount(sum.GetCount(), q.GetCount())
		sum.OldestReadySeconds = max(sum.GetOldestReadySeconds(), q.GetOldestReadySeconds())
		sum.WaitingClaims += q.GetWaitingClaims()
	}
}

func (l *queueLists) fail(_ []int, err *proto.Error) { l.err = err }

func (l *queueLists) answer() (gproto.Message, *proto.Error) {
	if l.err != nil {
		return nil, l.err
	}
	for name, q := range l.queues { // Any order: each by itself.
		if l.waits != nil {
			q.WaitingClaims += l.waits(name)
		}
	}
	names := l.asked.GetNames()
	if len(names) == 0 {
		return l.page(), nil
	}
	reply := &nornv1.QueuesReply{}
	for _, name := range names {
		if l.queues[name] == nil {
			return nil, refusal.NoQueue(name)
		}
		reply.Queues = append(reply.Queues, l.queues[name])
	}
	return reply, nil
}

// page is a page of all of them.
func (l *queueLists) page() *nornv1.QueuesReply {
	reply, page, more := &nornv1.QueuesReply{}, newFill(l.asked.GetLimit()), l.end != nil
	for _, name := range slices.Sorted(maps.Keys(l.queues)) {
		if l.end != nil && (name > string(l.end) || mutant.QueuePageEnd.On() && name == string(l.end)) || !page.takes(l.queues[name]) {
			more = true
			break
		}
		reply.Queues = append(reply.Queues, l.queues[name])
	}
	if n := len(reply.Queues); more && n > 0 {
		reply.NextCursor = queueCursor.seal([]byte(reply.Queues[n-1].GetName()))
	}
	return reply
}
