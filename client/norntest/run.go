package norntest

import (
	"context"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// runQueue is the queue of Run's tasks that name none.
const runQueue = "norntest"

// Run hands a task to a handler the way a worker does, on a server of its own,
// once, and gives the task as it is then: its state, its updates, its result or
// error. Without a queue it gets one; the handler's errors steer as ever.
func Run(t testing.TB, h worker.Handler, task client.Task) *nornv1.Task {
	t.Helper()
	s := Start(t)
	c := s.Client(t)
	if task.Queue == "" {
		task.Queue = runQueue
	}
	if task.ID.IsZero() {
		task.ID = c.NewID()
	}
	ctx := t.Context()
	if _, err := c.Enqueue(ctx, task); err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, worker.Config{Queues: []string{task.Queue}})
	w.Handle("*", func(ctx context.Context, t *worker.Task) error {
		// Take nothing after this one. Stop waits for the handler, so nobody waits
		// for Stop.
		go func() { _ = w.Stop(context.Background()) }()
		return h(ctx, t)
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(context.WithoutCancel(ctx), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
