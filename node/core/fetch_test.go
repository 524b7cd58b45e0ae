package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// behind gives the node that leads partition 0, and the others, who are to acknowledge
// what it does not hear of.
func (r *trio) behind() (reader, a, b int) {
	reader = r.leader(0)
	return reader, (reader + 1) % 3, (reader + 2) % 3
}

// TestAReadOfAMajorityFindsTheEndBehindALongLog: what replicas answer is bounded, and the
// completion comes after the updates (track record).
func TestAReadOfAMajorityFindsTheEndBehindALongLog(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 0).Bytes()
	reader, a, b := r.behind()
	const token, updates = 1<<32 + 1, replication.FetchBytes>>20 + 2
	for n := range updates {
		r.send(a, &nornv1.UpdateRequest{Id: task, Token: token, Seq: uint64(n), Data: make([]byte, 1<<20)})
		r.settleBut(r.between(a, b))
	}
	from := r.send(a, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task, Token: token, Seq: updates}}})
	r.settleBut(r.between(a, b))
	if res := r.peers[a].replies[from].Message.(*nornv1.WriteReply).Results[0]; res.GetReceipt().GetDurableCopies() != 2 {
		r.t.Fatal(res)
	}
	got := ask[*nornv1.GetReply](r, reader, &nornv1.GetRequest{Id: task}).GetTask()
	if got.GetState() != nornv1.State_STATE_COMPLETED {
		t.Errorf("a majority knows that the task is completed, and the read says %v", got.GetState())
	}
	// Nobody is sent what it has: of old updates the answer does not say.
	for n := range updates { // what repair would have done
		u := crdt.Update{Token: token, Seq: uint64(n), Data: make([]byte, 1<<20), At: 1}
		r.say(a, reader, &message.Facts{Parts: []message.PartFacts{{Epoch: 1, Facts: []crdt.Fact{u.Fact(id.ID(task))}}}})
		r.say(a, b, &message.Facts{Parts: []message.PartFacts{{Epoch: 1, Facts: []crdt.Fact{u.Fact(id.ID(task))}}}})
	}
	r.settle()
	from = r.send(reader, &nornv1.GetRequest{Id: task})
	bytes := 0
	r.settleBut(func(l letter) bool {
		if f, is := l.message.(*message.Facts); is && l.to == b {
			for _, p := range f.Parts {
				for _, fact := range p.Facts {
					bytes += len(fact.Body)
				}
			}
		}
		return l.to == a || l.from == a
	})
	if _, answered := r.peers[reader].replies[from]; !answered || bytes > 0 {
		t.Errorf("%d bytes were sent to who has them (answered: %v)", bytes, answered)
	}
}

// TestAReadOfAMajorityFindsALargeTask: one of over 8 MiB, by who has not heard of it.
func TestAReadOfAMajorityFindsALargeTask(t *testing.T) {
	r := newTrio(t)
	reader, a, b := r.behind()
	r.peers[a].core.intake.MaxPayload = 16 << 20
	s := spec("q")
	task := r.in(0)
	s.Id, s.Payload = task.Bytes(), make([]byte, replication.FetchBytes+1)
	from := r.send(a, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settleBut(r.between(a, b))
	if res := r.result(a, from); res.GetReceipt().GetDurableCopies() != 2 {
		t.Fatal(res)
	}
	if got := ask[*nornv1.GetReply](r, reader, &nornv1.GetRequest{Id: task.Bytes()}).GetTask(); len(got.GetPayload()) != len(s.Payload) {
		t.Errorf("a majority has the task, and the read says %v", got.GetState())
	}
}

// TestALeaderLearnsOfEndsInBoundedMessages: members refuse grants of tasks that are
// finished, and tell their leader how, with neither logs nor more than a message may have
// (track record).
func TestALeaderLearnsOfEndsInBoundedMessages(t *testing.T) {
	r := newTrio(t)
	i, a, b := r.behind()
	var tasks []id.ID
	for range replication.FetchBytes>>20 + 2 {
		task := r.put(i, 0)
		tasks = append(tasks, task)
		r.send(a, &nornv1.UpdateRequest{Id: task.Bytes(), Token: 1<<32 + 1, Data: make([]byte, 1<<20)})
		r.send(a, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1, Seq: 1, Result: make([]byte, 1<<20)}}})
		r.settleBut(r.between(a, b))
	}
	known := func() (n int) {
		for _, task := range tasks {
			if r.stateOf(i, task) == nornv1.State_STATE_COMPLETED {
				n++
			}
		}
		return n
	}
	largest := int64(0)
	watch := func(l letter) bool {
		if m, is := l.message.(*message.ClaimsTaken); is {
			size := int64(0)
			for _, p := range m.Facts {
				size += vnode.AsideSize(p.Facts)
			}
			largest = max(largest, size)
		}
		return false
	}
	for range 3 {
		r.send(i, claimUpTo(100))
		r.live(3*time.Second, 250*time.Millisecond, watch)
	}
	if n := known(); n != len(tasks) || largest == 0 || largest > replication.FetchBytes+2<<20 {
		t.Errorf("of %d tasks %d are known to be completed; the largest answer had %d bytes of facts", len(tasks), n, largest)
	}
}
