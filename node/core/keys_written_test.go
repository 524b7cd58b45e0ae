package core

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestATaskCostsFewKeys: what three nodes write for a task bounds how many they can take. The
// tree was two thirds of it when each round wrote a path of it (36 and 51 keys). The record of a claim that its completion says all about was one of nine of a completion.
func TestATaskCostsFewKeys(t *testing.T) {
	r := newTrio(t)
	const rounds, tasks = 100, 9 * 100
	per := func() float64 {
		n := float64(r.keys) / tasks
		r.keys = 0
		return n
	}
	r.keys = 0
	for range rounds {
		for i := range 9 {
			r.enqueue(i%3, r.ids.Next(r.now.Wall), nil)
		}
		r.settle()
		r.pass(8 * time.Millisecond)
	}
	if n := per(); n > 13 {
		t.Errorf("%.1f keys for an enqueue", n)
	}
	done := 0
	for range rounds {
		for i := range 3 {
			from := r.send(i, claimUpTo(3))
			r.settle()
			grants, _ := r.granted(i, from)
			for _, g := range grants {
				done++
				r.send(i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: taskOf(t, g.Task.Id), Token: g.Token}}})
			}
			r.settle()
		}
		r.pass(8 * time.Millisecond)
	}
	if n := per(); done != tasks || n > 26 {
		t.Errorf("%.1f keys for a claim and its completion, of %d tasks", n, done)
	}
}
