package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/client/worker"
)

// serve gives the examples a server in this process and tasks to run. In your
// program it is client.Dial(ctx, []string{"n1:7711", "n2:7711"}).
func serve(queue string, payloads ...string) (c *client.Client, closeAll func()) {
	ctx := context.Background()
	s, err := norntest.New(norntest.Options{RetryInitial: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	if c, err = s.Dial(ctx); err != nil {
		log.Fatal(err)
	}
	for _, p := range payloads {
		if _, err := c.Enqueue(ctx, client.Task{Queue: queue, Payload: []byte(p)}); err != nil {
			log.Fatal(err)
		}
	}
	return c, func() { _, _ = c.Close(), s.Close() }
}

func Example() {
	c, closeAll := serve("greetings", `{"name": "Ada"}`, `{"name": "Eve"}`)
	defer closeAll()
	w := worker.New(c, worker.Config{ExitWhenEmpty: true}) // most workers run until they are stopped
	worker.HandleJSON(w, "greetings", func(_ context.Context, _ *worker.Task, v struct{ Name string }) error {
		fmt.Println("Hello,", v.Name)
		return nil
	})
	if err := w.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Hello, Ada
	// Hello, Eve
}

// What a handler returns steers what becomes of its task.
func Example_errors() {
	c, closeAll := serve("fetch", "gone", "busy", "later")
	defer closeAll()
	w := worker.New(c, worker.Config{ExitWhenEmpty: true})
	w.Handle("fetch", func(_ context.Context, t *worker.Task) error {
		again := t.Attempt() > 1 || t.Grant().GetTask().GetError() != ""
		fmt.Println(string(t.Payload()), "attempt", t.Attempt())
		switch {
		case again:
			return nil
		case string(t.Payload()) == "gone":
			return worker.Discard(errors.New("404")) // dead at once
		case string(t.Payload()) == "busy":
			return worker.RetryAfter(20*time.Millisecond, errors.New("503")) // uses an attempt
		default:
			return worker.Snooze(40 * time.Millisecond) // does not
		}
	})
	if err := w.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// gone attempt 1
	// busy attempt 1
	// later attempt 1
	// busy attempt 2
	// later attempt 1
}

// Long work saves checkpoints: another claim goes on from the last one.
func ExampleTask_Update() {
	c, closeAll := serve("import", "10")
	defer closeAll()
	w := worker.New(c, worker.Config{ExitWhenEmpty: true})
	w.Handle("import", func(ctx context.Context, t *worker.Task) error {
		rows, err := strconv.Atoi(string(t.Payload()))
		if err != nil {
			return worker.Discard(err)
		}
		row := 0
		if t.Checkpoint() != nil {
			if err := json.Unmarshal(t.Checkpoint(), &row); err != nil {
				return worker.Discard(err)
			}
			fmt.Println("going on at row", row)
		}
		for ; row < rows; row++ {
			if row == 6 && t.Checkpoint() == nil {
				return errors.New("the connection broke")
			}
			if row%3 == 0 { // what writes outside takes t.Token() along, to be fenced
				if err := t.Update(ctx, []byte(strconv.Itoa(row))); err != nil {
					return err
				}
			}
		}
		fmt.Println("imported", row, "rows")
		return nil
	})
	if err := w.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// going on at row 3
	// imported 10 rows
}

// The end of a handler's context has a cause.
func ExampleErrTimeout() {
	c, closeAll := serve("slow", "x")
	defer closeAll()
	w := worker.New(c, worker.Config{Timeout: 10 * time.Millisecond, ExitWhenEmpty: true})
	w.Handle("slow", func(ctx context.Context, _ *worker.Task) error {
		<-ctx.Done()
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, worker.ErrClaimLost), errors.Is(cause, worker.ErrCancelled):
			return cause // stop at once: someone else may have it, or nobody wants it
		default: // ErrTimeout or ErrShutdown: there is time for a checkpoint
			fmt.Println(cause)
			return worker.Discard(cause)
		}
	})
	if err := w.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: worker: the handler's time is over
}

// Middleware wraps all handlers.
func ExampleWorker_Use() {
	c, closeAll := serve("q", "x")
	defer closeAll()
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	w := worker.New(c, worker.Config{ExitWhenEmpty: true, Logger: log})
	w.Use(func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, t *worker.Task) error {
			err := next(ctx, t)
			log.Info("done", "queue", t.Queue(), "error", err)
			return err
		}
	})
	w.Handle("q", func(context.Context, *worker.Task) error { return nil })
	if err := w.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: level=INFO msg=done queue=q error=<nil>
}

// Queues share the slots by weight, and some have slots of their own.
func ExampleQueueConfig() {
	c, closeAll := serve("mail", "a", "b", "c")
	defer closeAll()
	w := worker.New(c, worker.Config{
		Slots: 16, ExitWhenEmpty: true,
		Queues: []string{"mail", "reports", "payments"},
		PerQueue: map[string]worker.QueueConfig{
			"payments": {Weight: 10},                       // ten times the share of mail
			"reports":  {Slots: 2, Timeout: 2 * time.Hour}, // never more than two at once
		},
		Timeout: time.Minute,
	})
	w.Handle("*", func(context.Context, *worker.Task) error { return nil })
	fmt.Println(w.Run(context.Background()))
	// Output: <nil>
}
