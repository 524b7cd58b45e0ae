package intake

import (
	"encoding/binary"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Limits of one request that acts by filter: what it has not looked at then is for the next.
const (
	bulkPages = 20               // pages of a list
	bulkFor   = 10 * time.Second // from its arrival on no further page
)

// where carries out a [nornv1.BulkRequest]: it lists the tasks, page by page, and then cancels
// or retries all of them by one request of its own, which goes wherever it has to.
//
// Invariant: end is that of the first request, in the cursor of all that follow: the tasks
// asked about are those of one time, so that requests that go on with the cursor come to an
// end, however many are enqueued meanwhile.
//
// Invariant: len(ids) is at most limit, and nothing is done before all pages are read: with
// expected set, either as many tasks as were expected are acted upon or none.
type where struct {
	env   *Env
	q     *message.Request
	m     *nornv1.BulkRequest
	began int64  // mono ns
	end   int64  // wall ns: tasks of then and later are left alone
	at    []byte // next_cursor of the list, nil at the end of it
	limit int
	ids   [][]byte
	pages int
}

// ByFilter begins a request that acts by filter.
func (c *Machine) ByFilter(now clock.Time, r *message.Request, m *nornv1.BulkRequest) (gproto.Message, *proto.Error) {
	w := &where{env: &c.Env, q: r, m: gproto.CloneOf(m), began: now.Mono, limit: int(m.GetLimit())}
	if err := w.check(now); err != nil {
		return nil, err
	}
	return w.nextPage(now)
}

// check finds what is wrong with the request, and fills in what it leaves open.
func (w *where) check(now clock.Time) *proto.Error {
	m := w.m
	cancel := m.GetAction() == nornv1.BulkAction_BULK_ACTION_CANCEL
	switch n := len(m.GetReason()); {
	case !cancel && m.GetAction() != nornv1.BulkAction_BULK_ACTION_RETRY:
		return proto.Invalid("the action %d is neither cancel nor retry", m.GetAction())
	case w.limit > proto.MaxBatchTasks:
		return proto.Invalid("a limit of %d tasks is over the limit of %d; go on with next_cursor", w.limit, proto.MaxBatchTasks)
	case n > proto.MaxNoteBytes:
		return proto.Invalid("the reason has %d bytes, over the limit of %d", n, proto.MaxNoteBytes)
	case !cancel && (n > 0 || m.GetDurability() != nil):
		return proto.Invalid("reason and durability are for cancel, not for retry")
	case m.GetQueue() == "" && len(m.GetStates()) == 0 && gproto.Size(m.GetFilter()) == 0 && !m.GetAll() && !m.GetDryRun():
		return proto.Invalid("without queue, states and filter it is about all tasks of all queues; set all if that is meant")
	}
	if cancel {
		if err := w.env.Replication.Writes.Check(m.GetDurability()); err != nil {
			return err
		}
	}
	if len(m.GetStates()) == 0 {
		m.States = []nornv1.State{nornv1.State_STATE_DEAD}
		if cancel {
			m.States = []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED}
		}
	}
	if w.limit == 0 {
		w.limit = proto.MaxBatchTasks
	}
	if _, err := query.NewList(w.q, &nornv1.ListRequest{Queue: m.GetQueue(), States: m.GetStates(), Filter: m.GetFilter()}, nil, 0); err != nil {
		return err
	}
	return w.open(now)
}

// open reads the cursor. Otherwise those who enqueue and the one who cancels could run after
// each other for ever: the node that took a task may be eta ahead of this one, and the task's
// ID, which says when that was, another eta ahead of that node.
func (w *where) open(now clock.Time) *proto.Error {
	at, err := query.BulkCursor.Open(w.m.GetCursor())
	switch {
	case err != nil:
		return err
	case len(at) == 0:
		w.end = w.env.Standing.Clocks.Wall(now) + 2*int64(w.env.Eta) + int64(time.Millisecond)
	case len(at) != 8+id.Size:
		return proto.Invalid("the cursor has %d bytes", len(at))
	default:
		w.end, w.at = int64(binary.BigEndian.Uint64(at)), query.TaskCursor.Seal(at[8:])
	}
	end := time.Unix(0, w.end)
	if w.m.Filter == nil {
		w.m.Filter = &nornv1.Filter{}
	}
	if before := w.m.Filter.GetCreatedBefore(); before == nil || end.Before(before.AsTime()) {
		w.m.Filter.CreatedBefore = timestamppb.New(end)
	}
	return nil
}

// nextPage asks for the next page.
// The list goes to all partitions, as one of a client; the answer comes in a later turn.
func (w *where) nextPage(now clock.Time) (gproto.Message, *proto.Error) {
	page := &router.Whole{}
	return w.part(now, page, nornv1.Method_METHOD_LIST, &nornv1.ListRequest{
		Queue: w.m.GetQueue(), States: w.m.GetStates(), Filter: w.m.GetFilter(), IdsOnly: true,
		Limit: uint32(min(w.limit-len(w.ids), proto.MaxListPage)), Cursor: w.at,
	}, func(*router.Scatter) {
		m, err := w.looked(page)
		w.env.Round.Done(w.q.From, m, err)
	})
}

// part has this node carry out a request of its own, and calls then with its answer in join.
func (w *where) part(now clock.Time, join router.Joiner, method nornv1.Method, body gproto.Message, then func(*router.Scatter)) (gproto.Message, *proto.Error) {
	if w.env.Routes.Waiting() >= router.MaxWaiting {
		return nil, refusal.Crowded(router.MaxWaiting)
	}
	g := w.env.Routes.Gather(now, w.q, join, 0)
	g.Then = then
	w.env.Routes.OwnPart(now, g, 0, uint16(method), body, w.q.Received)
	return nil, nil
}

// looked takes a page.
func (w *where) looked(page *router.Whole) (gproto.Message, *proto.Error) {
	m, err := page.Answer()
	reply, ok := m.(*nornv1.ListReply)
	if !ok && err == nil {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "a list was answered by %T", m)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range reply.GetTasks() {
		task, bad := id.Parse(t.GetId())
		if bad != nil {
			return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "a list has the ID %.40q: %v", t.GetId(), bad)
		}
		w.ids = append(w.ids, task.Bytes())
	}
	now := w.env.Round.Now
	w.at = reply.GetNextCursor()
	w.pages++
	if len(w.at) > 0 && len(w.ids) < w.limit && w.pages < bulkPages && now.Mono < w.began+int64(bulkFor) {
		return w.nextPage(now)
	}
	return w.act(now)
}

// act does to the tasks what was asked for.
// The states are asked for once more, task by task: what has changed since the list was made is
// skipped, not forced.
func (w *where) act(now clock.Time) (gproto.Message, *proto.Error) {
	n := len(w.ids)
	if w.m.Expected != nil && int(w.m.GetExpected()) != n {
		return nil, refusal.Conflict("%d tasks are found, not %d: nothing was done", n, w.m.GetExpected())
	}
	reply := &nornv1.BulkReply{Matched: uint32(n), NextCursor: w.next()}
	if n == 0 || w.m.GetDryRun() {
		return reply, nil
	}
	method, body := nornv1.Method_METHOD_RETRY, gproto.Message(&nornv1.RetryRequest{Ids: w.ids, OnlyStates: w.m.GetStates()})
	if w.m.GetAction() == nornv1.BulkAction_BULK_ACTION_CANCEL {
		method, body = nornv1.Method_METHOD_CANCEL, &nornv1.CancelRequest{Ids: w.ids, OnlyStates: w.m.GetStates(), Reason: w.m.GetReason(), Durability: w.m.GetDurability()}
	}
	return w.part(now, &outcomes{reply}, method, body, nil)
}

// next is the cursor of where the list has come to; nil at its end.
func (w *where) next() []byte {
	last, err := query.AfterTask(w.at)
	if err != nil || last.IsZero() {
		return nil
	}
	return query.BulkCursor.Seal(append(binary.BigEndian.AppendUint64(nil, uint64(w.end)), last[:]...))
}

// outcomes counts what became of the tasks of a request that acts by filter.
type outcomes struct{ reply *nornv1.BulkReply }

func (o *outcomes) Take(_ []int, m gproto.Message) {
	for _, res := range m.(*nornv1.WriteReply).GetResults() {
		switch err := res.GetError(); {
		case err == nil:
			o.reply.Done++
		case err.GetKind() == nornv1.ErrorKind_ERROR_KIND_CONFLICT, err.GetKind() == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND:
			o.reply.Skipped++
		default:
			o.reply.Failed++
			if o.reply.Error == nil {
				o.reply.Error = err
			}
		}
	}
}

func (o *outcomes) Fail(_ []int, err *proto.Error) {
	o.reply.Failed, o.reply.Error = o.reply.GetMatched(), err.Proto()
}

func (o *outcomes) Answer() (gproto.Message, *proto.Error) { return o.reply, nil }
