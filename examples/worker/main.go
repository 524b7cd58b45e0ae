package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("worker", "error", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	addrs := []string{"127.0.0.1:7711"}
	if len(os.Args) > 1 {
		addrs = os.Args[1:] // any of the cluster's nodes: it fails over by itself
	}
	c, err := client.Dial(context.Background(), addrs, client.WithLogger(log))
	if err != nil {
		return err
	}
	defer c.Close()

	w := worker.New(c, worker.Config{
		Slots:    8,
		Prefetch: worker.Adaptive, // one more for each slot, while tasks are short
		Timeout:  time.Minute,
		PerQueue: map[string]worker.QueueConfig{
			"mail":       {Weight: 3},                           // three of four, while both have tasks
			"thumbnails": {Slots: 2, Timeout: 10 * time.Minute}, // heavy: two at once
		},
		Logger: log,
	})
	w.Use(logged(log))
	worker.HandleJSON(w, "mail", sendMail)
	worker.HandleJSON(w, "thumbnails", shrink)

	signal.Ignore(syscall.SIGPIPE) // nobody reading its log is no reason to end
	// The first signal finishes what runs, for half a minute at most; then tasks
	// are given back, without using an attempt.
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(signalled, func() {
		patience, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := w.Stop(patience); err != nil {
			log.Warn("some tasks were given back", "error", err)
		}
	})
	return w.Run(context.Background())
}

// logged is middleware.
func logged(log *slog.Logger) func(worker.Handler) worker.Handler {
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, t *worker.Task) error {
			began := time.Now()
			err := next(ctx, t)
			log.Info("task", "id", t.ID(), "queue", t.Queue(), "attempt", t.Attempt(), "took", time.Since(began), "error", err)
			return err
		}
	}
}

type mail struct{ To string }

func sendMail(_ context.Context, t *worker.Task, m mail) error {
	switch {
	case !strings.Contains(m.To, "@"):
		return worker.Discard(fmt.Errorf("%q is no address", m.To)) // no retry can help
	case t.Attempt() == 1 && strings.HasSuffix(m.To, "@busy.example.org"):
		return worker.RetryAfter(5*time.Second, errors.New("451 try again later"))
	}
	return nil
}

type picture struct {
	Image string
	Sizes []int
}

// shrink saves how far it is: another worker goes on from there.
func shrink(ctx context.Context, t *worker.Task, p picture) error {
	done := 0
	if t.Checkpoint() != nil {
		if err := json.Unmarshal(t.Checkpoint(), &done); err != nil {
			return worker.Discard(err)
		}
	}
	for ; done < len(p.Sizes); done++ {
		select {
		case <-time.After(time.Second): // the work; what it writes to gets t.Token(), to refuse late writers
		case <-ctx.Done(): // lost, cancelled, over time, or the worker stops
			return context.Cause(ctx)
		}
		if err := t.Update(ctx, fmt.Append(nil, done+1)); err != nil {
			return err
		}
	}
	t.SetResult(fmt.Appendf(nil, "%d thumbnails of %s", len(p.Sizes), p.Image))
	return nil
}
