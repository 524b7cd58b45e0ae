package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestLongPollIsAnsweredByExactlyOneTask(t *testing.T) {
	r := newRig(t)
	ask := &nornv1.ClaimRequest{Queues: []string{"a", "b"}, WaitSeconds: 10}
	first, second := r.send(1, ask), r.send(2, ask)
	r.turn()
	if len(r.replies) != 0 {
		t.Fatalf("answered without work: %v", r.replies)
	}
	r.pass(3 * time.Second)
	r.enqueue(spec("b"))
	reply, ok := r.replies[first]
	if !ok {
		t.Fatal("the first to wait was not served")
	}
	if m := reply.Message.(*nornv1.ClaimReply); len(m.Grants) != 1 || m.WaitedSeconds != 3 {
		t.Fatalf("answer: %v", m)
	}
	if _, ok := r.replies[second]; ok {
		t.Fatal("the second was answered although there was one task only")
	}
	r.pass(7 * time.Second)
	if m := r.replies[second].Message.(*nornv1.ClaimReply); len(m.Grants) != 0 {
		t.Fatalf("at its time-out the second got %v", m)
	}
}

func TestSameClaimRequestGetsTheSameGrants(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"), spec("q"))
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, Session: make([]byte, 16), RequestNo: 4}
	ask.Session[3] = 1
	first := must[*nornv1.ClaimReply](r, ask).Grants
	r.pass(20 * time.Second)
	again := must[*nornv1.ClaimReply](r, ask).Grants
	if len(first) != 1 || len(again) != 1 || first[0].Token != again[0].Token {
		t.Fatalf("first %v, again %v", first, again)
	}
	// The repeated answer may be counted from its own request: it was renewed.
	if end := again[0].End.AsTime().UnixNano(); end != r.now.Wall+int64(leaseTime) {
		t.Fatalf("the repeated grant ends %v after now, not one lease", time.Duration(end-r.now.Wall))
	}
	r.crash(0)
	third := must[*nornv1.ClaimReply](r, ask).Grants
	if len(third) != 1 || third[0].Token != first[0].Token {
		t.Fatalf("after a restart: %v", third)
	}
	ask.RequestNo++
	other := must[*nornv1.ClaimReply](r, ask).Grants
	if len(other) != 1 || other[0].Task.Id == first[0].Task.Id {
		t.Fatalf("another request: %v", other)
	}
	r.audit()
}

func TestUndeliveredGrantIsFreedAtOnce(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	reply := r.ask(&nornv1.ClaimRequest{Queues: []string{"q"}})
	r.step(message.Undelivered{Grants: reply.Grants})
	r.turn()
	g := r.claim("q", 1)
	if len(g) != 1 || g[0].Token <= reply.Grants[0].Token || g[0].Task.Attempts != 0 {
		t.Fatalf("after the answer was lost: %v", g)
	}
	r.audit()
}

func TestCancelledAndClosedRequestsAreForgotten(t *testing.T) {
	r := newRig(t)
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 10}
	cancelled, gone, kept := r.send(1, ask), r.send(2, ask), r.send(3, ask)
	r.step(message.Cancel{From: cancelled})
	r.step(message.Gone{Conn: 2})
	r.turn()
	if kindOf(r.replies[cancelled]) != nornv1.ErrorKind_ERROR_KIND_CANCELLED {
		t.Fatalf("cancelled request: %v", r.replies[cancelled])
	}
	r.enqueue(spec("q"))
	if _, ok := r.replies[gone]; ok {
		t.Fatal("a closed connection was served")
	}
	if m := r.replies[kept].Message.(*nornv1.ClaimReply); len(m.Grants) != 1 {
		t.Fatalf("the one that stayed got %v", m)
	}
}

func TestWaitingForNamesFillsNothing(t *testing.T) {
	r := newRig(t)
	for i := range 50 {
		r.send(uint64(i), &nornv1.ClaimRequest{Queues: []string{fmt.Sprintf("name-%d", i), "twice", "twice"}, WaitSeconds: 1})
	}
	r.turn()
	r.pass(2 * time.Second)
	if n := r.core.dispatch.Held().Queues; n != 0 {
		t.Fatalf("%d queues are kept for nobody", n)
	}
}

func TestRepeatedAnswerIsNotUndone(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, Session: make([]byte, 16), RequestNo: 1}
	ask.Session[0] = 1
	first, second := r.ask(ask), r.ask(ask)
	r.step(message.Undelivered{Grants: first.Grants})
	r.turn()
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted to another worker while the first holds it: %v", g)
	}
	r.step(message.Undelivered{Grants: second.Grants})
	r.turn()
	if g := r.claim("q", 1); len(g) != 1 {
		t.Fatal("no answer left, and the task is not free")
	}
	r.audit()
}

// The simulator's seed 243: a claim ended while its answer was still on its
// way out, the request came again and was granted anew, twice answered; the
// dropped answer of the first claim was counted against the second.
func TestDroppedAnswerOfAnEndedClaimFreesNothing(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, Session: make([]byte, 16), RequestNo: 1}
	ask.Session[0] = 1
	ended := r.ask(ask)
	r.complete(ended.Grants[0].Task, ended.Grants[0].Token)
	r.enqueue(spec("q"))
	again := r.ask(ask)
	r.ask(ask) // heard
	r.step(message.Undelivered{Grants: ended.Grants})
	r.step(message.Undelivered{Grants: again.Grants})
	r.turn()
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted to another worker while the first holds it: %v", g)
	}
	r.audit()
}

// What says that an answer was dropped may come twice: it is one answer less all
// the same, and another may have been heard.
func TestAnAnswerIsDroppedOnce(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, Session: make([]byte, 16), RequestNo: 1}
	ask.Session[0] = 1
	dropped := r.ask(ask)
	r.ask(ask) // heard
	r.step(message.Undelivered{Grants: dropped.Grants})
	r.step(message.Undelivered{Grants: dropped.Grants})
	r.turn()
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted to another worker while the first holds it: %v", g)
	}
	r.audit()
}

// A process counts its answers, not those of the one before it: what says that
// one of those was dropped frees nothing.
func TestADroppedAnswerOfTheProcessBefore(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, Session: make([]byte, 16), RequestNo: 1}
	ask.Session[0] = 1
	dropped := r.ask(ask)
	r.ask(ask) // heard
	r.crash(0)
	r.step(message.Undelivered{Grants: dropped.Grants})
	r.turn()
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted to another worker while the first holds it: %v", g)
	}
	r.audit()
}

// The simulator's seed 834: one copy of a request waited, another was granted at
// once, and then the waiting one was granted too.
func TestCopiesOfARequestGetNoMoreThanItAsksFor(t *testing.T) {
	r := newRig(t)
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60, Session: make([]byte, 16), RequestNo: 1}
	ask.Session[0] = 1
	waiting := r.send(7, ask)
	r.turn()
	r.step(&message.Request{From: message.Origin{Conn: 9, Request: 1, Method: uint16(nornv1.Method_METHOD_ENQUEUE)}, Body: &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q"), spec("q")}}})
	r.step(&message.Request{From: message.Origin{Conn: 8, Request: 1, Method: uint16(nornv1.Method_METHOD_CLAIM)}, Body: ask})
	r.turn()
	if reply := r.replies[waiting]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Fatalf("the copy that waited got %v", reply)
	}
	if g := r.claim("q", 5); len(g) != 1 {
		t.Fatalf("%d tasks are left, not 1", len(g))
	}
	r.audit()
}

func TestAnswerBeforeARestartIsNotUndone(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	ask := &nornv1.ClaimRequest{Queues: []string{"q"}, Session: make([]byte, 16), RequestNo: 1}
	ask.Session[0] = 1
	r.ask(ask)
	r.crash(0)
	r.step(message.Undelivered{Grants: r.ask(ask).Grants})
	r.turn()
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted to another worker while the first may hold it: %v", g)
	}
	r.audit()
}
