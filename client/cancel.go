package client

import (
	"context"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// CancelOptions are the options of [Client.Cancel].
type CancelOptions struct {
	// Reason is shown as the task's error; beyond 1 KiB its front is cut off.
	Reason string
	// Only cancels a task only while it is in one of these states; empty: in any
	// but completed.
	Only []nornv1.State
}

// Cancel cancels tasks, in as many requests as the limits ask for. There is a
// result for each, in their order; the error is set only when no server
// answered. ErrConflict: the task is completed, or in a state that Only does not
// have. A task that was cancelled before has a receipt that says so.
//
// A completion wins over a cancellation, whenever it comes. The worker of a
// task that is running hears of it at its next renewal.
func (c *Client) Cancel(ctx context.Context, tasks []id.ID, o CancelOptions, opts ...WriteOption) ([]Result, error) {
	durability, reason := written(opts).durability.proto(), proto.Tail(o.Reason, maxReasonBytes)
	return c.settle(ctx, "cancel", nornv1.Method_METHOD_CANCEL, tasks, func(items []int) protobuf.Message {
		return &nornv1.CancelRequest{Ids: chosen(tasks, items), Reason: reason, OnlyStates: o.Only, Durability: durability}
	})
}

// Retry gives tasks a new run of attempts at once: dead ones, those that a
// dependency has cancelled, and those that wait for their next attempt. With
// states, a task is retried only while it is in one of them. There is a result
// for each, in their order; the error is set only when no server answered.
// A task that is ready, waits for dependencies or is claimed needs no retry: its
// receipt says that it existed. ErrConflict: it is completed, was cancelled by a
// user, or has not come to its own NotBefore.
//
// When an answer is lost the request is repeated. A task that has died again in
// between is retried again.
func (c *Client) Retry(ctx context.Context, tasks []id.ID, only ...nornv1.State) ([]Result, error) {
	return c.settle(ctx, "retry", nornv1.Method_METHOD_RETRY, tasks, func(items []int) protobuf.Message {
		return &nornv1.RetryRequest{Ids: chosen(tasks, items), OnlyStates: only}
	})
}

// chosen are some of the tasks in the form of the wire.
func chosen(tasks []id.ID, items []int) [][]byte {
	out := make([][]byte, 0, len(items))
	for _, i := range items {
		out = append(out, tasks[i].Bytes())
	}
	return out
}

// Explain tells what keeps a task from running, the weightiest reason first,
// with what to do about each. ErrNotFound: the task is not known.
func (c *Client) Explain(ctx context.Context, task id.ID) (*nornv1.ExplainReply, error) {
	m := &nornv1.ExplainReply{}
	if err := c.read(ctx, "explain", nornv1.Method_METHOD_EXPLAIN, 0, &nornv1.ExplainRequest{Id: task.Bytes()}, m); err != nil {
		return nil, err
	}
	return m, nil
}
