package client

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// followWait is one long poll of Follow and Wait.
const followWait = 20 * time.Second

// maxReasonBytes is what the server keeps of the reason of a cancellation.
const maxReasonBytes = proto.MaxNoteBytes

// read is a call without effect.
func (c *caller) read(ctx context.Context, op string, method nornv1.Method, wait time.Duration, ask, reply protobuf.Message) error {
	return c.do(ctx, &request{
		op: op, method: uint16(method), body: message{m: ask}, wait: wait,
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, reply) },
	})
}

// Get reads a task. ErrNotFound: it is not known.
func (c *Client) Get(ctx context.Context, task id.ID, opts ...ReadOption) (*nornv1.Task, error) {
	var m nornv1.GetReply
	err := c.read(ctx, "get", nornv1.Method_METHOD_GET, 0, &nornv1.GetRequest{Id: task.Bytes(), Consistency: consistency(opts)}, &m)
	proto.FillKind(m.GetTask())
	return m.GetTask(), err
}

// List reads tasks in the order of their IDs, page by page as they are taken.
// It ends after an error. Each page is a call of its own as to time-outs.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[*nornv1.Task, error] {
	return func(yield func(*nornv1.Task, error) bool) {
		ask := f.request()
		left, looked := f.Limit, Progress{}
		for {
			ask.Limit = uint32(min(max(f.PageSize, 0), proto.MaxListPage))
			if f.Limit > 0 && (ask.Limit == 0 || left < int(ask.Limit)) {
				ask.Limit = uint32(min(left, proto.MaxListPage))
			}
			var m nornv1.ListReply
			if err := c.read(ctx, "list", nornv1.Method_METHOD_LIST, 0, ask, &m); err != nil {
				yield(nil, err)
				return
			}
			if looked.LookedAt += m.GetLookedAt(); f.Looked != nil {
				if looked.Reached = (time.Time{}); m.GetReached() != nil {
					looked.Reached = m.GetReached().AsTime()
				}
				f.Looked(looked)
			}
			for _, t := range m.GetTasks() {
				if proto.FillKind(t); !yield(t, nil) {
					return
				}
				if left--; f.Limit > 0 && left == 0 {
					return
				}
			}
			if ask.Cursor = m.GetNextCursor(); len(ask.Cursor) == 0 {
				return
			}
		}
	}
}

// Count reads the counters of a queue, or of all queues when it is "". It is
// never a scan.
func (c *Client) Count(ctx context.Context, queue string) (*nornv1.CountReply, error) {
	m := &nornv1.CountReply{}
	if err := c.read(ctx, "count", nornv1.Method_METHOD_COUNT, 0, &nornv1.CountRequest{Queue: queue}, m); err != nil {
		return nil, err
	}
	return m, nil
}

// LogOptions are the options of [Client.Log].
type LogOptions struct {
	// AfterToken and AfterSeq name an update; everything up to it is skipped,
	// if After is set.
	AfterToken uint64
	// AfterSeq: see AfterToken.
	AfterSeq uint64
	// After: see AfterToken.
	After bool
	// Wait is how long to wait when there is nothing new; 0: not at all.
	Wait time.Duration
	// Limit is the most updates to return; 0: 1,000.
	Limit int
}

// Next has the options ask for what comes after a page that they have asked for, and wait for
// so long when there is nothing yet. False: the task has ended, and there is no more of its log.
//
// Who waits is told of the end by one replica, which may be yet to hear the last updates. Who
// asks, without waiting, for what comes after all that there was is told by a majority.
func (o *LogOptions) Next(m *nornv1.LogReply, wait time.Duration) bool {
	all, over := m.GetUpdates(), Finished(m.GetState())
	if over && o.Wait == 0 && len(all) == 0 {
		return false
	}
	if n := len(all); n > 0 {
		o.After, o.AfterToken, o.AfterSeq = true, all[n-1].GetToken(), all[n-1].GetSeq()
	}
	if o.Wait = wait; over {
		o.Wait = 0
	}
	return true
}

// Log reads a page of the visible updates of a task, and the task's state. Who reads a log to
// its end goes on by [LogOptions.Next].
func (c *Client) Log(ctx context.Context, task id.ID, o LogOptions) (*nornv1.LogReply, error) {
	wait := max(o.Wait, 0)
	ask := &nornv1.LogRequest{
		Id: task.Bytes(), AfterToken: o.AfterToken, AfterSeq: o.AfterSeq, After: o.After, Limit: uint32(max(o.Limit, 0)),
	}
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		wait = max(min(wait, left-min(left/10, time.Second)), 0)
	}
	ask.WaitSeconds = wait.Seconds()
	m := &nornv1.LogReply{}
	if err := c.read(ctx, "log", nornv1.Method_METHOD_LOG, wait, ask, m); err != nil {
		return nil, err
	}
	return m, nil
}

// Finished tells whether a task in this state will never be claimed again,
// unless someone retries it by hand.
func Finished(s nornv1.State) bool {
	switch s {
	case nornv1.State_STATE_COMPLETED, nornv1.State_STATE_DEAD, nornv1.State_STATE_CANCELLED:
		return true
	}
	return false
}

// Follow reads the updates of a task, those to come too, until it is finished and a
// majority of its replicas, if there is one in reach, has no more of them.
// It ends after an error, or when ctx ends. Outages up to the client's timeout
// are bridged.
func (c *Client) Follow(ctx context.Context, task id.ID) iter.Seq2[*nornv1.Update, error] {
	return func(yield func(*nornv1.Update, error) bool) {
		for o := (LogOptions{}); ; {
			m, err := c.Log(ctx, task, o)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, u := range m.GetUpdates() {
				if !yield(u, nil) {
					return
				}
			}
			if !o.Next(m, followWait) {
				return
			}
		}
	}
}

// Wait waits until a task is finished and reads it.
func (c *Client) Wait(ctx context.Context, task id.ID) (*nornv1.Task, error) {
	// Nothing of its log, which may be long, is behind this place.
	end := LogOptions{After: true, AfterToken: math.MaxUint64, AfterSeq: math.MaxUint64, Wait: followWait}
	for a := (attempts{}); ; {
		m, err := c.Log(ctx, task, end)
		if err != nil {
			var e *Error
			if errors.As(err, &e) {
				e.Op = "wait"
			}
			return nil, err
		}
		if !Finished(m.GetState()) {
			continue
		}
		// One replica has said that it is finished. Those that are read may be yet to hear
		// of it, or have heard that it was retried since.
		t, err := c.Get(ctx, task)
		if err != nil || Finished(t.GetState()) {
			return t, err
		}
		c.sleep(ctx, a.nextBackoff())
	}
}

// stampOf is an instant on the wire; the zero time is none.
func stampOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
