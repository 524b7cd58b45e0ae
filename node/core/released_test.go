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
	if len(r.core.readyIndex.asked) != 1 || !r.core.readyIndex.knows("q") {
		t.Fatalf("of a request %d grants are remembered", len(r.core.readyIndex.asked))
	}
	r.core.transfer.Forget(ring.Of(task, testPartitions))
	if len(r.core.readyIndex.asked) != 0 || r.core.readyIndex.knows("q") || len(r.core.readyIndex.queues) != 0 {
		t.Errorf("left are %d requests and %d queues, known: %v", len(r.core.readyIndex.asked), len(r.core.readyIndex.queues), r.core.readyIndex.known)
	}
}
