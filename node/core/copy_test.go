package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// TestACopyIsNotHeldBackByTheRateOfRepair: who gives a newcomer its pages gives
// them at the rate of moves. At that of repair a wiped node was filled with at
// most 32 MiB/s from each of the others.
func TestACopyIsNotHeldBackByTheRateOfRepair(t *testing.T) {
	r := newGrowing(t)
	for range 50 { // in all partitions
		r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	}
	r.settle()
	r.peers[0].core.repairs.Bucket.Take(r.now, 1<<40) // repair has nothing left for hours
	r.join()
	r.run(2)
	r.audit()
}

// TestACopyIsWrittenInBulk: what fills a newcomer is written in bulk there, and what
// clients enqueue is not.
func TestACopyIsWrittenInBulk(t *testing.T) {
	r := newGrowing(t)
	for range 50 { // in all partitions
		r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	}
	r.settle()
	r.join()
	r.run(2)
	if first, newcomer := r.peers[0].bulk, r.peers[1].bulk; first != 0 || newcomer == 0 {
		t.Errorf("%d rounds of the first node were in bulk, and %d of the newcomer", first, newcomer)
	}
	r.audit()
}

// TestWhoIsRemovedIsNotAskedOn: a comparison goes on while the other side does not
// answer, for it may come back; not when that was removed, as when another incarnation
// has its name. Facts travelled to such a one for 20 s (simulator, seed 423).
func TestWhoIsRemovedIsNotAskedOn(t *testing.T) {
	for _, removed := range []bool{false, true} {
		r := newGrowing(t)
		r.put(0, 1)
		r.settle()
		i := r.join()
		r.kill(i)
		r.tell()
		k := message.Pair{Partition: 1, Peer: r.peers[i].self}
		repairs := r.peers[0].core.repairs
		repairs.Copy(r.now, k)
		if removed {
			r.set(k.Peer, register.Removed)
			r.tell()
		}
		r.live(3*time.Second, 250*time.Millisecond, nothing)
		if busy := repairs.Busy(k); busy == removed {
			t.Errorf("removed: %t, and it is waited for: %t", removed, busy)
		}
	}
}
