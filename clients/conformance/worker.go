package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

// handlers are what a worker of the list may do with a task.
func handlers(with args) map[string]worker.Handler {
	return map[string]worker.Handler{
		"echo": func(_ context.Context, t *worker.Task) error {
			t.SetResult(t.Payload())
			return nil
		},
		"fail":    func(context.Context, *worker.Task) error { return errors.New("boom") },
		"discard": func(context.Context, *worker.Task) error { return worker.Discard(errors.New("hopeless")) },
		"put-off": func(context.Context, *worker.Task) error { return worker.Snooze(10 * time.Minute) },
		"slow": func(ctx context.Context, _ *worker.Task) error {
			select {
			case <-time.After(seconds(with.number("seconds"))):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		"checkpoint": func(ctx context.Context, t *worker.Task) error {
			if at := t.Checkpoint(); len(at) > 0 {
				t.SetResult(at)
				return nil
			}
			if err := t.Update(ctx, []byte("page 1")); err != nil {
				return err
			}
			return worker.RetryAfter(10*time.Millisecond, errors.New("not yet"))
		},
	}
}

// doWorker runs the worker of the SDK until the counters of the queue are as wanted, and
// stops it.
func doWorker(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	handle := handlers(with)[with.text("handler")]
	if handle == nil {
		return nil, fmt.Errorf("no handler %q", with.text("handler"))
	}
	w := worker.New(c, worker.Config{Slots: int(with.number("slots")), Lease: seconds(with.number("lease")), Pull: true})
	w.Handle(r.queue, handle)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	until := r.until(ctx, with.m["until"])
	if err := w.Stop(ctx); err != nil {
		return nil, err
	}
	if err := <-done; err != nil {
		return nil, err
	}
	return result{"stopped": true}, until
}

// until waits until the counters are as wanted.
func (r *run) until(ctx context.Context, want any) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := doCount(ctx, r, r.clients["server"], Step{}, args{})
		if err == nil {
			err = fits("", want, got)
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not come to %v: %w", want, err)
		}
	}
}
