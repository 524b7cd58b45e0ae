package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// soonGranted wants a request that waits at a node to get its task at once, not with its
// next turn of asking.
func (r *trio) soonGranted(i int, from message.Origin) {
	r.t.Helper()
	began := r.now.Mono
	for range 300 {
		if _, ok := r.granted(i, from); ok {
			break
		}
		r.live(10*time.Millisecond, 10*time.Millisecond, nothing)
	}
	if took := time.Duration(r.now.Mono - began); took > 200*time.Millisecond {
		r.t.Errorf("the task comes after %v", took)
	}
}

// TestWhoWaitsIsKnownToANewLeader: a node that begins to lead hands a task to a request that
// has waited at another node since before, as soon as there is one. So does one that has
// led before and started again: it remembers nobody, and what others know of it is of
// before.
func TestWhoWaitsIsKnownToANewLeader(t *testing.T) {
	for name, again := range map[string]bool{"another one": false, "started again": true} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			old := r.leader(1)
			i, next := (old+1)%3, (old+2)%3
			from := r.send(i, waiting60(7))
			r.settle()
			r.kill(old)
			r.tell()
			if again {
				r.open(old)
				next = old
			}
			r.elect()
			r.leadOf(1, next)
			r.live(20*time.Millisecond, 10*time.Millisecond, nothing)
			r.enqueue(next, r.at(1), nil)
			r.settle()
			r.soonGranted(i, from)
		})
	}
}

// TestAResumedQueueIsToldOf: who waits at another node hears of it at once, not when it
// asks again.
func TestAResumedQueueIsToldOf(t *testing.T) {
	r := newTrio(t)
	leader := r.leader(1)
	i := (leader + 1) % 3
	set := func(paused bool) {
		ask[*nornv1.QueuesReply](r, leader, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Paused: paused}, Fields: []string{"paused"}})
		r.tell()
		r.settle()
	}
	set(true)
	from := r.send(i, waiting60(7))
	r.settle()
	r.put(leader, 1)
	r.live(1200*time.Millisecond, 20*time.Millisecond, nothing)
	if _, ok := r.granted(i, from); ok {
		t.Fatal("answered")
	}
	set(false)
	r.soonGranted(i, from)
}
