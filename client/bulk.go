package client

import (
	"context"
	"errors"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Bulk is what an action on many tasks has come to.
type Bulk struct {
	// Matched is how many tasks the filter has found.
	Matched uint64
	// Done is how many of them were cancelled or retried.
	Done uint64
	// Skipped is how many could not be: their state did not allow it, or had
	// changed since they were found.
	Skipped uint64
}

// BulkOptions are the options of [Client.CancelWhere], [Client.RetryWhere] and
// [Queues.Purge].
type BulkOptions struct {
	// DryRun finds and counts the tasks, and does nothing to them.
	DryRun bool
	// Reason is shown as the error of cancelled tasks.
	Reason string
	// Durability is how many copies each cancellation waits for; a retry waits for a
	// majority.
	Durability Durability
	// Progress, if not nil, is called after each page with the counts so far.
	Progress func(Bulk)
}

// CancelWhere cancels the tasks that a filter finds, page by page. Without
// states in the filter they are those that are not finished. A task is
// cancelled only if it is still in one of the states then. Tasks that are
// enqueued more than twice eta (5 s unless configured) after its start are left alone.
// The counts say how far it came with an
// error too; the call may be repeated.
func (c *Client) CancelWhere(ctx context.Context, f Filter, o BulkOptions) (Bulk, error) {
	if len(f.States) == 0 {
		f.States = []nornv1.State{
			nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED,
		}
	}
	return c.bulk(ctx, f, o, func(tasks []id.ID) ([]Result, error) {
		return c.Cancel(ctx, tasks, CancelOptions{Reason: o.Reason, Only: f.States}, WithDurability(o.Durability))
	}, func(s nornv1.State) bool { return s == nornv1.State_STATE_CANCELLED })
}

// RetryWhere is [Client.Retry] for the tasks that a filter finds, page by page.
// Without states in the filter they are the dead ones. Otherwise it is like
// CancelWhere.
func (c *Client) RetryWhere(ctx context.Context, f Filter, o BulkOptions) (Bulk, error) {
	if len(f.States) == 0 {
		f.States = []nornv1.State{nornv1.State_STATE_DEAD}
	}
	return c.bulk(ctx, f, o, func(tasks []id.ID) ([]Result, error) {
		return c.Retry(ctx, tasks, f.States...)
	}, func(s nornv1.State) bool { return !Finished(s) })
}

// bulk finds tasks and does something to them. reached tells whether a state is
// what that leads to.
func (c *Client) bulk(ctx context.Context, f Filter, o BulkOptions, do func([]id.ID) ([]Result, error), reached func(nornv1.State) bool) (Bulk, error) {
	var b Bulk
	if err := boundBulk(ctx, c, &f); err != nil {
		return b, err
	}
	f.IDsOnly, f.PageSize = true, proto.MaxListPage
	page := make([]id.ID, 0, proto.MaxListPage)
	flush := func() error {
		if !o.DryRun && len(page) > 0 {
			results, err := do(page)
			if err != nil {
				return err
			}
			if err := b.add(results, reached); err != nil {
				return err
			}
		}
		page = page[:0]
		if o.Progress != nil {
			o.Progress(b)
		}
		return nil
	}
	for t, err := range c.List(ctx, f) {
		if err != nil {
			return b, err
		}
		task, err := id.Parse(t.GetId())
		if err != nil {
			return b, &Error{Op: "list", Attempts: 1, Err: badAnswer(err)}
		}
		b.Matched++
		if page = append(page, task); len(page) == cap(page) {
			if err := flush(); err != nil {
				return b, err
			}
		}
	}
	return b, flush()
}

// boundBulk leaves out tasks of the future: otherwise those who enqueue and
// the one who cancels could run after each other for ever. The time is the
// server's. The node that took a task may be eta ahead of it, and the task's ID, which
// says when that was, another eta ahead of that node: nothing is missed that was enqueued
// before.
func boundBulk(ctx context.Context, c *Client, f *Filter) error {
	var m nornv1.PingReply
	if err := c.read(ctx, "list", nornv1.Method_METHOD_PING, 0, &nornv1.Ping{}, &m); err != nil {
		return err
	}
	if m.GetNow() == nil {
		return nil
	}
	end := m.GetNow().AsTime().Add(2*c.Info().Eta + time.Millisecond)
	if f.CreatedBefore.IsZero() || end.Before(f.CreatedBefore) {
		f.CreatedBefore = end
	}
	return nil
}

// add counts the results of a page. The error is the first that is more than a
// task whose state does not allow it.
func (b *Bulk) add(results []Result, reached func(nornv1.State) bool) error {
	var failed error
	for _, r := range results {
		switch {
		case r.Err == nil:
			b.Done++
		case errors.Is(r.Err, ErrConflict) && errors.Is(r.Err, ErrUnknown) && reached(r.State):
			b.Done++ // an answer was lost: what stands against it is our own doing
		case errors.Is(r.Err, ErrConflict), errors.Is(r.Err, ErrNotFound):
			b.Skipped++
		case failed == nil:
			failed = r.Err
		}
	}
	return failed
}
