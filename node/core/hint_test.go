package core

import (
	"slices"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestNothingComesIntoWhatIsBeingDeleted: it would be acknowledged and gone.
func TestNothingComesIntoWhatIsBeingDeleted(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	p := ring.Of(task, testPartitions)
	r.peers[1].core.view.Dropping[p], r.peers[2].core.view.Dropping[p] = true, true
	from := r.enqueue(0, task, nil)
	for len(r.post) > 0 {
		r.deliver(0)
	}
	if res := r.result(0, from); res == nil || res.Error == nil || r.copies(task) != 1 {
		t.Fatalf("got %v, and it is on %d disks", res, r.copies(task))
	}
}

// TestALoneNodeTakesTasks for a partition that it does not keep, when nobody who
// does is in reach and one copy is enough; it says that this is a hint, and
// delivers it.
func TestALoneNodeTakesTasks(t *testing.T) {
	r := newGrowing(t)
	for range 4 {
		r.join()
	}
	for range 100 {
		r.pass(100 * time.Millisecond)
		r.settle()
		r.tell()
		r.settle()
	}
	cohort := r.state().Cells[0].Cohort
	lone := slices.IndexFunc(r.peers, func(p *peer) bool { return !slices.Contains(cohort, p.self) })
	if len(cohort) != 3 || lone < 0 {
		t.Fatalf("the cohort is %v", cohort)
	}
	members := func(do func(i int)) {
		for i, p := range r.peers {
			if slices.Contains(cohort, p.self) {
				do(i)
			}
		}
	}
	r.leads = -1 // the register is out of reach, too
	members(r.kill)
	r.tell()
	task := r.in(0)
	from := r.enqueue(lone, task, nil)
	if err := r.peers[lone].replies[from].Err; err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || err.Effect != nornv1.Effect_EFFECT_NONE {
		t.Fatalf("a quorum write: %v", r.peers[lone].replies[from])
	}
	res := r.result(lone, r.enqueue(lone, task, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}))
	if res == nil || res.Error != nil || res.Receipt.Copies != 0 || res.Receipt.DurableCopies != 0 || res.Receipt.Hinted != 3 {
		t.Fatalf("got %v", res)
	}
	r.kill(lone)
	r.open(lone)
	if r.copies(task) != 1 {
		t.Fatalf("it is on %d disks", r.copies(task))
	}
	members(r.open)
	for range 40 {
		r.tell()
		r.pass(time.Second)
		r.settle()
	}
	members(func(i int) {
		if !vnode.Known(r.peers[i].store, 0, task) {
			t.Errorf("node %d lacks it", i+1)
		}
	})
	if !vnode.Empty(r.peers[lone].store, ring.Partition(0)) {
		t.Error("it still lies with who took it in")
	}
}
