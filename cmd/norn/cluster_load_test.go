package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// producers enqueue through all nodes of a cluster, each beginning with another
// one, and go to the next when one fails. IDs are made before a task is sent.
type producers struct {
	queue   string
	clients []*client.Client
	stop    chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	sent   map[id.ID]bool
	acked  map[id.ID]bool
	failed []error
}

// patientCall is for how long a producer tries one batch.
const patientCall = 45 * time.Second

// produce starts a producer per node. Each sends batches of so many, a pause
// apart, until it is stopped.
func (c *company) produce(queue string, batch int, pause time.Duration, opts ...client.WriteOption) *producers {
	p := &producers{queue: queue, stop: make(chan struct{}), sent: map[id.ID]bool{}, acked: map[id.ID]bool{}}
	for i := range c.all {
		addrs := c.addresses()
		addrs = append(addrs[i:], addrs[:i]...)
		dialled, err := client.Dial(c.t.Context(), addrs, client.WithTimeout(patientCall))
		if err != nil {
			c.t.Fatal(err)
		}
		p.clients = append(p.clients, dialled)
		p.running.Go(func() { p.run(c.t.Context(), dialled, batch, pause, opts) })
	}
	return p
}

func (p *producers) run(ctx context.Context, c *client.Client, batch int, pause time.Duration, opts []client.WriteOption) {
	for {
		tasks := make([]client.Task, batch)
		p.mu.Lock()
		for i := range tasks {
			tasks[i] = client.Task{ID: c.NewID(), Queue: p.queue, Payload: []byte("payload")}
			p.sent[tasks[i].ID] = true
		}
		p.mu.Unlock()
		results, err := c.EnqueueMany(ctx, tasks, opts...)
		p.mu.Lock()
		if err != nil {
			p.failed = append(p.failed, err)
		}
		for _, r := range results {
			if r.Err != nil {
				p.failed = append(p.failed, r.Err)
			} else {
				p.acked[r.ID] = true
			}
		}
		p.mu.Unlock()
		select {
		case <-p.stop:
			return
		case <-time.After(pause):
		}
	}
}

// count is how many were acknowledged so far.
func (p *producers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// more waits until so many more tasks were acknowledged.
func (p *producers) more(t *testing.T, n int) {
	t.Helper()
	want := p.count() + n
	eventually(t, fmt.Sprintf("%d more acknowledged tasks", n), func() bool { return p.count() >= want })
}

// end stops the producers. No call may have failed.
func (p *producers) end(t *testing.T) {
	t.Helper()
	close(p.stop)
	p.running.Wait()
	for _, c := range p.clients {
		_ = c.Close()
	}
	if len(p.failed) > 0 {
		t.Errorf("%d tasks or batches failed, the first with: %v", len(p.failed), p.failed[0])
	}
	t.Logf("%d tasks acknowledged of %d sent", len(p.acked), len(p.sent))
}
