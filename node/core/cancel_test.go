package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/router"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

func isClaims(l letter) bool { _, is := l.message.(*message.Claims); return is }

// postponed has a claim request be postponed, because what it would have been granted
// reached no majority.
func (r *trio) postponed(i int, m *nornv1.ClaimRequest) message.Origin {
	r.t.Helper()
	from := r.send(i, m)
	for range 100 {
		if r.peers[i].core.dispatch.Held().Postponed > 0 {
			return from
		}
		r.live(50*time.Millisecond, 50*time.Millisecond, isClaims)
	}
	r.t.Fatal("it is not postponed")
	return from
}

func waiting60(number uint64) *nornv1.ClaimRequest {
	m := asking(number)
	m.WaitSeconds = 60
	return m
}

// TestCancelOfAPostponedRequest: who cancels it is answered, and it is granted nothing.
func TestCancelOfAPostponedRequest(t *testing.T) {
	for _, when := range []string{"postponed", "on its way"} {
		r := newTrio(t)
		task, i := r.put(0, 1), r.leader(1)
		var from message.Origin
		if when == "postponed" {
			from = r.postponed(i, waiting60(7))
		} else {
			from = r.send(i, waiting60(7))
		}
		r.check(r.peers[i].core.Step(r.now, message.Cancel{From: from}))
		r.turn(i)
		if when == "on its way" {
			r.live(lease.Timeout+time.Second, 50*time.Millisecond, isClaims)
		}
		if reply, answered := r.peers[i].replies[from]; !answered || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED {
			t.Errorf("%s: it is not answered: %v", when, reply)
		}
		r.live(5*time.Second, 50*time.Millisecond, nothing)
		if s := r.stateOf((i+1)%3, task); s != nornv1.State_STATE_READY {
			t.Errorf("%s: the task is %v, for a request that was cancelled", when, s)
		}
	}
}

// TestAPostponedRequestIsSentAwayWhenTheNodeStops, like any other that waits.
func TestAPostponedRequestIsSentAwayWhenTheNodeStops(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	i := r.leader(1)
	from := r.postponed(i, waiting60(7))
	r.check(r.peers[i].core.Step(r.now, message.Drain{}))
	r.turn(i)
	if reply, answered := r.peers[i].replies[from]; !answered || reply.Err == nil {
		t.Errorf("it is not answered: %v", reply)
	}
	r.live(5*time.Second, 50*time.Millisecond, nothing)
	if grants, _ := r.granted(i, from); len(grants) > 0 {
		t.Errorf("a node that stops grants %v", grants)
	}
}

// TestAPostponedRequestThatComesAgain: the two together get no more than one may have,
// and what nobody hears of is free.
func TestAPostponedRequestThatComesAgain(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	r.put(0, 1)
	i := r.leader(1)
	from := r.postponed(i, waiting60(7))
	again := message.Origin{Conn: 2, Request: 1}
	r.check(r.peers[i].core.Step(r.now, message.Gone{Conn: from.Conn})) // the client asks over another connection
	r.check(r.peers[i].core.Step(r.now, &message.Request{From: again, Body: waiting60(7), Received: r.now.Mono}))
	r.turn(i)
	r.live(3*time.Second, 50*time.Millisecond, nothing)
	heard, _ := r.granted(i, again)
	lost, _ := r.granted(i, from) // to a connection that is gone
	if len(lost) > 0 {
		r.check(r.peers[i].core.Step(r.now, message.Undelivered{Grants: r.peers[i].replies[from].Grants}))
		r.turn(i)
		r.live(time.Second, 50*time.Millisecond, nothing)
	}
	claimed := 0
	for _, o := range r.peers {
		claimed = max(claimed, o.core.vnodes.Claimed())
	}
	if len(heard) != 1 || claimed != 1 {
		t.Errorf("its client has heard of %d tasks, and %d are claimed", len(heard), claimed)
	}
}

// TestACancelFrameNamesNoMethod: all that it says is a connection and a number (package
// node, api.Cancel). A request that waits at another node, and one of a worker's session,
// are answered at once all the same.
func TestACancelFrameNamesNoMethod(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := (r.leader(1) + 1) % 3
	core := r.peers[i].core
	cancel := func(what string, from message.Origin) {
		t.Helper()
		if reply, answered := r.peers[i].replies[from]; answered {
			t.Fatalf("%s does not wait: %v", what, reply)
		}
		r.check(core.Step(r.now, message.Cancel{From: message.Origin{Conn: from.Conn, Request: from.Request}}))
		r.turn(i)
		r.settle()
		r.live(time.Second, 100*time.Millisecond, nothing)
		if reply, answered := r.peers[i].replies[from]; !answered || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED {
			t.Errorf("%s was cancelled, and a second later its answer is %v", what, reply)
		}
	}
	log := message.Origin{Conn: 5, Request: 1, Method: uint16(nornv1.Method_METHOD_LOG)}
	r.check(core.Step(r.now, &message.Request{From: log, Body: &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: 60}, Received: r.now.Mono}))
	r.turn(i)
	r.settle()
	cancel("who follows a task", log)

	beat := message.Origin{Conn: 6, Request: 1, Method: uint16(nornv1.Method_METHOD_SESSION)}
	body := session.Bundle(session.Instance{7}, 1, 1, nil, time.Minute)
	r.check(core.Step(r.now, &message.Request{From: beat, Body: body, Received: r.now.Mono}))
	r.turn(i)
	cancel("a request of a worker", beat)
}

// TestANumberUsedTwice: a client that uses the number of a request that is still open once
// more hurts itself, not the node. Both of its requests are on their way to another node;
// when their time was over the node stood still for ever.
func TestANumberUsedTwice(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := (r.leader(1) + 1) % 3
	core := r.peers[i].core
	from := message.Origin{Conn: 1, Request: 1 << 40}
	for range 2 {
		r.check(core.Step(r.now, &message.Request{From: from, Body: &nornv1.GetRequest{Id: task.Bytes()}, Received: r.now.Mono}))
		r.turn(i)
		delete(r.peers[i].replies, from) // each of the two may be answered
	}
	r.settle()
	if n := core.routes.Waiting(); n > 0 {
		t.Fatalf("%d requests are never forgotten; the node would look at them for ever", n)
	}
	r.now = r.now.Add(router.ForwardTimeout + time.Second)
	r.check(core.Step(r.now, message.Tick{}))
	r.turn(i)
}

// TestWhoWasAskedElsewhereIsSentAwayWhenTheNodeStops: a claim request is on its way to
// another node when this one is told to stop; it must not begin to wait here after that.
func TestWhoWasAskedElsewhereIsSentAwayWhenTheNodeStops(t *testing.T) {
	r := newTrio(t)
	i := (r.leader(1) + 1) % 3
	from := r.send(i, waiting60(7))
	if r.peers[i].core.dispatch.Held().Remote != 1 {
		t.Fatal("it is not on its way")
	}
	r.check(r.peers[i].core.Step(r.now, message.Drain{}))
	r.turn(i)
	r.settle()
	r.live(time.Second, 100*time.Millisecond, nothing)
	if reply, answered := r.peers[i].replies[from]; !answered {
		t.Errorf("a second after the node was told to stop it waits on: %v, parked %d", reply, r.peers[i].core.dispatch.Waiting())
	}
}
