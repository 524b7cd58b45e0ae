package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// waits has so many claim requests wait on a connection.
func (r *rig) waits(conn uint64, n int) (all []message.Origin) {
	for range n {
		all = append(all, r.send(conn, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 300, LeaseSeconds: 30}))
		r.turn()
	}
	return all
}

// granted counts those that were granted something.
func (r *rig) granted(all []message.Origin) (n int) {
	for _, from := range all {
		if reply, ok := r.replies[from]; ok && reply.Err == nil && len(reply.Message.(*nornv1.ClaimReply).Grants) > 0 {
			n++
		}
	}
	return n
}

// TestADeadHostSwallowsNothing: many requests of a client that pinged, and is gone, wait
// before those of one that lives. None of them is granted anything, and when it comes back,
// they count again.
func TestADeadHostSwallowsNothing(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxWaiters = 1000
	dead, live := r.waits(7, 40), r.waits(8, 40)
	for range 3 {
		r.pass(time.Second)
		r.step(message.Heard{Conn: 7})
		r.step(message.Heard{Conn: 8})
	}
	for range 10 { // 7 is gone
		r.pass(time.Second)
		r.step(message.Heard{Conn: 8})
	}
	for range 20 {
		r.enqueue(spec("q"))
	}
	if d, l := r.granted(dead), r.granted(live); d != 0 || l != 20 {
		t.Fatalf("the dead host was granted %d, the living one %d of 20", d, l)
	}
	for range 25 {
		r.enqueue(spec("q"))
	}
	if l := r.granted(live); l != 40 {
		t.Fatalf("the living one has %d of its 40 requests granted", l)
	}
	r.step(message.Heard{Conn: 7})
	r.turn()
	if d := r.granted(dead); d != 5 {
		t.Errorf("back again it was granted %d of the 5 that wait", d)
	}
}

// TestOneGrantToTheUnheard: a client that does not ping gets one task at a time while it is
// not heard.
func TestOneGrantToTheUnheard(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxWaiters = 1000
	dead := r.waits(7, 40)
	r.pass(10 * time.Second)
	for range 20 {
		r.enqueue(spec("q"))
	}
	if d := r.granted(dead); d != 1 {
		t.Fatalf("it was granted %d", d)
	}
	r.send(7, &nornv1.StatusRequest{})
	r.turn()
	if d := r.granted(dead); d != 20 {
		t.Errorf("heard again it was granted %d of 20", d)
	}
}

// TestNobodyHasAllPlacesToWait: one connection has all of them until another one asks.
func TestNobodyHasAllPlacesToWait(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxWaiters = 40
	greedy := r.waits(1, 41)
	if reply := r.replies[greedy[40]]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || reply.Err.RetryAfter == 0 {
		t.Fatalf("one more than there are places: %v", reply)
	}
	for conn := range uint64(4) {
		for i, from := range r.waits(2+conn, 8) {
			if reply, answered := r.replies[from]; answered {
				t.Fatalf("number %d of connection %d: %v", i, 2+conn, reply)
			}
		}
	}
	left := 0
	for _, from := range greedy {
		if _, answered := r.replies[from]; !answered {
			left++
		}
	}
	if n := r.core.Stats().Waiting; n != 40 || left != 8 {
		t.Errorf("%d wait, of at most 40; %d of the first one", n, left)
	}
}
