package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestLogReadersGiveWayToo: who had filled all places to wait by following logs kept others
// from waiting for work, and from following.
func TestLogReadersGiveWayToo(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxWaiters = 40
	task := r.enqueue(spec("other"))[0]
	follow := func(conn uint64) message.Origin {
		from := r.send(conn, &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: 60})
		r.turn()
		return from
	}
	var greedy []message.Origin
	for range 40 {
		greedy = append(greedy, follow(1))
	}
	if e := r.replies[follow(1)].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Fatalf("one more than there are places: %v", e)
	}
	for i, from := range r.waits(2, 10) {
		if reply, answered := r.replies[from]; answered {
			t.Fatalf("claim %d of another one: %v", i, reply)
		}
	}
	for i := range 10 {
		if reply, answered := r.replies[follow(3)]; answered {
			t.Fatalf("log reader %d of a third one: %v", i, reply)
		}
	}
	r.pass(time.Second)
	r.turn()
	left := 0
	for _, from := range greedy {
		if reply, answered := r.replies[from]; !answered {
			left++
		} else if reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || reply.Err.RetryAfter == 0 {
			t.Fatalf("it is told %v", reply.Err)
		}
	}
	if n := r.core.logs.Count() + r.core.dispatch.Waiting(); n != 40 || left != 20 {
		t.Errorf("%d wait, %d of them of the first one", n, left)
	}
}
