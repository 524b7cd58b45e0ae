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
	cfg.Data, cfg.Listen, cfg.PeerListen = dir, listen, "127.0.0.1:0"
	cfg.DiskReserve, cfg.DiskStop = 2<<20, 1<<20
	n, err := node.Start(cfg, node.Options{Version: "test", Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func stopNode(t *testing.T, n *node.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// runs is which attempts of each task, by payload, came to a handler.
type runs struct {
	t       *testing.T
	halfway chan struct{} // closed when half of the tasks have run

	mu  sync.Mutex // guards the field below
	all map[string][]int
}

// note tells whether this is the first run of a task.
func (r *runs) note(task *worker.Task, half int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(task.Payload())
	r.all[key] = append(r.all[key], task.Attempt())
	first := len(r.all[key]) == 1
	if len(r.all) == half && first {
		close(r.halfway)
	}
	return first
}

// handle steers a few of the tasks by their payloads.
func (r *runs) handle(ctx context.Context, task *worker.Task) error {
	first, key := r.note(task, tasks/2), string(task.Payload())
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
		r.t.Errorf("checkpoint %q", task.Checkpoint())
	}
	task.SetResult([]byte("result of " + key))
	return task.Update(ctx, []byte("done"))
}

const tasks = 300

func enqueueAll(t *testing.T, c *client.Client) {
	t.Helper()
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
}

// Every task runs to its end exactly as its handler wants, across a restart of
// the node.
func TestWorkerOnARealNode(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "127.0.0.1:0")
	addr := n.Addr().String()
	c, err := client.Dial(t.Context(), []string{addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enqueueAll(t, c)

	r := &runs{t: t, halfway: make(chan struct{}), all: map[string][]int{}}
	w := worker.New(c, worker.Config{Slots: 16, Prefetch: 8, ExitWhenEmpty: true})
	w.Handle("q", r.handle)
	ran := make(chan error, 1)
	go func() { ran <- w.Run(t.Context()) }()
	<-r.halfway
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
		if got := fmt.Sprint(r.all[key]); got != want {
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
