package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// TestTheHistoryOfATaskIsBoundedEverywhere: a task that fails again and again keeps as many
// facts on each node as it would after some dozens of attempts, and none of them counts less.
// While one node has not been compared with, nothing goes.
func TestTheHistoryOfATaskIsBoundedEverywhere(t *testing.T) {
	r := newTrio(t).collecting()
	task := r.ids.Next(r.now.Wall)
	s := spec("q")
	s.Id, s.Retry = task.Bytes(), &nornv1.RetryPolicy{MaxAttempts: 10_000, InitialSeconds: 0.001, MaxSeconds: 0.001}
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	fail := func(times int) {
		t.Helper()
		for range times {
			grants := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60, Worker: "w"}).Grants
			if len(grants) != 1 {
				t.Fatal("nothing is granted")
			}
			ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: grants[0].Token, Error: "e"}}})
			r.pass(20 * time.Millisecond)
		}
	}
	kept := func(p *peer) (n int) {
		facts, err := vnode.Facts(p.store, p.core.vnode(task).Partition, task)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range facts {
			if f.Key.Kind == crdt.KindFailed {
				n++
			}
		}
		return n
	}
	few := func(p *peer) bool { return kept(p) < 70 }
	r.kill(2)
	fail(150)
	if _, went := r.until(20*time.Second, func() bool { return few(r.peers[0]) || few(r.peers[1]) }); went {
		t.Fatal("facts went that one node has not got")
	}
	r.open(2)
	r.tell()
	if _, ok := r.until(2*time.Minute, func() bool { return r.every(few) }); !ok {
		t.Fatalf("kept are %d, %d and %d failures", kept(r.peers[0]), kept(r.peers[1]), kept(r.peers[2]))
	}
	fail(1)
	for i := range r.peers {
		got := ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: task.Bytes()}).Task
		log := got.AttemptLog
		if got.Attempts != 151 || len(log) != 50 || log[2].Number != 3 || log[49].Number != 151 || log[3].Number != 105 {
			t.Errorf("node %d tells of %d attempts, the last of %d is %v", i, got.Attempts, len(log), log[len(log)-1])
		}
	}
}
