package core

import (
	"testing"
	"time"

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
		for p := range ring.Partition(partitions) {
			task := r.in(p)
			from := r.enqueue(0, task, nil)
			r.settleBut(func(l letter) bool { _, facts := l.message.(*Facts); return facts && l.to == misses })
			if res := r.result(0, from); res.GetReceipt() == nil {
				t.Fatalf("it is not acknowledged: %v", res)
			}
		}
		r.kill(0)
		r.live(settleTime+time.Second, 50*time.Millisecond, nothing)
		r.elect()
		r.live(2*time.Second, 50*time.Millisecond, nothing)
		granted := 0
		for range partitions { // each by one leader
			granted += len(ask[*nornv1.ClaimReply](r, 1, claimUpTo(partitions)).Grants)
		}
		if granted != partitions {
			t.Errorf("without node %d's knowing %d of %d tasks are granted", misses+1, granted, partitions)
		}
	}
}
