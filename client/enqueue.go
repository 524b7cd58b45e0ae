package client

import (
	"context"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// Enqueue adds a task and waits until it is durable. The receipt says what that
// means and whether the task was there before. ErrAlreadyExists: the ID, or the
// unique key, is taken by another spec. ErrConflict: the queue is draining.
func (c *Client) Enqueue(ctx context.Context, t Task, opts ...WriteOption) (*nornv1.Receipt, error) {
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	if err := c.placeKnown(ctx); err != nil {
		return nil, err
	}
	t.ready(c.now)
	if t.keyed() {
		one := []Task{t}
		if errs := c.nameByKey(ctx, one); errs != nil {
			return nil, errs[0]
		}
		t = one[0]
	}
	if t.ID.IsZero() {
		t.ID = c.NewID()
	}
	var receipt *nornv1.Receipt
	durability := written(opts).durability.proto()
	b := enqueues(func(_ int, r *nornv1.Receipt) { receipt = r })
	b.body = func([]int) transport.Body {
		if t.simple() {
			return &enqueueOne{task: &t, durability: durability}
		}
		return enqueueMany([]Task{t}, []int{0}, durability)
	}
	errs, err := b.run(ctx, &c.caller, 1)
	if err == nil && errs != nil {
		err = asError(errs[0])
	}
	return receipt, err
}

// EnqueueMany adds tasks, in as many requests as the limits ask for, and
// returns a result for each, in their order. The error is set only when no
// server answered at all. The results say also then by which ID each of them may be
// there, and whether it may; they are nil when there was nobody to send them to.
func (c *Client) EnqueueMany(ctx context.Context, tasks []Task, opts ...WriteOption) ([]Result, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	if err := c.placeKnown(ctx); err != nil {
		return nil, err
	}
	tasks, unnamed := c.prepared(ctx, tasks)
	if err := unanswered(unnamed); err != nil {
		return nil, err
	}
	results := make([]Result, len(tasks))
	named := make([]int, 0, len(tasks)) // those that can be sent
	for i := range tasks {
		results[i].ID = tasks[i].ID
		if unnamed != nil && unnamed[i] != nil {
			results[i].Err = unnamed[i]
			continue
		}
		named = append(named, i)
	}
	return results, c.enqueueNamed(ctx, tasks, named, results, written(opts))
}

// enqueueNamed sends those of the tasks that have a name, and fills in their
// results.
func (c *Client) enqueueNamed(ctx context.Context, tasks []Task, named []int, results []Result, o writeOptions) error {
	durability := o.durability.proto()
	pick := func(items []int) []int {
		if len(named) == len(tasks) {
			return items
		}
		out := make([]int, len(items))
		for k, item := range items {
			out[k] = named[item]
		}
		return out
	}
	b := enqueues(func(i int, r *nornv1.Receipt) { results[named[i]].Receipt = r })
	b.body = func(items []int) transport.Body { return enqueueMany(tasks, pick(items), durability) }
	b.first = func(items []int) int { return c.fitting(tasks, pick(items)) }
	errs, err := b.run(ctx, &c.caller, len(named))
	for k, e := range errs {
		results[named[k]].Err = asError(e)
	}
	if len(named) < len(tasks) {
		return nil // others were judged: an error is none of the whole
	}
	return err
}

func enqueues(take func(int, *nornv1.Receipt)) *batch[*nornv1.EnqueueResult] {
	return &batch[*nornv1.EnqueueResult]{
		op: "enqueue", method: nornv1.Method_METHOD_ENQUEUE,
		decode: func(b []byte) ([]*nornv1.EnqueueResult, error) {
			var m nornv1.EnqueueReply
			err := protobuf.Unmarshal(b, &m)
			return m.GetResults(), err
		},
		take: func(i int, r *nornv1.EnqueueResult) { take(i, r.GetReceipt()) },
	}
}

// fitting says how many of the items, at least one, one request can hold.
func (c *caller) fitting(tasks []Task, items []int) int {
	dependencies := 0
	for k, item := range items {
		dependencies += len(tasks[item].Dependencies)
		if k > 0 && dependencies > proto.MaxBatchDependencies {
			items = items[:k]
			break
		}
	}
	return c.within(items, func(item int) int { return tasks[item].weight() })
}

// within says how many of the items, at least one, have no more bytes than one request
// may have.
func (c *caller) within(items []int, size func(item int) int) int {
	most := proto.MaxBatchBytes
	if i := c.info.Load(); i != nil && i.Limits.GetMaxBatchBytes() > 0 {
		most = int(i.Limits.GetMaxBatchBytes())
	}
	sum := 0
	for k, item := range items {
		sum += size(item)
		if k > 0 && sum > most {
			return k
		}
	}
	return len(items)
}

// placeKnown connects if no node has said yet where tasks can go.
func (c *caller) placeKnown(ctx context.Context) error {
	if c.place.Load() != nil {
		return nil
	}
	return c.connect(ctx, "enqueue")
}
