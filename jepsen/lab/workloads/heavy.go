package workloads

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
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
		Begin: (*Crew).carriers, Claims: true, Least: LeastPerSecond / 2,
	}
	for k := range heavyQueues {
		w.Queues = append(w.Queues, fmt.Sprintf("heavy%d", k))
	}
	return w
}

// carriers are the clients of workload heavy.
func (c *Crew) carriers() error {
	for _, p := range c.Members() {
		to, err := c.Dial(5*time.Second, p)
		if err != nil {
			return err
		}
		c.Work.Go(func() { c.offer(to, p) })
		for range 2 {
			if err := c.Join(p, 5*time.Second, c.Cfg.Think, (*Hand).labour); err != nil {
				return err
			}
		}
	}
	for range 4 {
		if err := c.Join(nil, 10*time.Second, c.Cfg.Think, (*Hand).finishSome); err != nil {
			return err
		}
	}
	return nil
}

// offer sends tasks through a node at an even pace.
func (c *Crew) offer(to *client.Client, p *cluster.Process) {
	every := time.Second * time.Duration(len(c.Members())) / heavyPerSec
	for tick := time.Tick(every); ; {
		select {
		case <-c.Ctx.Done():
			return
		case <-tick:
		}
		h := &Hand{Crew: c, Process: c.Rec.Process(), Client: to, Node: p}
		c.Work.Go(func() { h.Send([]client.Task{h.large()}, client.Quorum, false) })
	}
}

// large makes a task whose content follows from its ID.
func (h *Hand) large() client.Task {
	task := h.Client.NewID()
	n := binary.BigEndian.Uint64(task[12:])
	payload := make([]byte, n%heaviest)
	for i := range payload {
		payload[i] = task[i%len(task)]
	}
	t := client.Task{
		ID: task, Queue: h.Queues[n%heavyQueues], Payload: payload,
		Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
	}
	h.knows([]client.Task{t})
	return t
}
