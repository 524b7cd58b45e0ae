package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// TestOldestReadyWhateverItsPriority: the oldest task that is ready is told, also
// where better ones of the same partition, which are younger, come before it.
func TestOldestReadyWhateverItsPriority(t *testing.T) {
	r := newRig(t)
	inEach := func(priority int32) {
		for p := range testPartitions {
			task := r.ids.Next(r.now.Wall)
			for ring.Of(task, testPartitions) != ring.Partition(p) {
				task = r.ids.Next(r.now.Wall)
			}
			r.enqueue(&nornv1.TaskSpec{Id: task.Bytes(), Queue: "q", Priority: priority})
		}
	}
	inEach(-3)
	r.pass(time.Hour)
	inEach(9)
	if got := must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{Names: []string{"q"}}).Queues[0].GetOldestReadySeconds(); got < 3599 {
		t.Errorf("the queue's is %v s old", got)
	}
	for _, p := range must[*nornv1.StatusReply](r, &nornv1.StatusRequest{}).GetPartitions() {
		if p.GetOldestReadySeconds() < 3599 {
			t.Errorf("that of partition %d is %v s old", p.GetId(), p.GetOldestReadySeconds())
		}
	}
}

// TestLedQueues: each node tells of the partitions that it leads, so that the sum
// over all nodes is that of the cluster; of queues that it has no task of, too.
func TestLedQueues(t *testing.T) {
	r := newCluster(t, 5, 0)
	var tasks []*nornv1.TaskSpec
	for range 90 {
		tasks = append(tasks, spec("q"))
	}
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks})
	sum, most := uint64(0), uint64(0)
	for i := range r.peers {
		from := message.Origin{Conn: 1, Request: 1 << 40, Method: uint16(nornv1.Method_METHOD_QUEUES)}
		r.check(r.peers[i].core.Step(r.clock(i), message.LedQueues(from, &nornv1.QueuesRequest{}, r.now.Mono)))
		r.turn(i)
		r.settle()
		queues := r.peers[i].replies[from].Message.(*nornv1.QueuesReply).GetQueues()
		if len(queues) != 1 || queues[0].GetName() != "q" {
			t.Fatalf("node %d: %v", i+1, queues)
		}
		sum, most = sum+queues[0].GetCount().GetReady(), max(most, queues[0].GetCount().GetReady())
	}
	if sum != 90 || most == 90 {
		t.Errorf("%d in all, %d of one node", sum, most)
	}
}

// TestWhoWaitsWhereNothingIsLed counts: a worker is with a node that leads no partition, as
// one that was just started again.
func TestWhoWaitsWhereNothingIsLed(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	for p := range ring.Partition(testPartitions) {
		if old := r.leader(p); old != 0 {
			r.depose(p, old, 0)
		}
	}
	ask[*nornv1.ClaimReply](r, 0, claimUpTo(5))
	for i := range 2 {
		r.send(i, waiting60(uint64(7+i)))
		r.settle()
	}
	for i, want := range []uint32{1, 2, 1} {
		for _, m := range []gproto.Message{
			&nornv1.QueuesRequest{}, &nornv1.QueuesRequest{Names: []string{"q"}}, // listed, named, not changed, and changed
			&nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{}, Fields: []string{"note"}},
			&nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{MaxTasks: uint64(9 + i)}, Fields: []string{"max_tasks"}},
		} {
			q := ask[*nornv1.QueuesReply](r, i, m).Queues
			if len(q) != 1 || q[0].WaitingClaims != want {
				t.Errorf("through node %d, %T: %v", i+1, m, q)
			}
		}
	}
}
