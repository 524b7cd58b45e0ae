package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
)

// by is a request of a principal through a node, and its answer.
func (r *trio) by(i int, who string, m gproto.Message, s *guard.Scope) message.Reply {
	r.t.Helper()
	r.next++
	from := message.Origin{Conn: 1, Request: r.next, Method: requestMethod(m)}
	r.check(r.peers[i].core.Step(r.clock(i), &message.Request{From: from, Body: m, Received: r.now.Mono, Scope: s, By: who}))
	r.turn(i)
	r.settle()
	there := func() bool { _, ok := r.peers[i].replies[from]; return ok }
	for n := 0; n < 5 && !there(); n++ { // others were told first, who have no use for it
		r.pass(5 * time.Millisecond)
		r.settle()
	}
	reply, ok := r.peers[i].replies[from]
	if !ok {
		r.t.Fatalf("%T is not answered", m)
	}
	return reply
}

// answerText is an answer as text.
func answerText(a message.Reply) string {
	if a.Err != nil {
		return fmt.Sprint(a.Err.Proto())
	}
	return fmt.Sprint(a.Message)
}

// claimedBy has a principal claim the only task of a queue.
func (r *trio) claimedBy(i int, who, queue string) *nornv1.Grant {
	r.t.Helper()
	reply, _ := r.by(i, who, &nornv1.ClaimRequest{Queues: []string{queue}, Worker: "w", LeaseSeconds: 60, WaitSeconds: 30}, nil).Message.(*nornv1.ClaimReply)
	if len(reply.GetGrants()) != 1 {
		r.t.Fatalf("%s is granted %v", who, reply)
	}
	return reply.Grants[0]
}

// ends are requests that end a claim otherwise than by completion, or write to its log.
func ends(id []byte, token uint64) map[string]gproto.Message {
	ref := []*nornv1.ClaimRef{{Id: id, Token: token}}
	return map[string]gproto.Message{
		"renew": &nornv1.RenewRequest{Claims: ref}, "release": &nornv1.ReleaseRequest{Claims: ref},
		"fail":   &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: id, Token: token, Error: "forged"}}},
		"update": &nornv1.UpdateRequest{Id: id, Token: token, Data: []byte("forged")},
	}
}

// TestAClaimIsItsPrincipals: nobody else renews it, fails it, gives it back or adds to its log,
// whichever node is asked and with a scope or without; its own principal does, and so does a
// node that does not say who asks. Whoever may work on the queue completes the task, and the
// log of attempts says who had it and who completed it.
func TestAClaimIsItsPrincipals(t *testing.T) {
	r := newCluster(t, 4, 0)
	work := scopeOf(guard.Rule{Verbs: guard.Work | guard.See, Pattern: "acme/*"})
	for i := range r.peers {
		for p := range ring.Partition(4) {
			task := r.stored("acme/mail", p)
			g := r.claimedBy(i, "ci", "acme/mail")
			id := task.Bytes()
			for name, m := range ends(id, g.Token) {
				for _, s := range []*guard.Scope{nil, work} {
					if got := answerText(r.by(i, "ann", m, s)); !strings.Contains(got, "not ann's") || !strings.Contains(got, "CLAIM_LOST") {
						t.Errorf("node %d, partition %d: ann's %s of ci's claim (scope %v): %s", i+1, p, name, s, got)
					}
				}
			}
			for _, who := range []string{"ci", ""} {
				reply := r.by(i, who, &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: id, Token: g.Token}}}, nil)
				if e := reply.Message.(*nornv1.RenewReply).Results[0].Error; e != nil {
					t.Errorf("node %d: %q may not renew: %v", i+1, who, e)
				}
			}
			own := r.by(i, "ci", &nornv1.UpdateRequest{Id: id, Token: g.Token, Data: []byte("half")}, work)
			if e := own.Message.(*nornv1.WriteReply).Results[0].Error; e != nil {
				t.Errorf("node %d: ci may not add to its own log: %v", i+1, e)
			}
			done := r.by(i, "ann", &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: id, Token: g.Token, AutoSeq: true}}}, work)
			if e := done.Message.(*nornv1.WriteReply).Results[0].Error; e != nil {
				t.Errorf("node %d: ann may not complete: %v", i+1, e)
			}
			got := ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: id}).Task
			if len(got.Updates) != 1 || string(got.Updates[0].Data) != "half" || got.State != nornv1.State_STATE_COMPLETED {
				t.Errorf("node %d: the task is %v", i+1, got)
			}
			if len(got.AttemptLog) != 1 || got.AttemptLog[0].Principal != "ci" || got.AttemptLog[0].CompletedBy != "ann" || got.Claims[0].Principal != "ci" {
				t.Errorf("node %d: attempts %v, claims %v", i+1, got.AttemptLog, got.Claims)
			}
		}
	}
}

// TestAFailureSaysWhoHadTheClaim: also an expiry does, on each node.
func TestAFailureSaysWhoHadTheClaim(t *testing.T) {
	r := newTrio(t)
	task := r.stored("q", 0)
	g := r.claimedBy(1, "ci", "q")
	r.by(2, "ci", &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "no luck"}}}, nil)
	for name, m := range ends(task.Bytes(), g.Token) {
		if got := answerText(r.by(1, "ann", m, nil)); !strings.Contains(got, "not ann's") {
			t.Errorf("%s by ann of a claim that ci has ended: %s", name, got)
		}
	}
	r.pass(2 * time.Second)
	r.claimedBy(0, "ann", "q")
	r.pass(70 * time.Second)
	r.pass(time.Second)
	for i := range r.peers {
		r.settle()
		all := ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: task.Bytes()}).Task.AttemptLog
		if len(all) != 2 || all[0].Principal != "ci" || all[1].Principal != "ann" || all[1].Outcome != nornv1.ClaimOutcome_CLAIM_OUTCOME_EXPIRED {
			t.Errorf("node %d tells of %v", i+1, all)
		}
	}
}

// TestASessionIsItsPrincipals: who has learned the instance of a worker neither speaks in its
// name nor asks with its session, at the worker's node or at another one.
func TestASessionIsItsPrincipals(t *testing.T) {
	r := newTrio(t)
	r.hands = "ci"
	h := r.newHand("w", 0, 1)
	r.pass(time.Second)
	h.work()
	r.tell() // whose name it is
	for i := range r.peers {
		m := session.Bundle(h.self.Instance, h.m.Info().Association+1, h.m.Stamp(r.now), nil, time.Second)
		for what, m := range map[string]gproto.Message{
			"session": m,
			"claim":   &nornv1.ClaimRequest{Queues: []string{"q"}, Session: h.self.Instance[:], RequestNo: 9, Unanswered: []uint64{1}},
		} {
			if got := answerText(r.by(i, "ann", m, nil)); !strings.Contains(got, "PERMISSION_DENIED") || !strings.Contains(got, "another principal") {
				t.Errorf("node %d, %s: ann is told %s", i+1, what, got)
			}
		}
	}
	task := r.stored("q", 0)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	if got := ask[*nornv1.GetReply](r, 2, &nornv1.GetRequest{Id: task.Bytes()}).Task.Claims; len(got) != 1 || got[0].Principal != "ci" {
		t.Errorf("the worker's claim is %v", got)
	}
	h.turn(1) // its own principal takes it elsewhere
	r.pass(time.Second)
	h.work()
}

// TestClaimsOfBeforeAreEverybodys: a claim that was granted before there were roles, or by a node
// of an older build that does not say who asks, is renewed, failed and given back by whoever may
// work; and what such a node passes on ends no claim of a principal as somebody else's.
func TestClaimsOfBeforeAreEverybodys(t *testing.T) {
	r := newTrio(t)
	for name := range ends(nil, 0) {
		for granted, ended := range map[string]string{"": "ci", "ci": ""} {
			task := r.stored("q", 1)
			g := r.claimedBy(1, granted, "q")
			if got := answerText(r.by(2, ended, ends(task.Bytes(), g.Token)[name], nil)); strings.Contains(got, "error:") || strings.Contains(got, "CLAIM_LOST") {
				t.Errorf("%s by %q of a claim of %q: %s", name, ended, granted, got)
			}
			r.by(0, "", &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: g.Token, AutoSeq: true}}}, nil)
		}
	}
}
