package core

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/refusal"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// note writes a line of a claim through a node, and has a majority acknowledge it while the
// third member hears nothing of it.
func (r *trio) note(via, other int, task id.ID, token, seq uint64) {
	r.t.Helper()
	from := r.send(via, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: seq, Data: []byte{byte(seq)}})
	r.settleBut(r.between(via, other))
	if res := r.peers[via].replies[from].Message.(*nornv1.WriteReply).Results[0]; res.GetReceipt().GetDurableCopies() != 2 {
		r.t.Fatal(res)
	}
}

// TestWhoFollowsALogGoesOnWhereItWas: at a replica, which leads now, that lacks the line that
// it has seen last. It was given the lines of the next claim, and never the rest of this one.
func TestWhoFollowsALogGoesOnWhereItWas(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	behind := r.leader(1)
	a, b := (behind+1)%3, (behind+2)%3
	const first, second = 1<<32 + 1, 1<<32 + 2
	for seq := range uint64(3) {
		r.note(a, b, task, first, seq)
	}
	r.send(a, &nornv1.UpdateRequest{Id: task.Bytes(), Token: second, Data: []byte("x")})
	r.settle()
	for _, o := range r.peers { // nothing is sent again
		o.core.replication.Writes.Open = nil
	}
	ask := &nornv1.LogRequest{Id: task.Bytes(), After: true, AfterToken: first, AfterSeq: 1}
	from := r.send(behind, ask)
	r.settle()
	reply, ok := r.peers[behind].replies[from]
	if !ok || reply.Err != nil {
		t.Fatalf("answered %+v", reply)
	}
	var got []uint64
	for _, u := range reply.Message.(*nornv1.LogReply).GetUpdates() {
		got = append(got, u.GetToken()<<8+u.GetSeq())
	}
	if want := []uint64{first<<8 + 2, second << 8}; !slices.Equal(got, want) {
		t.Errorf("it is given %x, and is to have %x", got, want)
	}
}

// TestWhoGoesOnWithALogThatIsNotHereAsksAgain where nobody tells this replica what it lacks.
func TestWhoGoesOnWithALogThatIsNotHereAsksAgain(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	behind := r.leader(1)
	a, b := (behind+1)%3, (behind+2)%3
	r.note(a, b, task, 1<<32+1, 0)
	from := r.send(behind, &nornv1.LogRequest{Id: task.Bytes(), After: true, AfterToken: 1<<32 + 1, WaitSeconds: 20})
	silent := r.between(a, b)
	r.settleBut(silent)
	for range 30 {
		r.pass(100 * time.Millisecond)
		r.settleBut(silent)
	}
	if reply := r.peers[behind].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || reply.Err.Guarantee != refusal.MonotonicRead {
		t.Errorf("answered %+v", reply)
	}
}

// TestWhoWaitsForTheEndOnlyAsksNobody for what it has no need of: it reads on from behind all
// that there can be.
func TestWhoWaitsForTheEndOnlyAsksNobody(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	via := r.leader(1)
	from := r.send(via, &nornv1.LogRequest{Id: task.Bytes(), After: true, AfterToken: math.MaxUint64, AfterSeq: math.MaxUint64, WaitSeconds: 20})
	if len(r.post) != 0 {
		t.Errorf("the others are asked: %v", r.post)
	}
	r.send(via, &nornv1.UpdateRequest{Id: task.Bytes(), Token: 1<<32 + 1, Data: []byte("a line")})
	r.settle()
	if reply, answered := r.peers[via].replies[from]; answered {
		t.Errorf("answered %+v", reply)
	}
	r.send(via, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1, Seq: 1}}})
	r.settle()
	reply := r.peers[via].replies[from]
	if m, _ := reply.Message.(*nornv1.LogReply); len(m.GetUpdates()) != 0 || m.GetState() != nornv1.State_STATE_COMPLETED {
		t.Errorf("answered %+v", reply)
	}
}

// TestTheLastLinesComeBeforeTheEnd: a replica has heard that a task has ended, and not its
// last lines, which a majority has acknowledged. Who followed the task there was told of the
// end after a part of its output, and asked for no more.
func TestTheLastLinesComeBeforeTheEnd(t *testing.T) {
	const token = 1<<32 + 1
	for lines := range 3 { // that all have; the next one has not come to all
		r := newTrio(t)
		task := r.put(0, 1)
		behind := r.leader(1)
		a, b := (behind+1)%3, (behind+2)%3
		for seq := range lines {
			r.send(a, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: uint64(seq), Data: []byte("a line")})
		}
		r.settle()
		r.note(a, b, task, token, uint64(lines))
		r.send(a, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: token, Seq: uint64(lines) + 1}}})
		r.settle()
		for _, o := range r.peers { // nothing is sent again
			o.core.replication.Writes.Open = nil
		}
		ask := func(m *nornv1.LogRequest) *nornv1.LogReply {
			m.Id = task.Bytes()
			from := r.send(behind, m)
			r.settle()
			reply, _ := r.peers[behind].replies[from].Message.(*nornv1.LogReply)
			return reply
		}
		m := ask(&nornv1.LogRequest{})
		if lines > 0 {
			if len(m.GetUpdates()) != lines || m.GetState() != nornv1.State_STATE_COMPLETED {
				t.Fatalf("%d lines are there first, and it is %v; of %d", len(m.GetUpdates()), m.GetState(), lines)
			}
			m = ask(&nornv1.LogRequest{After: true, AfterToken: token, AfterSeq: uint64(lines) - 1})
		}
		if u := m.GetUpdates(); len(u) != 1 || u[0].GetSeq() != uint64(lines) || m.GetState() != nornv1.State_STATE_COMPLETED {
			t.Errorf("after %d lines: %v", lines, m)
		}
	}
}
