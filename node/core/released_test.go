package core

import (
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestAPartitionThatIsGivenAwayLeavesNothingInMemory: with each partition that moved on, what
// its requests had been granted stayed for ever, and the names of its queues counted against
// max-queues.
func TestAPartitionThatIsGivenAwayLeavesNothingInMemory(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(&nornv1.TaskSpec{Queue: "q"})[0]
	must[*nornv1.ClaimReply](r, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Worker: "w", Session: []byte("0123456789abcdef"), RequestNo: 1, LeaseSeconds: 30})
	if r.core.dispatch.Held().Asked != 1 || !r.core.queues.Knows("q") {
		t.Fatalf("of a request %d grants are remembered", r.core.dispatch.Held().Asked)
	}
	r.core.transfer.Forget(ring.Of(task, testPartitions))
	if r.core.dispatch.Held().Asked != 0 || r.core.queues.Knows("q") || r.core.dispatch.Held().Queues != 0 {
		t.Errorf("left are %d requests and %d queues, known: %v", r.core.dispatch.Held().Asked, r.core.dispatch.Held().Queues, r.core.queues.Known)
	}
}
