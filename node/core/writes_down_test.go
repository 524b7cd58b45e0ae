package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// putLarge enqueues a task of 1 MiB through the first node, in the partition that it
// takes its turn in, and gives the error of the request.
func (r *trio) putLarge(n int, lost func(letter) bool) (id.ID, *proto.Error) {
	r.t.Helper()
	task, from := r.sendLarge(n, nornv1.WriteLevel_WRITE_LEVEL_QUORUM)
	r.settleBut(lost)
	reply, ok := r.peers[0].replies[from]
	if !ok {
		r.t.Fatalf("task %d is not answered", n)
	}
	if reply.Err == nil {
		if res := reply.Message.(*nornv1.EnqueueReply).Results[0]; res.GetReceipt().GetDurableCopies() < 2 {
			r.t.Fatalf("task %d: %v", n, res)
		}
	}
	return task, reply.Err
}

func (r *trio) sendLarge(n int, level nornv1.WriteLevel) (id.ID, message.Origin) {
	task, s := r.at(ring.Partition(n%testPartitions)), spec("large")
	s.Id, s.Payload = task.Bytes(), make([]byte, 1<<20)
	return task, r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}, Durability: &nornv1.Durability{Level: level}})
}

// TestWhoIsDownLeavesRoom: with one of three nodes down the others take as much as ever.
// What waited for it filled the room for open writes, and for as long as it was away all
// beyond 13 MB/s was refused (track record). When it is back it gets everything.
func TestWhoIsDownLeavesRoom(t *testing.T) {
	r := newOneDown(t, 0)
	_, waits := r.sendLarge(0, nornv1.WriteLevel_WRITE_LEVEL_ALL)
	var all []id.ID
	for n := range replication.MaxOpenBytes>>20 + 16 { // at one instant: nothing has waited for long
		task, err := r.putLarge(n, nothing)
		if err != nil {
			t.Fatalf("after %d MiB: %v", n, err)
		}
		all = append(all, task)
	}
	w, sum := r.peers[0].core.replication.Writes, 0
	for _, o := range w.Open {
		sum += o.Bytes
	}
	if w.Bytes != sum || sum > replication.MaxOpenBytes || sum < replication.MaxOpenBytes/4 {
		t.Errorf("%d MiB wait for who is down, the open writes have %d MiB", w.Bytes>>20, sum>>20)
	}
	if res := r.result(0, waits); res != nil {
		t.Errorf("all copies were asked for: %v", res)
	}
	r.live(replication.WriteTimeout+time.Second, time.Second, nothing)
	if w.Bytes != 0 || len(w.Open) != 0 {
		t.Errorf("%d writes with %d bytes are open when all were given up", len(w.Open), w.Bytes)
	}
	if e := r.result(0, waits).GetError(); e == nil || e.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN {
		t.Errorf("all copies were asked for: %v", r.result(0, waits))
	}
	r.open(2)
	r.tell()
	r.linger(30 * time.Second)
	for n, task := range all {
		for i, p := range r.peers {
			if !vnode.Known(p.store, ring.Of(task, testPartitions), task) {
				t.Errorf("node %d lacks task %d", i+1, n)
			}
		}
	}
}

// TestWhoIsBackSoonIsSentWhatItMissed: as long as there is room nothing is left to the
// next comparison; here there are none.
func TestWhoIsBackSoonIsSentWhatItMissed(t *testing.T) {
	r := newTrio(t)
	r.cut[[2]int{0, 2}], r.cut[[2]int{2, 0}] = true, true
	r.tell()
	var all []id.ID
	for n := range 8 {
		task, err := r.putLarge(n, nothing)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, task)
	}
	r.live(time.Second, 100*time.Millisecond, nothing)
	clear(r.cut)
	r.tell()
	r.live(replication.ResendSlow, 100*time.Millisecond, nothing)
	for n, task := range all {
		if !vnode.Known(r.peers[2].store, ring.Of(task, testPartitions), task) {
			t.Errorf("task %d was not sent again", n)
		}
	}
}

// TestWhatFewHaveIsKept: with both others down nothing is let go that waits for them, though
// no answer does: the first one that is back is sent it.
func TestWhatFewHaveIsKept(t *testing.T) {
	r := newTrio(t)
	for i := range r.peers[1:] {
		r.cut[[2]int{0, i + 1}], r.cut[[2]int{i + 1, 0}] = true, true
	}
	r.tell()
	var all []id.ID
	for n := range replication.ShedBytes>>20 + 8 {
		task, from := r.sendLarge(n, nornv1.WriteLevel_WRITE_LEVEL_ONE)
		if res := r.result(0, from); res.GetReceipt() == nil {
			t.Fatalf("task %d: %v", n, res)
		}
		all = append(all, task)
	}
	r.settle()
	r.cut[[2]int{0, 1}], r.cut[[2]int{1, 0}] = false, false
	r.tell()
	r.live(replication.ResendSlow+replication.ResendAfter, 100*time.Millisecond, nothing)
	for n, task := range all {
		if !vnode.Known(r.peers[1].store, ring.Of(task, testPartitions), task) {
			t.Errorf("task %d was not sent again", n)
		}
	}
}

// TestWhoIsSlowSlowsDownWhoWrites: nothing is left behind for a node that is in reach and
// does not keep up; new tasks wait, and those that are done are taken, because they make
// room in the queue.
func TestWhoIsSlowSlowsDownWhoWrites(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 0)
	r.live(time.Second, 100*time.Millisecond, nothing)
	g := ask[*nornv1.ClaimReply](r, 0, claimUpTo(1)).Grants[0]
	slow := func(l letter) bool { _, is := l.message.(*message.Facts); return is && l.to == 2 }
	for n := 0; ; n++ {
		_, err := r.putLarge(n, slow)
		if err != nil && err.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && n >= replication.MaxOpenBytes>>20 {
			break
		}
		if err != nil || n > replication.MaxOpenBytes>>20 {
			t.Fatalf("after %d MiB: %v", n, err)
		}
	}
	w := r.peers[0].core.replication.Writes
	done := &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: g.Token}}}
	from := r.send(0, done)
	r.settleBut(slow)
	reply := r.peers[0].replies[from]
	if reply.Err != nil || reply.Message.(*nornv1.WriteReply).Results[0].GetReceipt().GetDurableCopies() < 2 {
		t.Errorf("a completion: %v", reply)
	}
	for extra, refused := range map[int]bool{0: false, 1: true} {
		pretended := replication.MaxEndBytes + extra - w.Bytes
		w.Bytes += pretended
		from := r.send(0, done)
		e := r.peers[0].replies[from].Err
		if is := e != nil && e.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && e.RetryAfter > 0; is != refused {
			t.Errorf("a completion with %d bytes over: %v", extra, e)
		}
		w.Bytes -= pretended
		r.settleBut(slow)
	}
}
