package client

import (
	"context"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// writes is a batch that is answered with a WriteReply.
func writes(op string, method nornv1.Method, results []Result, body func(items []int) protobuf.Message) *batch[*nornv1.WriteResult] {
	return &batch[*nornv1.WriteResult]{
		op: op, method: method,
		body: func(items []int) transport.Body { return message{m: body(items)} },
		decode: func(b []byte) ([]*nornv1.WriteResult, error) {
			var m nornv1.WriteReply
			err := protobuf.Unmarshal(b, &m)
			return m.GetResults(), err
		},
		take: func(i int, r *nornv1.WriteResult) {
			results[i].Receipt, results[i].State = r.GetReceipt(), r.GetState()
		},
		refused: func(i int, r *nornv1.WriteResult) { results[i].State = r.GetState() },
	}
}

// settle runs such a batch over tasks; body makes a request of some of them.
func (c *Client) settle(ctx context.Context, op string, method nornv1.Method, tasks []id.ID, body func(items []int) protobuf.Message) ([]Result, error) {
	return c.caller.settle(ctx, op, method, tasks, nil, body)
}

// settle is the same for items that may be large; first is as in [batch].
func (c *caller) settle(ctx context.Context, op string, method nornv1.Method, tasks []id.ID, first func(items []int) int, body func(items []int) protobuf.Message) ([]Result, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	if len(tasks) > 1 && c.info.Load() == nil {
		// How many items a request may have is for the server to say.
		if err := c.connect(ctx, op); err != nil {
			return nil, err
		}
	}
	results := make([]Result, len(tasks))
	for i, task := range tasks {
		results[i].ID = task
	}
	b := writes(op, method, results, body)
	b.first = first
	errs, err := b.run(ctx, c, len(tasks))
	if err != nil {
		return nil, err
	}
	for i, e := range errs {
		results[i].Err = asError(e)
	}
	return results, nil
}

// single is the result of a batch of one.
func single(results []Result, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return results[0], results[0].Err
}

// Update appends data to the log of a task, as number seq of its claim: 0, 1,
// 2, … without gaps. The newest one is the checkpoint that a later claim gets.
// It is accepted after the end of its claim too, also when a newer one is there.
// ErrClaimLost: the task is finished and has been collected. ErrConflict: its log is full
// (131,072 updates or 256 MiB, of all claims); the claim goes on.
func (c *Client) Update(ctx context.Context, task id.ID, token, seq uint64, data []byte, opts ...WriteOption) (*nornv1.Receipt, error) {
	return update(ctx, c, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: seq, Data: data}, opts)
}

// Output is an Update that is no checkpoint: a captured line of output. It
// shares the numbers of Update.
func (c *Client) Output(ctx context.Context, task id.ID, token, seq uint64, line []byte, opts ...WriteOption) (*nornv1.Receipt, error) {
	return update(ctx, c, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: seq, Data: line, Output: true}, opts)
}

// Updates are updates of one claim, in a row.
type Updates struct {
	// Seq is the number of the first one.
	Seq uint64
	// Data of each.
	Data [][]byte
	// Output: they are captured lines of output, and no checkpoints.
	Output bool
	// Last: the claim has no others behind them. A log that is full has some room for such:
	// 16,384 of them, and 16 MiB, of all claims.
	Last bool
}

// UpdateMany is [Client.Update] of several, in as many requests as the limits ask for, with a
// result for each, in their order. Where the log has no room for one, none behind it is taken.
// The error is set only when no server answered.
func UpdateMany(ctx context.Context, c *Client, task id.ID, token uint64, u Updates, opts ...WriteOption) ([]Result, error) {
	tasks := make([]id.ID, len(u.Data))
	for i := range tasks {
		tasks[i] = task
	}
	fitting := func(items []int) int {
		return c.within(items, func(i int) int { return len(u.Data[i]) + 32 })
	}
	return c.caller.settle(ctx, "update", nornv1.Method_METHOD_UPDATE, tasks, fitting, func(items []int) protobuf.Message {
		seq := func(i int) uint64 { return u.Seq + uint64(i) }
		m := &nornv1.UpdateRequest{
			Id: task.Bytes(), Token: token, Seq: seq(items[0]), Data: u.Data[items[0]], Output: u.Output, Last: u.Last, Durability: written(opts).durability.proto(),
		}
		for _, i := range items[1:] {
			m.More = append(m.More, &nornv1.FurtherUpdate{Seq: seq(i), Data: u.Data[i]})
		}
		return m
	})
}

func update(ctx context.Context, c *Client, m *nornv1.UpdateRequest, opts []WriteOption) (*nornv1.Receipt, error) {
	m.Durability = written(opts).durability.proto()
	r, err := single(c.settle(ctx, "update", nornv1.Method_METHOD_UPDATE, []id.ID{id.ID(m.GetId())}, func([]int) protobuf.Message { return m }))
	return r.Receipt, err
}

// CompleteOptions are the options of [Client.Complete].
type CompleteOptions struct {
	// Seq is the number after the last update of the claim; nil: the number
	// after the last visible one, whatever gaps there are.
	Seq *uint64
	// Result is kept with the task.
	Result []byte
}

// Complete finishes a task. It is accepted whenever it comes, also when the lease
// has run out and a newer claim is there, and wins over cancellation. When several
// claims complete a task, the earliest result stays. ErrClaimLost: the task ended in
// another way and has been collected.
func (c *Client) Complete(ctx context.Context, task id.ID, token uint64, o CompleteOptions, opts ...WriteOption) (*nornv1.Receipt, error) {
	m := &nornv1.Completion{Id: task.Bytes(), Token: token, Result: o.Result, AutoSeq: o.Seq == nil}
	if o.Seq != nil {
		m.Seq = *o.Seq
	}
	r, err := single(c.CompleteMany(ctx, []*nornv1.Completion{m}, opts...))
	return r.Receipt, err
}

// CompleteMany finishes tasks, in as many requests as the limits ask for, with a
// result for each, in their order. The error is set only when no server answered.
func (c *Client) CompleteMany(ctx context.Context, done []*nornv1.Completion, opts ...WriteOption) ([]Result, error) {
	durability := written(opts).durability.proto()
	tasks := make([]id.ID, len(done))
	for i, d := range done {
		tasks[i], _ = id.FromBytes(d.GetId()) // what is no ID is for the server to refuse
	}
	fitting := func(items []int) int {
		return c.within(items, func(i int) int { return len(done[i].GetResult()) + 64 })
	}
	return c.caller.settle(ctx, "complete", nornv1.Method_METHOD_COMPLETE, tasks, fitting, func(items []int) protobuf.Message {
		m := &nornv1.CompleteRequest{Durability: durability, Completions: make([]*nornv1.Completion, 0, len(items))}
		for _, i := range items {
			m.Completions = append(m.Completions, done[i])
		}
		return m
	})
}

// FailOptions are the options of [Client.Fail].
type FailOptions struct {
	// Error says what went wrong; beyond 16 KiB its front is cut off.
	Error string
	// RetryAt is when to retry; zero: see RetryIn.
	RetryAt time.Time
	// RetryIn, if over zero, is how long after a server has heard of it the task is
	// retried, at most 100 years. Without both the task's policy decides.
	RetryIn time.Duration
	// Uncounted does not use an attempt.
	Uncounted bool
	// Discard makes the task dead, whatever attempts are left.
	Discard bool
	// KeepAway, if over zero, is for how long, an hour at most, the task is not handed to the
	// worker again that had this claim, while others may have it: it has no handler for it.
	KeepAway time.Duration
}

// Fail ends a claim with a failure and returns the state that the task is in
// then: scheduled, ready or dead.
func (c *Client) Fail(ctx context.Context, task id.ID, token uint64, o FailOptions) (nornv1.State, error) {
	var in time.Duration // the clock here may be wrong
	if o.RetryAt.IsZero() && o.RetryIn > 0 {
		in, o.RetryAt = o.RetryIn, time.Now().Add(o.RetryIn) // for servers that do not know the other one
	}
	f := &nornv1.Failure{
		Id: task.Bytes(), Token: token, Error: proto.Tail(o.Error, proto.MaxErrorBytes), RetryAt: stampOf(o.RetryAt), RetryInSeconds: in.Seconds(), Uncounted: o.Uncounted, Discard: o.Discard,
		KeepAwaySeconds: o.KeepAway.Seconds(),
	}
	r, err := single(failMany(ctx, c, []*nornv1.Failure{f}, []id.ID{task}))
	return r.State, err
}

// failMany ends claims with failures.
func failMany(ctx context.Context, c *Client, failures []*nornv1.Failure, tasks []id.ID) ([]Result, error) {
	return c.settle(ctx, "fail", nornv1.Method_METHOD_FAIL, tasks, func(items []int) protobuf.Message {
		return &nornv1.FailRequest{Failures: some(failures, items)}
	})
}

// Release gives tasks back at once, without using an attempt. There is a result
// for each claim, in their order; the error is set only when no server
// answered.
func (c *Client) Release(ctx context.Context, refs ...Ref) ([]Result, error) {
	tasks := make([]id.ID, len(refs))
	for i, r := range refs {
		tasks[i] = r.ID
	}
	return c.settle(ctx, "release", nornv1.Method_METHOD_RELEASE, tasks, func(items []int) protobuf.Message {
		return &nornv1.ReleaseRequest{Claims: claimRefs(refs, items)}
	})
}
