package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestARemovedNodeHandsOverAndServesNobody: it was cut off when it was removed,
// and has what nobody else has.
func TestARemovedNodeHandsOverAndServesNobody(t *testing.T) {
	r := newGrowing(t)
	for p := range ring.Partition(testPartitions) {
		r.add(0, r.in(p), spec("q"))
	}
	r.join()
	r.join()
	r.run(3)
	for i := range 2 {
		r.cut[[2]int{i, 2}], r.cut[[2]int{2, i}] = true, true
	}
	gone := r.peers[2]
	gone.deaf, gone.mute = true, true
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
	r.check(gone.core.Step(r.now, message.Dismissed{}))
	r.turn(2)
	if reply, ok := gone.replies[waits]; !ok || reply.Err == nil {
		t.Errorf("who waits there is answered %+v", reply)
	}
	if n := gone.core.Leading(); n != 0 {
		t.Errorf("it leads %d partitions", n)
	}
	unheard := func(l letter) bool { _, cells := l.message.(*message.Cells); return cells }
	for range 30 {
		r.tell()
		r.pass(time.Second)
		r.settleBut(unheard)
	}
	for i := range 2 {
		if !vnode.Known(r.peers[i].store, ring.Of(task, testPartitions), task) {
			t.Errorf("node %d was not given it", i+1)
		}
	}
	if !vnode.Known(gone.store, ring.Of(task, testPartitions), task) {
		t.Error("it was deleted where nobody knows who keeps it")
	}
	if n, why := Handover(gone.core); n == 0 || !strings.Contains(why, "still counts") {
		t.Errorf("of %d partitions it says %q", n, why)
	}
	from = r.send(2, &nornv1.GetRequest{Id: task.Bytes()})
	if reply := gone.replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("it answers %+v", reply)
	}
	// As soon as it hears who keeps its partitions now, it is done with them.
	if _, ok := r.until(time.Minute, func() bool { return Left(gone.core) }); !ok || !gone.idle() {
		n, why := Handover(gone.core)
		t.Errorf("it still has %d partitions: %s", n, why)
	}
	for i := range 2 {
		if !vnode.Known(r.peers[i].store, ring.Of(task, testPartitions), task) {
			t.Errorf("node %d has lost it", i+1)
		}
	}
}

// dismissed opens a node that was removed while it was away. It hears nothing of
// the register but that: what it knows of it is what it knew when it went.
func (r *trio) dismissed(gone int) *peer {
	r.t.Helper()
	o := r.peers[gone]
	o.deaf, o.mute = true, true
	r.open(gone)
	r.check(o.core.Step(r.now, message.Changed{State: *r.before}))
	r.turn(gone)
	r.tell()
	r.check(o.core.Step(r.now, message.Dismissed{}))
	r.turn(gone)
	return o
}

// removed has the register forget a node that counts, which hears of it.
func (r *trio) removed(i int) *peer {
	r.t.Helper()
	for _, s := range []register.NodeStatus{register.Joining, register.Active, register.Removed} {
		r.set(r.peers[i].self, s)
	}
	return r.dismissed(i)
}

// TestARemovedNodeHandsOverWhatNobodyKnows: all that it has was collected and
// forgotten while it was away, and its partitions have moved. A majority of those
// who keep them now keep its facts aside and say so; nothing is back, it has
// nothing left, and it knows that.
func TestARemovedNodeHandsOverWhatNobodyKnows(t *testing.T) {
	r, all, old := lost(t)
	const gone = 3
	o := r.dismissed(gone)
	if now := r.tasksOf(gone); len(now) != len(old) {
		t.Fatalf("it comes back with %d tasks of %d", len(now), len(old))
	}
	if Left(o.core) {
		t.Fatal("it says that nothing is left")
	}
	if _, ok := r.until(10*time.Minute, func() bool { return o.idle() }, func() { r.never(all, 0, 1, 2) }); !ok {
		t.Fatalf("it still has %d tasks, and keeps %d aside; the others keep %d", len(r.tasksOf(gone)), len(r.apart(gone)), len(r.apart(0, 1, 2)))
	}
	r.turn(gone)
	if !Left(o.core) {
		t.Error("it does not know that nothing is left")
	}
	r.wantApart(old, 2, 0, 1, 2)
	if a := o.core.Available(Sight{}); a.Enqueue || a.Claim {
		t.Error("it seems to serve clients, now that it knows who does")
	}
	if s := o.core.Stats(); s.Quarantined == 0 {
		t.Error("it does not say that it has put facts aside")
	}
	r.wantShown(old, 0, 1, 2)
	r.audit()
}

// TestARemovedNodeSaysWhatItKeeps: those who keep its partitions now have no room
// for what nobody knows. It keeps that aside itself, any other node shows how much,
// and it says why; when there is room it comes to its end.
func TestARemovedNodeSaysWhatItKeeps(t *testing.T) {
	r, all, old := lost(t)
	for _, p := range r.peers[:3] {
		p.core.transfer.MaxAside = 1
	}
	const gone = 3
	o := r.dismissed(gone)
	r.until(5*time.Minute, func() bool { return false }, func() { r.never(all, 0, 1, 2) })
	r.wantApart(old, 1, gone)
	if n, why := Handover(o.core); n == 0 || Left(o.core) || !strings.Contains(why, "no room") {
		t.Errorf("of %d partitions it says %q", n, why)
	}
	for i := range gone {
		s := r.status(i)
		n := nodeOf(s, o.self.Node)
		if int(n.GetQuarantinedTasks()) != len(old) || n.GetHandoversLeft() == 0 || n.GetState() != "removed" {
			t.Errorf("through node %d: %v", i+1, n)
		}
		if s.Movement.HandoversLeft != 0 {
			t.Errorf("through node %d: others wait for %d", i+1, s.Movement.HandoversLeft)
		}
	}
	for _, p := range r.peers[:3] {
		p.core.transfer.MaxAside = 0
	}
	if _, ok := r.until(20*time.Minute, func() bool { return Left(o.core) }); !ok || !o.idle() {
		n, why := Handover(o.core)
		t.Fatalf("it still has %d partitions: %s", n, why)
	}
	r.wantApart(old, 2, 0, 1, 2)
}

// TestARemovedNodeThatCountsDeletesNothing: a partition of which it has not heard
// that anybody else keeps it stays, however many have the same.
func TestARemovedNodeThatCountsDeletesNothing(t *testing.T) {
	r := newTrio(t)
	r.before = r.state()
	task := r.stock(0, 1)[0]
	o := r.removed(2)
	r.until(2*time.Minute, func() bool { return false })
	if Left(o.core) || !vnode.Known(o.store, ring.Of(task, testPartitions), task) {
		t.Fatal("it has deleted what counts")
	}
	if n, why := Handover(o.core); n == 0 || !strings.Contains(why, "still counts") {
		t.Errorf("of %d partitions it says %q", n, why)
	}
}

// TestOnlyARemovedNodeLearnsCells: a member hears from the register who keeps what,
// and believes nobody else; who was removed tells nobody, and believes in what is
// later alone.
func TestOnlyARemovedNodeLearnsCells(t *testing.T) {
	r := newTrio(t)
	r.before = r.state()
	now := r.before.Cells[0].Epoch
	later := &message.Cells{Cells: []message.KnownCell{{Partition: 0, Cell: register.Cell{Epoch: now + 1}}, {Partition: testPartitions, Cell: register.Cell{Epoch: now + 1}}}}
	say := func(i int, m *message.Cells) {
		r.check(r.peers[i].core.Step(r.now, &message.FromPeer{From: r.peers[1].self, Message: m}))
		r.turn(i)
	}
	if say(0, later); r.peers[0].core.view.Cells[0].Epoch != now {
		t.Error("a member believes another node")
	}
	o := r.removed(2)
	if say(2, &message.Cells{Cells: []message.KnownCell{{Partition: 0, Cell: register.Cell{Epoch: now - 1}}}}); o.core.view.Cells[0].Epoch != now {
		t.Error("a removed node goes back")
	}
	r.post = nil
	if say(2, &message.Cells{Ask: true, Cells: []message.KnownCell{{Partition: 0}}}); len(r.post) != 0 {
		t.Errorf("a removed node answers %v", r.post)
	}
	if say(2, later); o.core.view.Cells[0].Epoch != now+1 {
		t.Error("a removed node does not learn")
	}
	r.post = nil
	if say(0, &message.Cells{Ask: true, Cells: []message.KnownCell{{Partition: 0}, {Partition: 1, Cell: r.before.Cells[1]}, {Partition: testPartitions}}}); len(r.post) != 1 || len(r.post[0].message.(*message.Cells).Cells) != 1 {
		t.Errorf("a member answers %v", r.post)
	}
}
