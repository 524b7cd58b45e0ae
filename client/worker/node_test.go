package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func startNode(t *testing.T, dir, listen string) *node.Node {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen = dir, listen
	cfg.DiskReserve, cfg.DiskStop = 2<<20, 1<<20
	n, err := node.Start(cfg, node.Options{Version: "test", Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func stopNode(t *testing.T, n *node.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// Every task runs to its end exactly as its handler wants, across a restart of
// the node.
func TestWorkerOnARealNode(t *testing.T) {
	const tasks = 300
	dir := t.TempDir()
	n := startNode(t, dir, "127.0.0.1:0")
	addr := n.Addr().String()
	c, err := client.Dial(t.Context(), []string{addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	batch := make([]client.Task, tasks)
	for i := range batch {
		batch[i] = client.Task{Queue: "q", Payload: fmt.Append(nil, i)}
	}
	results, err := c.EnqueueMany(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("task %d: %v", i, r.Err)
		}
	}

	var mu sync.Mutex // guards runs
	runs := map[string][]int{}
	halfway := make(chan struct{})
	w := worker.New(c, worker.Config{Slots: 16, Prefetch: 8, ExitWhenEmpty: true})
	w.Handle("q", func(ctx context.Context, task *worker.Task) error {
		key := string(task.Payload())
		mu.Lock()
		runs[key] = append(runs[key], task.Attempt())
		first := len(runs[key]) == 1
		if len(runs) == tasks/2 && first {
			close(halfway)
		}
		mu.Unlock()
		switch {
		case key == "7" && first:
			return worker.RetryAfter(10*time.Millisecond, errors.New("once more"))
		case key == "8" && first:
			return worker.Snooze(10 * time.Millisecond)
		case key == "9":
			return worker.Discard(errors.New("never"))
		case key == "10" && first:
			if err := task.Update(ctx, []byte("page 1")); err != nil {
				return err
			}
			return worker.RetryAfter(10*time.Millisecond, errors.New("half done"))
		case key == "10" && string(task.Checkpoint()) != "page 1":
			t.Errorf("checkpoint %q", task.Checkpoint())
		}
		task.SetResult([]byte("result of " + key))
		return task.Update(ctx, []byte("done"))
	})
	ran := make(chan error, 1)
	go func() { ran <- w.Run(t.Context()) }()
	<-halfway
	stopNode(t, n)
	n = startNode(t, dir, addr)
	defer func() { stopNode(t, n) }()
	select {
	case err := <-ran:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the worker does not end")
	}

	count, err := c.Count(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if got := count.GetTotal(); got.GetCompleted() != tasks-1 || got.GetDead() != 1 {
		t.Errorf("counted %v", got)
	}
	for key, want := range map[string]string{"7": "[1 2]", "8": "[1 1]", "9": "[1]", "10": "[1 2]"} {
		if got := fmt.Sprint(runs[key]); got != want {
			t.Errorf("task %s ran as attempts %s, want %s", key, got, want)
		}
	}
	for task, err := range c.List(t.Context(), client.Filter{Queue: "q"}) {
		if err != nil {
			t.Fatal(err)
		}
		if done := task.GetState() == nornv1.State_STATE_COMPLETED; done != (string(task.GetResult()) == "result of "+string(task.GetPayload())) {
			t.Errorf("task %s is %v with result %q", task.GetPayload(), task.GetState(), task.GetResult())
		}
	}
}
