package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestEachSubscriberHearsOnce: who waits for a queue is there once, and no longer once it was
// told of a task; it waits again when it was told that there is none.
func TestEachSubscriberHearsOnce(t *testing.T) {
	l := newLarge(t, 6, 6)
	s := l.cores[0].headGossip
	none, some := message.QueueHead{Queue: "q"}, message.QueueHead{Queue: "q", Ready: true}
	for range 2 {
		for _, c := range l.cores[1:] {
			s.told(l.now, c.cfg.Self, &none)
		}
	}
	all := s.subscribers["q"]
	var got []register.Member
	for _, n := range []int{1, 3, 9, 9} {
		for _, m := range all.take(n, l.cores[0].cfg.Rand) {
			if slices.Contains(got, m) {
				t.Errorf("%v hears twice", m)
			}
			got = append(got, m)
			s.told(l.now, m, &some)
		}
		if len(all.waits) != 5-len(got) || len(all.follows) != len(got) {
			t.Errorf("%d were told, %+v is left", len(got), all)
		}
	}
	if s.told(l.now, got[0], &none); !slices.Equal(all.waits, got[:1]) || len(all.follows) != 4 {
		t.Errorf("after it was told that there is nothing: %+v", all)
	}
}

// TestQueuesThatNobodyAsksForAnyMore: a leader that has been asked for as many queues as it
// may have, all without tasks, one for each answer for example, goes on telling of tasks.
func TestQueuesThatNobodyAsksForAnyMore(t *testing.T) {
	const nodes = 3
	l := newLarge(t, nodes, nodes)
	l.settle()
	s := l.cores[0].headGossip
	for i := range s.c.cfg.MaxQueues {
		s.told(l.now, l.cores[1].cfg.Self, &message.QueueHead{Queue: fmt.Sprint("answers-", i)})
	}
	l.claim(1)
	l.run(50 * time.Millisecond)
	task := l.led(0)
	l.request(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Id: task.Bytes(), Queue: "q"}}})
	l.sent[task.String()] = l.now.Mono
	l.run(20 * time.Millisecond)
	if l.longest == 0 || len(s.subscribers) > s.c.cfg.MaxQueues {
		t.Errorf("a task that somebody waits for is not granted within 20 ms, while %d queues are remembered", len(s.subscribers))
	}
}
