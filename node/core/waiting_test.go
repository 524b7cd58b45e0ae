package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// until there is an answer of others, a request with a unique key waits to be confirmed, and one
// without for its copies.
func (r *trio) waitsFor(kind waiting.Kind) (i int, from message.Origin) {
	r.t.Helper()
	r.lead(0)
	r.takeKey(0)
	r.settle()
	r.tell()
	s := spec("q")
	if kind == waiting.Confirmed {
		s = withKey("other", 0).Tasks[0]
	} else {
		s.Id = r.at(1).Bytes()
	}
	from = r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	if n := r.peers[0].core.ground.Pending.Count(kind); n != 1 {
		r.t.Fatalf("%d requests wait", n)
	}
	return 0, from
}

// TestWhoGivesUpWhileItIsConfirmedIsToldSo: and nothing is done for the request. It went on, and
// was carried out once a majority had said that this node leads.
func TestWhoGivesUpWhileItIsConfirmedIsToldSo(t *testing.T) {
	for what, event := range map[string]func(message.Origin) any{
		"cancelled":       func(from message.Origin) any { return message.Cancel{From: from} },
		"its client goes": func(from message.Origin) any { return message.Gone{Conn: from.Conn} },
		"the node stops":  func(message.Origin) any { return message.Drain{} },
	} {
		r := newTrio(t)
		i, from := r.waitsFor(waiting.Confirmed)
		c := r.peers[i].core
		enqueued := c.Stats().Enqueued
		r.check(c.Step(r.now, event(from)))
		r.turn(i)
		reply, answered := r.peers[i].replies[from]
		switch kind := kindOf(reply); {
		case what == "cancelled" && kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED, what == "the node stops" && kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE:
			t.Errorf("%s: it is told %v", what, reply)
		case what == "its client goes" && answered:
			t.Errorf("%s: it is told %v", what, reply)
		}
		r.live(10*time.Second, 50*time.Millisecond, nothing)
		if n := c.Stats().Enqueued; n != enqueued || c.ground.Pending.Count(waiting.Confirmed) != 0 {
			t.Errorf("%s: %d tasks more are enqueued, and %d requests wait", what, n-enqueued, c.ground.Pending.Count(waiting.Confirmed))
		}
		r.check(c.Audit())
	}
}

// TestWhoGivesUpWhileCopiesAreMadeIsToldSo: at once, and that it may be done all the same. The
// answer came when the copies did, or five seconds later, to whoever had the connection.
func TestWhoGivesUpWhileCopiesAreMadeIsToldSo(t *testing.T) {
	for what, event := range map[string]func(message.Origin) any{
		"cancelled":       func(from message.Origin) any { return message.Cancel{From: from} },
		"its client goes": func(from message.Origin) any { return message.Gone{Conn: from.Conn} },
	} {
		r := newTrio(t)
		i, from := r.waitsFor(waiting.Copies)
		c := r.peers[i].core
		r.check(c.Step(r.now, event(from)))
		r.turn(i)
		reply, answered := r.peers[i].replies[from]
		if what == "cancelled" && (kindOf(reply) != nornv1.ErrorKind_ERROR_KIND_CANCELLED || reply.Err.Effect != nornv1.Effect_EFFECT_UNKNOWN) {
			t.Errorf("%s: it is told %v", what, reply)
		}
		r.live(10*time.Second, 50*time.Millisecond, nothing)
		if _, later := r.peers[i].replies[from]; later != answered || c.ground.Pending.Count(waiting.Copies) != 0 {
			t.Errorf("%s: it is answered later, or waits still", what)
		}
		if n := r.copies(r.at(1)); n != 0 {
			t.Errorf("%s: another task has %d copies", what, n)
		}
		r.audit()
	}
}

// TestANodeThatStopsAnswersWhatHasItsCopies: the task is there, and its client need not ask again.
func TestANodeThatStopsAnswersWhatHasItsCopies(t *testing.T) {
	r := newTrio(t)
	i, from := r.waitsFor(waiting.Copies)
	r.check(r.peers[i].core.Step(r.now, message.Drain{}))
	r.turn(i)
	if reply, answered := r.peers[i].replies[from]; answered {
		t.Fatalf("before there are copies it is told %v", reply)
	}
	r.settle()
	m, _ := r.peers[i].replies[from].Message.(*nornv1.EnqueueReply)
	if len(m.GetResults()) != 1 || m.Results[0].Receipt.GetDurableCopies() < 2 {
		t.Errorf("it is told %v", r.peers[i].replies[from])
	}
	r.check(r.peers[i].core.Audit())
}
