package core

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWhoWaitsIsKnownToANewLeader: a node that begins to lead hands a task to a request that
// has waited at another node since before, as soon as there is one.
func TestWhoWaitsIsKnownToANewLeader(t *testing.T) {
	r := newTrio(t)
	old := r.leader(1)
	i := (old + 1) % 3
	from := r.send(i, waiting60(7))
	r.settle()
	r.kill(old)
	r.elect()
	next := (old + 2) % 3
	p := -1
	for n := range partitions {
		if r.leader(1); r.state().Cells[n].Leader == r.peers[next].self {
			p = n
		}
	}
	if p < 0 {
		t.Skip("the other one leads nothing")
	}
	r.live(20*time.Millisecond, 10*time.Millisecond, nothing)
	task := r.at(1)
	for int(r.part(task)) != p {
		task = r.ids.Next(r.now.Wall)
	}
	r.enqueue(next, task, nil)
	r.settle()
	began := r.now.Mono
	for range 300 {
		if _, ok := r.granted(i, from); ok {
			break
		}
		r.live(10*time.Millisecond, 10*time.Millisecond, nothing)
	}
	if took := time.Duration(r.now.Mono - began); took > 200*time.Millisecond {
		t.Errorf("the task comes after %v", took)
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
	began := r.now.Mono
	for range 300 {
		if _, ok := r.granted(i, from); ok {
			break
		}
		r.live(10*time.Millisecond, 10*time.Millisecond, nothing)
	}
	if took := time.Duration(r.now.Mono - began); took > 200*time.Millisecond {
		t.Errorf("the task comes %v after its queue was resumed", took)
	}
}

// TestWhoWaitsIsKnownToALeaderThatStartedAgain: it remembers nobody, and what others know of
// it is of before.
func TestWhoWaitsIsKnownToALeaderThatStartedAgain(t *testing.T) {
	r := newTrio(t)
	leader := r.leader(1)
	i := (leader + 1) % 3
	from := r.send(i, waiting60(7))
	r.settle()
	r.kill(leader)
	r.tell()
	r.open(leader)
	r.elect()
	r.leadOf(1, leader)
	r.live(20*time.Millisecond, 10*time.Millisecond, nothing)
	r.enqueue(leader, r.at(1), nil)
	r.settle()
	began := r.now.Mono
	for range 300 {
		if _, ok := r.granted(i, from); ok {
			break
		}
		r.live(10*time.Millisecond, 10*time.Millisecond, nothing)
	}
	if took := time.Duration(r.now.Mono - began); took > 200*time.Millisecond {
		t.Errorf("the task comes after %v", took)
	}
}
