package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
)

// Of handlers that compute. With a lease of a second, claims ended now and then beside another
// run with the race detector on two cores.
const (
	shortLease = 2 * time.Second
	computing  = 3 * shortLease / 2
)

// TestComputingHandlersKeepTheirClaims: handlers that use every processor, without a system
// call and for longer than the lease, do not keep the worker from renewing. Sockets are read
// with calls that Go's scheduler does not know of (see transport.transfer), and it is Go's
// monitor that interrupts who computes: it must be awake by then. So the node, which makes
// system calls all the time, is another process, and the tasks come while this one is idle.
func TestComputingHandlersKeepTheirClaims(t *testing.T) {
	if dir := os.Getenv("NORN_TEST_NODE"); dir != "" {
		beNode(t, dir)
		return
	}
	addr := nodeBeside(t)
	for name, cfg := range map[string]worker.Config{"session": {}, "pull": {Pull: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keepsClaims(t, addr, name, cfg)
		})
	}
}

// keepsClaims has a worker run one short task, and then as many that compute as there are
// processors.
func keepsClaims(t *testing.T, addr, queue string, cfg worker.Config) {
	c, err := client.Dial(t.Context(), []string{addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := runtime.GOMAXPROCS(0)
	r := &runs{t: t, all: map[string][]int{}}
	events := make(chan worker.Event, 10*n)
	cfg.Lease, cfg.Slots = shortLease, 2*n // there is room for a task to run twice
	cfg.OnEvent = func(e worker.Event) {
		if e.Kind != worker.Started {
			events <- e
		}
	}
	w := worker.New(c, cfg)
	w.Handle(queue, func(ctx context.Context, task *worker.Task) error {
		r.note(task, 0)
		if string(task.Payload()) == "short" {
			return nil
		}
		for end := time.Now().Add(computing); time.Now().Before(end); { // reading the clock is no system call
		}
		return context.Cause(ctx)
	})
	ran := make(chan error, 1)
	go func() { ran <- w.Run(t.Context()) }()
	defer func() {
		w.StopNow()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()

	batch := []client.Task{{Queue: queue, Payload: []byte("short")}}
	for i := range n {
		batch = append(batch, client.Task{Queue: queue, Payload: fmt.Append(nil, i), Delay: 200 * time.Millisecond})
	}
	if _, err := c.EnqueueMany(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for range batch {
		select {
		case e := <-events:
			if e.Kind != worker.Completed {
				t.Errorf("task %s: %s after %v: %v", e.Task.Payload(), e.Kind, e.Took, e.Err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the tasks do not end")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, all := range r.all {
		if len(all) != 1 {
			t.Errorf("task %s ran as attempts %v", key, all)
		}
	}
}

// nodeBeside starts a node in another process, and ends it with the test.
func nodeBeside(t *testing.T) (addr string) {
	p := exec.Command(os.Args[0], "-test.run=^TestComputingHandlersKeepTheirClaims$")
	p.Env, p.Stderr = append(os.Environ(), "NORN_TEST_NODE="+t.TempDir()), os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		in.Close()
		said, _ := io.ReadAll(out)
		if err := p.Wait(); err != nil {
			t.Errorf("the node: %v\n%s", err, said)
		}
	})
	if !lines.Scan() {
		t.Fatal("the node does not start")
	}
	return lines.Text()
}

// beNode is a node until its input ends. It hands tasks on soon after their claims have ended.
func beNode(t *testing.T, dir string) {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.PeerListen, cfg.Eta = dir, "127.0.0.1:0", "127.0.0.1:0", 200*time.Millisecond
	cfg.DiskReserve, cfg.DiskStop = 2<<20, 1<<20
	n, err := node.Start(cfg, node.Options{Version: "test", Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer stopNode(t, n)
	fmt.Println(n.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
