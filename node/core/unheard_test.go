package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// unheardBy3 is a task that a majority has acknowledged, and that node 3 has not heard of.
// The partition is led by the given node.
func unheardBy3(t *testing.T, leader int) (*trio, id.ID) {
	r := newTrio(t)
	r.leadOf(1, leader)
	task := r.at(1)
	r.cut[[2]int{0, 2}], r.cut[[2]int{1, 2}] = true, true
	from := r.enqueue(0, task, nil)
	r.settle()
	if r.result(0, from).GetReceipt() == nil || r.copies(task) != 2 {
		t.Fatalf("%v on %d disks", r.result(0, from), r.copies(task))
	}
	clear(r.cut)
	r.now = r.now.Add(10 * time.Second) // nothing is sent again
	r.peers[0].core.replication.Writes.Open = nil
	return r, task
}

// aboutOne are requests about a task whose answer is that it is not known, where it is not.
func aboutOne(task id.ID) []gproto.Message {
	return []gproto.Message{
		&nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}},
		&nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}, OnlyStates: []nornv1.State{nornv1.State_STATE_READY}},
		&nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}},
		&nornv1.LogRequest{Id: task.Bytes()},
		&nornv1.ExplainRequest{Id: task.Bytes()},
	}
}

// TestATaskThatOneReplicaHasNotHeardOfIsKnown: whoever is asked, and whoever leads. A
// cancellation was refused with NOT_FOUND, which a bulk action counts as skipped, and the
// task ran; who waited for it was told that there is no such task.
func TestATaskThatOneReplicaHasNotHeardOfIsKnown(t *testing.T) {
	for leader := range 3 {
		for n := range aboutOne(id.ID{}) {
			r, task := unheardBy3(t, leader)
			m := aboutOne(task)[n]
			from := r.send(2, m)
			r.settle()
			reply, ok := r.peers[2].replies[from]
			if err := refusedWith(reply.Message, reply.Err); !ok || err != nil {
				t.Errorf("node %d leads, %T: %v, %v", leader+1, m, ok, err)
			}
			if _, cancels := m.(*nornv1.CancelRequest); !cancels {
				continue
			}
			if s := r.stateOf(0, task); s != nornv1.State_STATE_CANCELLED {
				t.Errorf("node %d leads, it is %v", leader+1, s)
			}
		}
	}
}

// TestATaskThatNobodyKnows is not found, once a majority has said so; while there is none
// in reach it is not known whether it is there.
func TestATaskThatNobodyKnows(t *testing.T) {
	answered := func(r *trio, m gproto.Message) *proto.Error {
		from := r.send(2, m)
		r.settle()
		r.live(replication.ReadTimeout+time.Second, 100*time.Millisecond, nothing)
		reply, ok := r.peers[2].replies[from]
		if !ok {
			t.Fatalf("%T is not answered", m)
		}
		return refusedWith(reply.Message, reply.Err)
	}
	for n := range aboutOne(id.ID{}) {
		r := newTrio(t)
		r.leadOf(1, 2)
		m := aboutOne(r.at(1))[n]
		if err := answered(r, m); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			t.Errorf("%T: %v", m, err)
		}
		r.kill(0)
		r.kill(1)
		if err := answered(r, m); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || err.Effect != nornv1.Effect_EFFECT_NONE || err.Lasting {
			t.Errorf("%T, alone: %+v", m, err)
		}
	}
}

// TestABulkActionIsJudgedByWhoKnowsTheClaims: a task was claimed since it was found to be
// ready, and the node that is asked to cancel it, should it be ready still, has not heard
// of that. What runs is left alone; it was cancelled.
func TestABulkActionIsJudgedByWhoKnowsTheClaims(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	task := r.put(0, 1)
	r.cut[[2]int{0, 2}], r.cut[[2]int{1, 2}] = true, true
	from := r.send(0, claimUpTo(1))
	r.settle()
	if grants, _ := r.granted(0, from); len(grants) != 1 {
		t.Fatal("it is not claimed")
	}
	clear(r.cut)
	only := []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY}
	res := ask[*nornv1.WriteReply](r, 2, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}, OnlyStates: only}).Results[0]
	if res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT || res.State != nornv1.State_STATE_CLAIMED {
		t.Errorf("answered %v", res)
	}
	if s := r.stateOf(0, task); s != nornv1.State_STATE_CLAIMED {
		t.Errorf("it is %v", s)
	}
}

// TestWhatIsKnownIsCancelledBesideWhatIsNot: once it is given up to ask about the others,
// in the same round.
func TestWhatIsKnownIsCancelledBesideWhatIsNot(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 2)
	task := r.put(0, 1)
	r.send(2, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes(), r.at(1).Bytes()}})
	r.post = nil
	r.now = r.now.Add(replication.ReadTimeout)
	ready, err := r.peers[2].core.Ready(r.now)
	r.check(err)
	facts := func(s message.Send) bool {
		m, is := s.Message.(*message.Facts)
		return is && len(m.Parts) == 1 && m.Parts[0].Facts[0].Task == task
	}
	if ready.Persist == nil || !slices.ContainsFunc(ready.Early, facts) {
		t.Errorf("the others are sent %v", ready.Early)
	}
}
