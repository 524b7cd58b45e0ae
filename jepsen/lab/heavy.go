package lab

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workload heavy: how long payloads are, over how many queues, and the load
// that is offered, whatever becomes of it.
const (
	heaviest    = 64 << 10
	heavyQueues = 24
	heavyPerSec = 60 // tasks, of all clients together
)

// heavy is the workload of an open loop with large tasks (W12).
func heavy() Workload {
	w := Workload{
		Name: "heavy", About: "an open loop: 60 tasks a second of up to 64 KiB in 24 queues, whether those before were answered or not; few and slow workers (W12)",
		begin: (*crew).carriers, claims: true, least: leastPerSecond / 2,
	}
	for k := range heavyQueues {
		w.queues = append(w.queues, fmt.Sprintf("heavy%d", k))
	}
	return w
}

// carriers are the clients of workload heavy.
func (c *crew) carriers() error {
	for _, p := range c.members() {
		to, err := c.dial(5*time.Second, p)
		if err != nil {
			return err
		}
		c.work.Go(func() { c.offer(to, p) })
		for range 2 {
			if err := c.join(p, 5*time.Second, c.cfg.Think, (*hand).labour); err != nil {
				return err
			}
		}
	}
	for range 4 {
		if err := c.join(nil, 10*time.Second, c.cfg.Think, (*hand).finishSome); err != nil {
			return err
		}
	}
	return nil
}

// offer sends tasks through a node at an even pace.
func (c *crew) offer(to *client.Client, p *process) {
	every := time.Second * time.Duration(len(c.members())) / heavyPerSec
	for tick := time.Tick(every); ; {
		select {
		case <-c.ctx.Done():
			return
		case <-tick:
		}
		h := &hand{crew: c, process: c.rec.process(), client: to, node: p}
		c.work.Go(func() { h.send([]client.Task{h.large()}, client.Quorum, false) })
	}
}

// large makes a task whose content follows from its ID.
func (h *hand) large() client.Task {
	task := h.client.NewID()
	n := binary.BigEndian.Uint64(task[12:])
	payload := make([]byte, n%heaviest)
	for i := range payload {
		payload[i] = task[i%len(task)]
	}
	t := client.Task{
		ID: task, Queue: h.queues[n%heavyQueues], Payload: payload,
		Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
	}
	h.knows([]client.Task{t})
	return t
}
