package core

import (
	"fmt"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestATombstoneStaysWhileATaskWaits: a task came when one that it depends on was
// completed and collected already, and waits for another one for longer than anything
// is remembered. Whoever is to lead it then still finds how the first one ended;
// afterwards the tombstone goes as well (track record).
func TestATombstoneStaysWhileATaskWaits(t *testing.T) {
	// Partition 0 is kept by the first three nodes, partition 3 by the last of five or
	// six and the next two: all of those of the dependency, some of them, or none.
	for _, nodes := range []int{3, 5, 6} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			r := newCluster(t, nodes, 0).collecting()
			r.elect()
			cohort := r.state().Cells[3].Cohort
			ended, open, task := r.in(0), r.in(0), r.in(3)
			r.add(0, ended, spec("a"))
			r.finish(0, "a")
			if _, ok := r.until(time.Minute, func() bool { return r.peers[0].remains()[ended] }); !ok {
				t.Fatal("it is not collected")
			}
			r.add(0, open, spec("b"))
			r.add(2, task, after("c", onFailWait, ended, open))
			r.linger(3 * shortGrace)
			for i := range r.peers {
				if r.peers[i].self == cohort[1] {
					r.leadOf(3, i)
				}
			}
			r.finish(0, "b")
			r.linger(3 * watchEvery)
			if s := r.stateOf(0, task); s != nornv1.State_STATE_READY {
				t.Fatalf("when all its dependencies are completed it is %v", s)
			}
			r.finish(1, "c")
			r.wantGone(3 * shortGrace)
		})
	}
}
