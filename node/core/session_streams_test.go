package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// The way to a worker that has left is forgotten, though its program and the connection
// live on: others may come and go on the same one.
func TestStreamsOfWorkersThatHaveLeft(t *testing.T) {
	r := newTrio(t)
	for range 5 {
		h := r.newHand("w", 0, 1)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
		h.m.Drain(r.now)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Left }, h)
		h.gone = true
		for _, from := range h.open { // which nobody waits for any more
			r.check(r.peers[0].core.Step(r.now, message.Cancel{From: from}))
			r.turn(0)
		}
	}
	r.live(10*time.Minute, time.Second, nothing)
	s := r.peers[0].core.sessions
	if len(s.Streams) != 0 || len(s.Conns) != 0 || s.Pending.Count(waiting.Work) != 0 {
		t.Errorf("%d streams, of %d connections, with %d requests are kept; there are %d sessions", len(s.Streams), len(s.Conns), s.Pending.Count(waiting.Work), s.Dispatcher.Open())
	}
}

// TestStreamsOfWhoeverGivesUp: whoever asked under ever new names and took each request
// back, or was refused, left a stream each time, for as long as the connection lived.
func TestStreamsOfWhoeverGivesUp(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	for i := range 100 {
		r.next++
		from := message.Origin{Conn: 7, Request: r.next}
		instance := session.Instance{1, byte(i)}
		var says []session.Message
		if i%2 == 1 { // of no version that there is
			says = []session.Message{{Instance: instance, Association: 1, Body: &session.Heartbeat{Identity: session.Identity{Name: "w"}}}}
		}
		r.check(c.Step(r.now, &message.Request{From: from, Body: session.Bundle(instance, 1, 1, says, time.Minute), Received: r.now.Mono}))
		r.turn(0)
		if i%2 == 0 {
			r.check(c.Step(r.now, message.Cancel{From: from}))
			r.turn(0)
		}
		if _, answered := r.peers[0].replies[from]; !answered {
			t.Fatalf("request %d is not answered", i)
		}
	}
	if s := c.sessions; len(s.Streams) != 0 || len(s.Conns) != 0 || s.Pending.Count(waiting.Work) != 0 {
		t.Errorf("%d streams, of %d connections, with %d requests are kept; there are %d sessions", len(s.Streams), len(s.Conns), s.Pending.Count(waiting.Work), s.Dispatcher.Open())
	}
}

// A request of a stream that the worker has left comes late. It is answered with nothing,
// and the stream that the worker has now goes on.
func TestALateRequestOfAnEarlierStream(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	healthy := func() bool { return h.m.Info().State == session.Healthy }
	r.days(10*time.Second, 100*time.Millisecond, healthy, h)
	h.turn(0)
	r.days(10*time.Second, 100*time.Millisecond, healthy, h)
	c := r.peers[0].core
	stream, open := c.sessions.Streams[h.self.Instance], len(h.open)
	r.next++
	late := &message.Request{From: message.Origin{Conn: 999, Request: r.next}, Body: session.Bundle(h.self.Instance, 1, 1, nil, time.Minute), Received: r.now.Mono}
	r.check(c.Step(r.now, late))
	r.turn(0)
	r.settle()
	reply, ok := r.peers[0].replies[late.From]
	if !ok || reply.Err != nil || reply.Message.(*nornv1.SessionReply).GetAssociation() != 1 {
		t.Errorf("answered %v: %v", ok, reply)
	}
	if now := c.sessions.Streams[h.self.Instance]; now != stream || open == 0 || len(now.Open) != open {
		t.Errorf("the stream has %d requests, it had %d; the same one: %v", len(now.Open), open, now == stream)
	}
}
