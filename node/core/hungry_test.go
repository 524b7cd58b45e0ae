package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestQueuesThatNobodyAsksForAnyMore: a leader that has been asked for as many queues as it
// may have, all without tasks, one for each answer for example, goes on telling of tasks.
func TestQueuesThatNobodyAsksForAnyMore(t *testing.T) {
	const nodes = 3
	l := newLarge(t, nodes, nodes)
	l.settle()
	c := l.cores[0]
	for i := range c.cfg.MaxQueues {
		ask := &message.QueueHeads{Heads: []message.QueueHead{{Queue: fmt.Sprint("answers-", i), Asks: true}}}
		if err := c.Step(l.now, &message.FromPeer{From: l.cores[1].cfg.Self, Message: ask}); err != nil {
			t.Fatal(err)
		}
	}
	l.claim(1)
	l.run(50 * time.Millisecond)
	task := l.led(0)
	l.request(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Id: task.Bytes(), Queue: "q"}}})
	l.sent[task.String()] = l.now.Mono
	l.run(20 * time.Millisecond)
	if l.longest == 0 || c.dispatch.Held().Subscribed > c.cfg.MaxQueues {
		t.Errorf("a task that somebody waits for is not granted within 20 ms, while %d queues are remembered", c.dispatch.Held().Subscribed)
	}
}
