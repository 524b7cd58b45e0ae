package core

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestARemovedNodeHandsOverAndServesNobody: it was cut off when it was removed,
// and has what nobody else has.
func TestARemovedNodeHandsOverAndServesNobody(t *testing.T) {
	r := newGrowing(t)
	for p := range ring.Partition(partitions) {
		r.add(0, r.in(p), spec("q"))
	}
	r.join()
	r.join()
	r.run(3)
	for i := range 2 {
		r.cut[[2]int{i, 2}], r.cut[[2]int{2, i}] = true, true
	}
	gone := r.peers[2]
	gone.deaf = true
	task := r.ids.Next(r.now.Wall)
	from := r.enqueue(2, task, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
	if res := r.result(2, from); res.GetReceipt().GetDurableCopies() != 1 || r.copies(task) != 1 {
		t.Fatalf("got %v", res)
	}
	waits := r.send(2, &nornv1.ClaimRequest{Queues: []string{"none"}, WaitSeconds: 50})
	r.set(gone.self, register.Removed)
	for range 20 {
		r.tell()
		r.pass(time.Second)
		r.settle()
	}
	clear(r.cut)
	r.tell()
	r.check(gone.core.Step(r.now, Dismissed{}))
	r.turn(2)
	if reply, ok := gone.replies[waits]; !ok || reply.Err == nil {
		t.Errorf("who waits there is answered %+v", reply)
	}
	if n := gone.core.Leading(); n != 0 {
		t.Errorf("it leads %d partitions", n)
	}
	for range 30 {
		r.tell()
		r.pass(time.Second)
		r.settle()
	}
	for i := range 2 {
		if !vnode.Known(r.peers[i].store, ring.Of(task, partitions), task) {
			t.Errorf("node %d was not given it", i+1)
		}
	}
	if !vnode.Known(gone.store, ring.Of(task, partitions), task) {
		t.Error("it was deleted where nobody knows who keeps it")
	}
	from = r.send(2, &nornv1.GetRequest{Id: task.Bytes()})
	if reply := gone.replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("it answers %+v", reply)
	}
}
