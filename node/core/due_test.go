package core

import (
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWhatNeedsNoSyncIsDueBeforeTheRoundIsCut: the copies of an enqueue are there while another
// round is gathered. Its answer is due then, if the round that wrote it here is durable and not
// before, and once.
func TestWhatNeedsNoSyncIsDueBeforeTheRoundIsCut(t *testing.T) {
	r := newTrio(t)
	first := r.peers[0].core
	enqueue := func(conn uint64) message.Origin {
		from := message.Origin{Conn: conn, Request: 1, Method: uint16(nornv1.Method_METHOD_ENQUEUE)}
		r.check(first.Step(r.clock(0), &message.Request{From: from, Body: &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Id: r.ids.Next(r.now.Wall).Bytes(), Queue: "q"}}}}))
		return from
	}
	asked := enqueue(7)
	r.turn(0)
	written := first.round.This() - 1 // at the latest
	for range 2 {
		for n := 0; n < len(r.post); n++ { // the others have it
			if l := r.post[n]; l.to != 0 {
				r.deliver(n)
				n = -1
			}
		}
	}
	if early := first.Due(written); len(early) > 0 {
		t.Fatalf("%d answers are due before there are copies", len(early))
	}
	refused := enqueue(8) // stays for the round that is cut next
	for _, l := range r.post {
		if l.to == 0 {
			r.check(first.Step(r.clock(0), &message.FromPeer{From: r.peers[l.from].self, Message: l.message}))
		}
	}
	r.post = nil
	if early := first.Due(0); len(early) > 0 {
		t.Fatalf("%d answers are due though their round is not durable here", len(early))
	}
	early := first.Due(written)
	if len(early) != 1 || early[0].To != asked || early[0].Err != nil || early[0].After > written {
		t.Fatalf("due are %+v", early)
	}
	if again := first.Due(written); len(again) > 0 {
		t.Fatalf("%d answers are due twice", len(again))
	}
	r.turn(0)
	if _, twice := r.peers[0].replies[asked]; twice {
		t.Fatal("the answer is in the round, too")
	}
	r.settle()
	if reply := r.peers[0].replies[refused]; reply.Message == nil {
		t.Fatalf("the other request was answered with %+v", reply)
	}
}
