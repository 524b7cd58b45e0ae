package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestNobodyIsSentToARemovedNode: one that has the only copy of some partitions is
// removed while it runs. It refuses everybody; nobody else may lead those before an
// operator has given them up. New tasks go to the other partitions.
func TestNobodyIsSentToARemovedNode(t *testing.T) {
	r := newCohorts(t, 3, 0, func(p int) []int { return []int{p % 3} })
	for _, o := range r.peers[1:] {
		r.set(o.self, register.Joining)
		r.set(o.self, register.Active)
	}
	r.set(r.peers[2].self, register.Removed)
	r.check(r.peers[2].core.Step(r.now, message.Dismissed{}))
	r.tell()
	r.settle()
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	const gone = ring.Partition(2)
	if m, _ := r.peers[0].core.routes.Leader(gone); m != r.peers[2].self {
		t.Fatalf("partition %d is led by %v", gone, m)
	}
	for i := range 2 {
		if a := r.peers[i].core.Available(Sight{}); !a.Enqueue || a.Enqueueable[0] != 0b1011 {
			t.Errorf("node %d says that these partitions take tasks: %b", i+1, a.Enqueueable[0])
		}
		for p, s := range ask[*nornv1.StatusReply](r, i, &nornv1.StatusRequest{}).Partitions {
			if want := ring.Partition(p) != gone; s.EnqueueAvailable != want || s.ClaimAvailable != want {
				t.Errorf("node %d, partition %d: enqueue %v, claim %v", i+1, p, s.EnqueueAvailable, s.ClaimAvailable)
			}
		}
		for range 20 {
			res := ask[*nornv1.EnqueueReply](r, i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}}).Results[0]
			if res.GetReceipt() == nil {
				t.Fatalf("not enqueued: %v", res)
			}
		}
	}
}

// TestRemovedNodesThatComeBackFreeNoPartition: an operator has to, which costs nothing
// then, because they hand over what only they have.
func TestRemovedNodesThatComeBackFreeNoPartition(t *testing.T) {
	r := newAdmins(t, 3)
	from := r.enqueue(1, r.at(0), nil)
	r.settleBut(func(l letter) bool { return l.to == 0 })
	if r.result(1, from).GetReceipt() == nil {
		t.Fatal("not enqueued")
	}
	r.kill(1)
	r.kill(2)
	r.tell()
	r.does(0, remove("n2", false))
	did := r.does(0, remove("n3", true))
	if !strings.Contains(strings.Join(did.Notes, "\n"), "go on after `norn cluster recover --accept-loss`") {
		t.Errorf("notes: %q", did.Notes)
	}
	for i := 1; i < 3; i++ {
		r.open(i)
		r.check(r.peers[i].core.Step(r.now, message.Dismissed{}))
	}
	r.live(time.Minute, time.Second, nothing)
	if s := r.status(0); s.Movement.Stuck != testPartitions {
		t.Fatalf("they are not stuck: %v", s.Movement)
	}
	if stuck := r.does(0, dry(acceptLoss())); len(stuck.Partitions) != testPartitions {
		t.Fatalf("they have gone on: %v", stuck)
	}
	r.does(0, acceptLoss())
	r.live(time.Minute, time.Second, nothing)
	if n := ask[*nornv1.CountReply](r, 0, &nornv1.CountRequest{}).Total.Total; n != 51 {
		t.Errorf("%d tasks of 51", n)
	}
}
