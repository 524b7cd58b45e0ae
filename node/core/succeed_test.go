package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestASuccessorHearsOfWhatItMissed: a leader is cut off at the moment at which it has
// brought tasks to one of the two others. They are acknowledged, and whichever of the two
// leads then, they are granted soon: not when it is the turn of their partition to be
// compared (track record).
func TestASuccessorHearsOfWhatItMissed(t *testing.T) {
	for _, misses := range []int{1, 2} {
		r := newRepairingTrio(t, 10*time.Minute)
		r.lead(0)
		for p := range ring.Partition(testPartitions) {
			task := r.in(p)
			from := r.enqueue(0, task, nil)
			r.settleBut(func(l letter) bool { _, facts := l.message.(*message.Facts); return facts && l.to == misses })
			if res := r.result(0, from); res.GetReceipt() == nil {
				t.Fatalf("it is not acknowledged: %v", res)
			}
		}
		r.kill(0)
		r.live(repair.Settle+time.Second, 50*time.Millisecond, nothing)
		r.elect()
		r.live(2*time.Second, 50*time.Millisecond, nothing)
		granted := 0
		for range testPartitions { // each by one leader
			granted += len(ask[*nornv1.ClaimReply](r, 1, claimUpTo(testPartitions)).Grants)
		}
		if granted != testPartitions {
			t.Errorf("without node %d's knowing %d of %d tasks are granted", misses+1, granted, testPartitions)
		}
	}
}

// TestALeaderThatReturnsHearsOfWhatItMissed: a node was away while tasks came in, and is to
// lead again, as the plan wants it, from one that is well. It knows none of them.
func TestALeaderThatReturnsHearsOfWhatItMissed(t *testing.T) {
	r := newRepairingTrio(t, 10*time.Minute)
	r.lead(0)
	r.kill(1)
	for p := range ring.Partition(testPartitions) {
		r.put(0, p)
	}
	r.live(replication.WriteTimeout+time.Second, 100*time.Millisecond, nothing) // nobody sends it anything later
	r.open(1)
	r.live(5*time.Second, 100*time.Millisecond, nothing)
	var all []message.Stand
	for p, cell := range r.state().Cells {
		all = append(all, message.Stand{Partition: ring.Partition(p), Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort})
	}
	r.say(2, 1, &message.Elect{Stand: all})
	r.settle()
	for p := range ring.Partition(testPartitions) {
		if i := r.leader(p); i != 1 {
			t.Fatalf("partition %d is led by node %d", p, i+1)
		}
	}
	r.live(time.Second, 50*time.Millisecond, nothing)
	granted := 0
	for range testPartitions {
		granted += len(ask[*nornv1.ClaimReply](r, 1, claimUpTo(testPartitions)).Grants)
	}
	if granted != testPartitions {
		t.Errorf("%d of %d tasks are granted", granted, testPartitions)
	}
}
