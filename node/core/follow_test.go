package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestWhoFollowsATaskThatMovesAwayIsSentAfterIt: its partition is handed over to others
// and deleted here. Whoever waited for its updates, or its end, was told that there is no
// such task once the wait was over, and heard nothing before.
func TestWhoFollowsATaskThatMovesAwayIsSentAfterIt(t *testing.T) {
	r := newGrowing(t)
	follows := map[ring.Partition]message.Origin{}
	for p := range ring.Partition(testPartitions) {
		task := r.in(p)
		r.add(0, task, spec("q"))
		follows[p] = r.send(0, &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: proto.MaxWait.Seconds()})
	}
	for range 4 {
		r.join()
	}
	r.run(3)
	moved := 0
	for p, from := range follows { // Any order: each is judged alone.
		reply, answered := r.peers[0].replies[from]
		if slices.Contains(r.state().Cells[p].Cohort, r.peers[0].self) {
			if answered {
				t.Errorf("partition %d is kept here, and who follows a task of it is answered %+v", p, reply)
			}
			continue
		}
		moved++
		if !answered || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || reply.Err.RetryAfter == 0 || reply.Err.Lasting {
			t.Errorf("partition %d has moved, and who follows a task of it is answered %+v", p, reply)
		}
	}
	if moved == 0 {
		t.Fatal("nothing has moved")
	}
	r.now = r.now.Add(proto.MaxWait)
	r.pass(time.Second)
	for p, from := range follows { // Any order: each is judged alone.
		if reply := r.peers[0].replies[from]; reply.Err != nil && reply.Err.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			t.Errorf("partition %d: %v", p, reply.Err)
		}
	}
}

// TestWhoReadsALogWhileTheNodeStopsAsksAnother: it was told that it had cancelled its
// request itself, which no client repeats.
func TestWhoReadsALogWhileTheNodeStopsAsksAnother(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	from := r.send(1, &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: 20})
	r.step(message.Drain{}) // before it has been read
	r.turn()
	if reply := r.replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("answered %+v", reply)
	}
}
