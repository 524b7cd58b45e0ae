package core

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestGetTellsOfTheAttempts: with their ends as they were, a panic's stack apart, and what
// the last one says in the fact that ended the task. Lists and grants do not.
func TestGetTellsOfTheAttempts(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	r.settle()
	claim := func() *nornv1.Grant {
		t.Helper()
		grants := ask[*nornv1.ClaimReply](r, 1, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60, Worker: "w"}).Grants
		if len(grants) != 1 || len(grants[0].Task.AttemptLog) > 0 {
			t.Fatalf("granted %v", grants)
		}
		return grants[0]
	}
	g := claim()
	r.pass(300 * time.Millisecond)
	ask[*nornv1.WriteReply](r, 2, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "panic: boom\n\ngoroutine 7 [running]:"}}})
	r.pass(2 * time.Second) // the back-off
	g = claim()
	ask[*nornv1.WriteReply](r, 0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: g.Token}}})
	for i := range r.peers {
		all := ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: task.Bytes()}).Task.AttemptLog
		if len(all) != 2 {
			t.Fatalf("node %d tells of %v", i, all)
		}
		first, last := all[0], all[1]
		if first.Number != 1 || first.Worker != "w" || first.Error != "panic: boom" || first.Stack != "goroutine 7 [running]:" || !first.Counted ||
			first.DurationSeconds < 0.3 || first.DurationSeconds > 2 || first.Outcome != nornv1.ClaimOutcome_CLAIM_OUTCOME_FAILED {
			t.Errorf("node %d: %v", i, first)
		}
		if last.Number != 2 || last.Token != g.Token || last.Worker != "w" || last.Outcome != nornv1.ClaimOutcome_CLAIM_OUTCOME_COMPLETED || last.Start == nil {
			t.Errorf("node %d: %v", i, last)
		}
	}
	for _, listed := range ask[*nornv1.ListReply](r, 1, &nornv1.ListRequest{Queue: "q"}).Tasks {
		if len(listed.AttemptLog) > 0 {
			t.Error("a list tells of attempts")
		}
	}
}
