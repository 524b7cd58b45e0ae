package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestWhoHasAskedHearsFirst: each is there once, and those that have asked for tasks come
// before those that were only told that there are none.
func TestWhoHasAskedHearsFirst(t *testing.T) {
	var h subscribers
	m := func(n int) register.Member { return register.Member{Node: fmt.Sprint(n)} }
	for _, x := range []struct {
		n     int
		asked bool
	}{{1, false}, {2, false}, {3, true}, {2, false}, {1, true}, {3, false}, {4, true}, {5, false}} {
		h.add(m(x.n), x.asked)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var got []register.Member
	for _, n := range []int{1, 3, 9, 9} {
		some := h.take(n, rnd)
		got = append(got, some...)
		if slices.ContainsFunc(some, h.has) || h.len() != 5-len(got) {
			t.Errorf("%v was taken, %+v is left", some, h)
		}
	}
	slices.SortFunc(got[:3], register.Member.Compare)
	slices.SortFunc(got[3:], register.Member.Compare)
	if want := []register.Member{m(1), m(3), m(4), m(2), m(5)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestQueuesThatNobodyAsksForAnyMore: a leader that has been asked for as many queues as it
// may have, all without tasks, one for each answer for example, goes on telling of tasks.
func TestQueuesThatNobodyAsksForAnyMore(t *testing.T) {
	const nodes = 3
	l := newLarge(t, nodes, nodes)
	l.settle()
	s := l.cores[0].remoteClaims
	for i := range s.c.cfg.MaxQueues {
		s.subscribe(fmt.Sprint("answers-", i), l.cores[1].cfg.Self, true)
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
