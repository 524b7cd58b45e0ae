package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// callsOf makes calls of a node that must be answered.
func callsOf(t *testing.T, n *Node) func(m nornv1.Method, request gproto.Message) gproto.Message {
	return func(m nornv1.Method, request gproto.Message) gproto.Message {
		t.Helper()
		a := n.Call(t.Context(), access.Self(), m, request)
		if a.Err != nil {
			t.Fatalf("%v: %v", m, a.Err)
		}
		return a.Message
	}
}

func TestCallsTakeTheWayOfRequests(t *testing.T) {
	c := testConfig(t)
	n := start(t, c, Options{})
	defer stop(t, n)
	ready(t, n)
	call := callsOf(t, n)
	if r := call(nornv1.Method_METHOD_HELLO, &nornv1.Ping{}).(*nornv1.HelloReply); r.GetNode() == "" || r.GetLimits().GetMaxFrameBytes() == 0 {
		t.Errorf("hello: %v", r)
	}
	if r := call(nornv1.Method_METHOD_PING, &nornv1.Ping{}).(*nornv1.PingReply); r.GetPlacement().GetPartitions() == 0 {
		t.Errorf("ping: %v", r)
	}
	call(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}})
	claim := &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 30}
	for range 3 { // each time the answer reaches nobody, and the task is free at once
		a := n.Call(t.Context(), access.Self(), nornv1.Method_METHOD_CLAIM, gproto.CloneOf(claim))
		if a.Err != nil || len(a.Message.(*nornv1.ClaimReply).GetGrants()) != 1 {
			t.Fatalf("claimed %v, %v", a.Message, a.Err)
		}
		a.Dropped()
	}
	if r := call(nornv1.Method_METHOD_CLAIM, claim).(*nornv1.ClaimReply); len(r.GetGrants()) != 1 {
		t.Errorf("the task is not free again: %v", r)
	}
	for _, bad := range []struct {
		m       nornv1.Method
		request gproto.Message
		want    string
	}{
		{nornv1.Method_METHOD_SESSION, &nornv1.SessionRequest{}, "without a connection"},
		{nornv1.Method_METHOD_LAUNCH, &nornv1.LaunchRequest{}, "without a connection"},
		{nornv1.Method_METHOD_CLAIM, &nornv1.GetRequest{}, "without a connection"},
		{nornv1.Method(999), &nornv1.GetRequest{}, "without a connection"},
		{nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: make([]*nornv1.TaskSpec, proto.MaxBatchTasks+1)}, "over the limit"},
		{nornv1.Method_METHOD_UPDATE, &nornv1.UpdateRequest{Data: make([]byte, proto.MaxFrame)}, "over the limit"},
		{nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "\xff"}}}, "cannot be encoded"},
	} {
		if a := n.Call(t.Context(), access.Self(), bad.m, bad.request); a.Err == nil || !strings.Contains(a.Err.Message, bad.want) {
			t.Errorf("%v: %v, %v", bad.m, a.Message, a.Err)
		}
	}
	past, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if a := n.Call(past, access.Self(), nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}); a.Err == nil || a.Err.Kind != nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED {
		t.Errorf("past its deadline: %v, %v", a.Message, a.Err)
	}
	soon(t, "nothing is left in the inbox", func() bool { return n.inbox.Bytes.Load() == 0 })
}

// TestACallerThatGoesIsForgotten has one go while it waits for a task.
func TestACallerThatGoesIsForgotten(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	ready(t, n)
	call := callsOf(t, n)
	waiting := func() uint32 {
		r := call(nornv1.Method_METHOD_QUEUES, &nornv1.QueuesRequest{}).(*nornv1.QueuesReply)
		for _, q := range r.GetQueues() {
			if q.GetName() == "q" {
				return q.GetWaitingClaims()
			}
		}
		return 0
	}
	call(nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Note: "x"}, Fields: []string{"note"}})
	claim := &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan Answer, 1)
	go func() { gone <- n.Call(ctx, access.Self(), nornv1.Method_METHOD_CLAIM, gproto.CloneOf(claim)) }()
	soon(t, "a claim waits", func() bool { return waiting() == 1 })
	leave()
	if a := <-gone; a.Err == nil || a.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED || a.Err.Effect != nornv1.Effect_EFFECT_UNKNOWN {
		t.Errorf("it was answered %v, %v", a.Message, a.Err)
	}
	soon(t, "no claim waits", func() bool { return waiting() == 0 })
	call(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}})
	if r := call(nornv1.Method_METHOD_CLAIM, claim).(*nornv1.ClaimReply); len(r.GetGrants()) != 1 {
		t.Errorf("somebody who has gone has the task: %v", r)
	}
	// The answer and the caller's leaving may meet at any moment: either it has the
	// answer, or the node hears that nobody has.
	l := &local{answer: make(chan Answer, 1)}
	if !l.Reply(1, 0, 0, &wireBody{m: &nornv1.PingReply{}}) {
		t.Error("an answer before it left was refused")
	}
	if _, came := l.leave(); !came {
		t.Error("the answer that came before it left is lost")
	}
	if l.Reply(1, 0, 0, &wireBody{m: &nornv1.PingReply{}}) {
		t.Error("an answer after it left was taken")
	}
}

// TestCallsEndWithTheNode stops a node while a call waits: it is answered, and no
// other one is let in.
func TestCallsEndWithTheNode(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	ready(t, n)
	answer := make(chan Answer, 1)
	go func() {
		answer <- n.Call(t.Context(), access.Self(), nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60})
	}()
	soon(t, "a call is under way", func() bool {
		n.calls.mu.Lock()
		defer n.calls.mu.Unlock()
		return n.calls.open == 1
	})
	stop(t, n)
	if a := <-answer; a.Err == nil || a.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("it was answered %v, %v", a.Message, a.Err)
	}
	if a := n.Call(t.Context(), access.Self(), nornv1.Method_METHOD_PING, &nornv1.Ping{}); a.Err == nil || a.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("a stopped node answers %v, %v", a.Message, a.Err)
	}
}
