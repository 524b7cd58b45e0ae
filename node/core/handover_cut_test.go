package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// TestAHandOverOutlivesAConnection: the connection to a voter that is being compared
// with ends, and there is another one at once. Claims of the partition wait meanwhile.
func TestAHandOverOutlivesAConnection(t *testing.T) {
	r := newCluster(t, 5, time.Minute)
	for _, o := range r.peers[1:] {
		r.set(o.self, register.Joining) // known to all
	}
	r.tell()
	r.settle()
	cell := r.state().Cells[0]
	to := []register.Member{cell.Cohort[0], r.peers[3].self, r.peers[4].self}
	r.say(1, 0, &message.Elect{Stand: []message.Stand{{Epoch: cell.Epoch, Nonce: cell.Nonce, To: to}}})
	hand := func() *leadership.CohortTransfer { return r.peers[0].core.elector.Hands[0] }
	for len(r.post) > 0 && hand() == nil {
		r.deliver(0)
	}
	if hand() == nil || hand().Busy == (register.Member{}) {
		t.Fatal("nothing is handed over")
	}
	with := 1
	if hand().Busy == r.peers[2].self {
		with = 2
	}
	r.cut[[2]int{0, with}], r.cut[[2]int{with, 0}] = true, true
	r.tell()
	r.settle()
	clear(r.cut)
	r.tell()
	r.live(4*time.Second, 100*time.Millisecond, nothing)
	if now := r.state().Cells[0]; !slices.Equal(now.Cohort, to) {
		t.Fatalf("four seconds later the cohort is %v, and the hand-over: %+v", now.Cohort, hand())
	}
}
