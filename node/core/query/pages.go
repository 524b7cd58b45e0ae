package query

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// failed keeps the error of a part: then there is no answer.
type failed struct{ err *proto.Error }

// Fail keeps the error of a part.
func (f *failed) Fail(_ []int, err *proto.Error) { f.err = err }

// Lists joins pages of several nodes into one, in ID order.
type Lists struct {
	failed
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Limit is that of the page; 0: the usual one.
	Limit int
	pages []*nornv1.ListReply
}

// Take adds the page of a node.
func (l *Lists) Take(_ []int, m gproto.Message) {
	if page, ok := m.(*nornv1.ListReply); ok {
		l.pages = append(l.pages, page)
	}
}

// Answer cuts the page where the first of the parts that have more has ended:
// what that part has not shown may come before what others have.
func (l *Lists) Answer() (gproto.Message, *proto.Error) {
	if l.err != nil {
		return nil, l.err
	}
	if l.Limit == 0 {
		l.Limit = defaultPage
	}
	reply := &nornv1.ListReply{}
	more, end := false, ""
	for _, page := range l.pages {
		reply.Tasks = append(reply.Tasks, page.GetTasks()...)
		reply.LookedAt += page.GetLookedAt()
		if last, err := AfterTask(page.GetNextCursor()); err == nil && !last.IsZero() {
			if at := last.String(); !more || (at < end) != l.Policy.PageToLast {
				more, end = true, at
			}
		}
	}
	slices.SortFunc(reply.Tasks, func(a, b *nornv1.Task) int { return cmp.Compare(a.GetId(), b.GetId()) })
	size := 0
	for i, t := range reply.Tasks {
		size += gproto.Size(t)
		switch past := more && (t.GetId() > end || l.Policy.PageEnd && t.GetId() == end); {
		case past:
			reply.Tasks = reply.Tasks[:i]
		case i == l.Limit, i > 0 && size > proto.MaxPageBytes:
			more, end = true, reply.Tasks[i-1].GetId()
			reply.Tasks = reply.Tasks[:i]
		default:
			continue
		}
		break
	}
	if more {
		if last, err := id.Parse(end); err == nil {
			reply.NextCursor, reply.Reached = TaskCursor.Seal(last[:]), convert.Timestamp(last.Nanos())
		}
	}
	return reply, nil
}

// Counts adds up what several nodes count.
type Counts struct {
	failed
	total  nornv1.Count
	queues map[string]*nornv1.Count
}

// Take adds what a node counts.
func (c *Counts) Take(_ []int, m gproto.Message) {
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

// Answer gives the sums.
func (c *Counts) Answer() (gproto.Message, *proto.Error) {
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

// Fill is a page of queues or workers that is being filled.
type Fill struct{ limit, count, size int }

// NewFill begins a page of so many, or of as many as fit it (0).
func NewFill(limit uint32) *Fill {
	if limit == 0 || limit > proto.MaxPageBytes {
		limit = proto.MaxPageBytes // each takes more than a byte
	}
	return &Fill{limit: int(limit)}
}

// Takes tells whether one more goes on the page; the first one does.
func (f *Fill) Takes(m gproto.Message) bool {
	f.count, f.size = f.count+1, f.size+gproto.Size(m)
	return f.count == 1 || f.count <= f.limit && f.size <= proto.MaxPageBytes
}

// Queues adds up what several nodes know of queues. One that a node does
// not know may have its tasks elsewhere. Pages are joined as those of tasks are.
type Queues struct {
	failed
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Asked is the request.
	Asked *nornv1.QueuesRequest
	// Waits is who waits here, where no part is this node's own; nil: one is.
	Waits  func(name string) uint32
	queues map[string]*nornv1.Queue
	end    []byte // of the first of the parts that have more; nil: none has
}

// Take adds the page of a node.
func (l *Queues) Take(_ []int, m gproto.Message) {
	reply, ok := m.(*nornv1.QueuesReply)
	if !ok {
		return
	}
	if l.queues == nil {
		l.queues = make(map[string]*nornv1.Queue)
	}
	if c, err := QueueCursor.Open(reply.GetNextCursor()); err == nil && len(c) > 0 && (l.end == nil || bytes.Compare(c, l.end) < 0) {
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
		sum.Bytes += q.GetBytes()
	}
}

// Answer gives the queues that the request names, or a page of all.
func (l *Queues) Answer() (gproto.Message, *proto.Error) {
	if l.err != nil {
		return nil, l.err
	}
	for name, q := range l.queues { // Any order: each by itself.
		if l.Waits != nil {
			q.WaitingClaims += l.Waits(name)
		}
	}
	names := l.Asked.GetNames()
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
func (l *Queues) page() *nornv1.QueuesReply {
	reply, page, more := &nornv1.QueuesReply{}, NewFill(l.Asked.GetLimit()), l.end != nil
	for _, name := range slices.Sorted(maps.Keys(l.queues)) {
		if l.end != nil && (name > string(l.end) || l.Policy.QueuePageEnd && name == string(l.end)) || !page.Takes(l.queues[name]) {
			more = true
			break
		}
		reply.Queues = append(reply.Queues, l.queues[name])
	}
	if n := len(reply.Queues); more && n > 0 {
		reply.NextCursor = QueueCursor.Seal([]byte(reply.Queues[n-1].GetName()))
	}
	return reply
}

// Changed is a queue that was just changed here, with the counters of all.
type Changed struct {
	Queues
	// Own is the queue as this node sees it.
	Own *nornv1.Queue
	// UpTo is the version of the change: later ones are of another change. Where nothing is set any
	// more the queue has none of its own.
	UpTo uint64
}

// Answer gives the queue.
func (c *Changed) Answer() (gproto.Message, *proto.Error) {
	whole := c.queues[c.Own.GetName()]
	switch {
	case c.err != nil || whole == nil:
		whole = c.Own
	case whole.GetVersion() <= c.UpTo: // the others may not have heard of it
		whole.Settings, whole.Effective, whole.Version = c.Own.GetSettings(), c.Own.GetEffective(), c.Own.GetVersion()
	}
	if whole != c.Own && c.Waits != nil {
		whole.WaitingClaims += c.Waits(whole.GetName())
	}
	return &nornv1.QueuesReply{Queues: []*nornv1.Queue{whole}}, nil
}
