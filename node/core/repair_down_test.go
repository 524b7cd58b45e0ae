package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// newOneDown is three nodes of which the last one is down, for so long that each
// comparison with it has begun.
func newOneDown(t *testing.T, leads int) *trio {
	r := newRepairingTrio(t, 2*time.Second)
	r.lead(leads)
	r.linger(10 * time.Second)
	r.kill(2)
	r.tell()
	r.live(5*time.Second, 100*time.Millisecond, nothing)
	return r
}

// TestWhoIsDownDoesNotHoldUpRepair: what the others lack of each other they have after
// their next comparisons, not after those with a node that is down have timed out.
func TestWhoIsDownDoesNotHoldUpRepair(t *testing.T) {
	r := newOneDown(t, 0)
	unheard := func(l letter) bool { _, is := l.message.(*message.Facts); return is }
	for p := range ring.Partition(testPartitions) {
		task, s := r.in(p), spec("q")
		s.Id = task.Bytes()
		r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}})
		r.settleBut(unheard)
		r.live(10*time.Second, 100*time.Millisecond, unheard)
		if n := r.copies(task); n != 2 {
			t.Errorf("partition %d: after 10 s there are %d copies, of 2 nodes that are up", p, n)
		}
	}
	if p := r.peers[0].core; p.repairs.Begun() > repair.MaxRounds+repair.MaxVain {
		t.Errorf("%d comparisons are under way", p.repairs.Begun())
	}
}

// TestWhoIsDownDoesNotHoldUpKeys: a leader that has to hear from another replica first
// does so at once.
func TestWhoIsDownDoesNotHoldUpKeys(t *testing.T) {
	r := newOneDown(t, 1)
	r.lead(0)
	r.takeKey(0)
}

// TestWhoIsThoughtDownIsComparedWithToo: in its turn, because what a node is told of who
// is up may be wrong.
func TestWhoIsThoughtDownIsComparedWithToo(t *testing.T) {
	r := newOneDown(t, 0)
	before := r.peers[0].core.repairs.Well
	p, to := r.peers[2], r.peers[0].self
	r.open(2)
	r.linger(2 * time.Minute) // nobody is told that it is back
	if r.peers[0].core.view.Up(p.self) {
		t.Fatal("the first node was told")
	}
	for at := range ring.Partition(testPartitions) {
		if p.core.retention.Tombstones.Marks[message.Pair{Partition: at, Peer: to}] == nil {
			t.Errorf("partition %d was not compared; %d comparisons before, %d now", at, before, r.peers[0].core.repairs.Well)
		}
	}
}
