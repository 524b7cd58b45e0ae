package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
)

// TestNewsOfAQueueIsForThoseWhoWait: where three nodes have workers and producers, what others
// have to say of a task does not grow with the nodes. Everybody alive was told, so that each
// further node cost two messages for each task.
func TestNewsOfAQueueIsForThoseWhoWait(t *testing.T) {
	const busy, rate, seconds, partitions = 3, 10, 5, 96
	of := func(nodes int) (news, all float64) {
		l := newLarge(t, nodes, partitions)
		l.settle()
		l.works = true
		for i := range busy {
			l.claim(i)
		}
		l.run(time.Second)
		n := 0
		l.messages = 0
		l.said = func(_, _ int, m any) {
			if _, is := m.(*message.QueueHeads); is {
				n++
			}
		}
		for range rate * seconds {
			for i := range busy {
				l.enqueue(i, 1)
			}
			l.run(time.Second / rate)
		}
		l.run(time.Second)
		tasks := busy * rate * seconds
		if l.completed != tasks {
			t.Errorf("%d nodes: %d of %d tasks are completed", nodes, l.completed, tasks)
		}
		if l.longest > 100*time.Millisecond {
			t.Errorf("%d nodes: a task was granted after %v", nodes, l.longest)
		}
		return float64(n) / float64(tasks), float64(l.messages) / float64(tasks)
	}
	small, _ := of(6)
	large, _ := of(24)
	t.Logf("%.1f messages with news of each task with 6 nodes, %.1f with 24", small, large)
	if large > 1.5*small+1 {
		t.Errorf("%.1f messages with news of each task with 6 nodes, %.1f with 24", small, large)
	}
}
