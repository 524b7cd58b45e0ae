package query

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// NewGet makes the read of one task.
func NewGet(q *message.Request, m *nornv1.GetRequest, partitions int) (message.Read, *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	if bad != nil {
		return message.Read{From: q.From}, bad
	}
	p := ring.Of(task, partitions)
	atLeast := m.GetConsistency()
	return message.Read{From: q.From, Func: func(view store.View, _ clock.Time) (gproto.Message, *proto.Error, error) {
		d, err := vnode.ReadTask(view, p, task, vnode.ReadOptions{Log: proto.MaxUpdatesInTask, Attempts: true})
		if err != nil {
			return nil, nil, err
		}
		if d.Task.Enqueued == nil && d.Task.Outcome() == crdt.StateUnknown {
			return nil, refusal.NoTask(task), nil
		}
		if atLeast.GetAtLeast() && !Seen(view, p, d.Task, atLeast) {
			e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "update %d of claim %d is on none of the replicas that answered", atLeast.GetAtLeastSeq(), atLeast.GetAtLeastToken())
			e.Guarantee = refusal.MonotonicRead
			return nil, e, nil
		}
		reply := &nornv1.GetReply{Task: convert.Task(d, proto.MaxUpdatesInTask)}
		q.Scope.Show(reply)
		return reply, nil, nil
	}}, nil
}

// Seen tells whether the visible log reaches what a client has seen. That a task was
// collected comes after all of its updates.
func Seen(view store.View, p ring.Partition, t *crdt.Task, l *nornv1.Consistency) bool {
	return t.Collected() || vnode.Shows(view, p, t.ID, l.GetAtLeastToken(), l.GetAtLeastSeq())
}

// Pages of a list.
const (
	defaultPage = 100
	// pageSteps bounds the tasks looked at for one page, so that a filter that
	// fits nothing still answers in time; the client asks for the next page.
	pageSteps = 20_000
	// pageScan bounds the bytes of payloads that are searched for one page, likewise.
	pageScan = 32 << 20
)

// NewList makes the read of one page of tasks. all is how many partitions there are.
func NewList(q *message.Request, m *nornv1.ListRequest, partitions []ring.Partition, all int) (message.Read, *proto.Error) {
	return Policy{}.NewList(q, m, partitions, all)
}

// NewList is [NewList] with rules left out.
func (p Policy) NewList(q *message.Request, m *nornv1.ListRequest, partitions []ring.Partition, all int) (message.Read, *proto.Error) {
	r := message.Read{From: q.From}
	if m.GetQueue() != "" {
		if err := proto.CheckQueue(m.GetQueue()); err != nil {
			return r, err
		}
	}
	limit := int(m.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	if limit > proto.MaxListPage {
		return r, proto.Invalid("a page of %d tasks is over the limit of %d", limit, proto.MaxListPage)
	}
	last, err := AfterTask(m.GetCursor())
	if err != nil {
		return r, err
	}
	if err := convert.CheckStates(m.GetStates()); err != nil {
		return r, err
	}
	if err := convert.CheckFilter(m.GetFilter()); err != nil {
		return r, err
	}
	r.Func = func(view store.View, _ clock.Time) (gproto.Message, *proto.Error, error) {
		reply, err := p.listPage(view, partitions, all, last, limit, m, q.Scope)
		q.Scope.Show(reply)
		return reply, nil, err
	}
	return r, nil
}

// AfterTask reads a cursor into a list of tasks; the zero ID for none.
func AfterTask(cursor []byte) (last id.ID, err *proto.Error) {
	at, err := TaskCursor.Open(cursor)
	if err == nil && len(at) > 0 && copy(last[:], at) != len(at) {
		err = proto.Invalid("the cursor is longer than an ID")
	}
	return last, err
}

// listPage merges the partitions in ID order.
func (p Policy) listPage(view store.View, partitions []ring.Partition, all int, last id.ID, limit int, m *nornv1.ListRequest, scope *guard.Scope) (*nornv1.ListReply, error) {
	verbs := guard.See
	if guard.Contents(m.GetFilter()) {
		verbs |= guard.Read
	}
	sought := convert.NewSought(m.GetFilter())
	keep := func(e *crdt.Enqueued) bool {
		return (m.GetQueue() == "" || e.Queue == m.GetQueue()) && scope.May(verbs, e.Queue) && convert.SpecMatches(m.GetFilter(), e) && sought.In(e.Payload)
	}
	merge, err := mergeOf(view, partitions, all, last, m, keep)
	if err != nil {
		return nil, err
	}
	defer merge.close()
	reply := &nornv1.ListReply{}
	size := 0
	for steps := 0; ; steps++ {
		d, at, err := merge.next()
		if err != nil {
			return nil, err
		}
		if d == nil {
			return reply, nil
		}
		if len(reply.Tasks) == limit || size >= proto.MaxPageBytes || steps == pageSteps || sought.Bytes > pageScan && steps > 0 {
			reply.Reached = convert.Timestamp(last.Nanos())
			if reply.NextCursor = TaskCursor.Seal(last[:]); p.LargePage && size >= proto.MaxPageBytes {
				reply.NextCursor = nil
			}
			return reply, nil
		}
		last = d.Task.ID
		if scope == nil || d.Task.Enqueued != nil { // else nobody knows whose it was
			reply.LookedAt++
		}
		if d.Task.Enqueued == nil || len(m.GetStates()) > 0 && !slices.Contains(m.GetStates(), nornv1.State(d.State)) {
			continue
		}
		if !convert.Matches(m.GetFilter(), d) {
			continue
		}
		if d.Lean && !m.GetIdsOnly() {
			if d, err = vnode.ReadTask(view, at, last, vnode.ReadOptions{Log: proto.MaxUpdatesInList}); err != nil {
				return nil, err
			}
		}
		w := convert.Listed(d, m.GetIdsOnly())
		size += gproto.Size(w)
		reply.Tasks = append(reply.Tasks, w)
	}
}

// mergeOf gives the tasks that a list is about, by an index where one has them.
func mergeOf(view store.View, partitions []ring.Partition, all int, last id.ID, m *nornv1.ListRequest, keep func(*crdt.Enqueued) bool) (*taskMerge, error) {
	on, states := m.GetFilter().GetDependsOn(), make([]crdt.State, 0, len(everyState))
	for _, s := range m.GetStates() {
		states = append(states, crdt.State(s))
	}
	switch {
	case len(on) > 0 && unfinished(m.GetStates()):
		return newDependentMerge(view, partitions, all, id.ID(on), last, keep), nil
	case len(states) == 0 && m.GetQueue() == "":
		return newTaskMerge(view, partitions, last, keep), nil
	case len(states) == 0:
		states = everyState
	}
	return newStateMerge(view, partitions, all, m.GetQueue(), states, last, keep)
}

// everyState are the states that a task is in whose enqueue is known.
var everyState = []crdt.State{crdt.StateWaiting, crdt.StateScheduled, crdt.StateReady, crdt.StateClaimed, crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled}

// unfinished tells whether some states are asked for, and none of finished tasks.
func unfinished(states []nornv1.State) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s nornv1.State) bool {
		return s == nornv1.State_STATE_COMPLETED || s == nornv1.State_STATE_DEAD || s == nornv1.State_STATE_CANCELLED
	})
}

const defaultLogPage = 1000

// LogPage reads a page of the log of a task, and nothing of the rest: who follows a task
// asks again with each update, and its log may be long.
func LogPage(view store.View, p ring.Partition, d *vnode.Detail, m *nornv1.LogRequest) (*nornv1.LogReply, error) {
	limit := int(m.GetLimit())
	if limit == 0 || limit > defaultLogPage {
		limit = defaultLogPage
	}
	reply := &nornv1.LogReply{State: nornv1.State(d.State)}
	from := vnode.LogAfter{}
	if m.GetAfter() {
		from = vnode.LogAfter{Is: true, Token: m.GetAfterToken(), Seq: m.GetAfterSeq()}
	}
	all, more, err := vnode.Log(view, p, d.Task.ID, from, limit, proto.MaxPageBytes)
	if err != nil {
		return nil, err
	}
	reply.More = more
	for _, u := range all {
		reply.Updates = append(reply.Updates, convert.Update(&u))
	}
	return reply, nil
}
