package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// claims has a worker say something that is no word of its machine.
func (h *hand) claims(bodies ...session.Body) {
	r := h.r
	r.t.Helper()
	var all []session.Message
	for _, b := range bodies {
		all = append(all, session.Message{Instance: h.self.Instance, Association: h.m.Info().Association, Stamp: h.m.Stamp(r.now), Body: b})
	}
	r.next++
	from := message.Origin{Conn: h.conn, Request: r.next}
	h.open = append(h.open, from)
	body := session.Bundle(h.self.Instance, h.m.Info().Association, h.m.Stamp(r.now), all, 5*time.Minute)
	r.check(r.peers[h.node].core.Step(r.now, &message.Request{From: from, Body: body, Received: r.now.Mono}))
	r.turn(h.node)
	r.settle()
}

// TestWhatASessionSaysOfOthersClaims ends and renews none of them: not by a word about the
// claim, not by listing it as its own and leaving. A completion counts whoever says it, and
// the worker that held the claim hears of it at once.
func TestWhatASessionSaysOfOthersClaims(t *testing.T) {
	r := newTrio(t)
	h, liar := r.newHand("w", 0, 1), r.newHand("liar", 1, 1, func(c *session.WorkerConfig) { c.Capacity.Queues[0].Queue = "p" })
	same := r.newHand("w", 2, 1) // the same name, another instance: it waits for the name
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool {
		return len(h.running) == 1 && liar.m.Info().State == session.Healthy
	}, h, liar, same)
	c := h.starts[0]
	holds := func(after string) {
		t.Helper()
		began := r.now
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return r.now.Mono-began.Mono > int64(time.Second) }, h, liar, same)
		if state, held := r.stateOf(0, c.Task), r.holders(c.Task, c.Token); len(h.stops) > 0 || held != 3 || state != nornv1.State_STATE_CLAIMED {
			t.Fatalf("%s: the task is %s, %d hold its claim, stops %v", after, state, held, h.stops)
		}
	}
	for _, kind := range []session.EndKind{session.EndNotRunning, session.EndReleased, session.EndReported, session.EndFailed} {
		for _, by := range []*hand{liar, same} {
			by.claims(&session.UpdateStatus{Claim: c, End: session.End{Kind: kind, Discard: true}})
			holds(kind.String())
		}
	}
	for _, of := range []struct {
		by   *hand
		name string
		lost bool
	}{{liar, "liar", true}, {liar, "w", true}, {same, "w", true}, {h, "v", true}, {h, "w", false}, {h, "", false}} {
		ref := refOf(c.Task, c.Token)
		ref[0].Session, ref[0].Worker = of.by.self.Instance[:], of.name
		res := ask[*nornv1.RenewReply](r, 1, &nornv1.RenewRequest{Claims: ref}).Results[0]
		if lost := res.GetError().GetKind() == nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST; lost != of.lost || !lost && res.Error != nil {
			t.Errorf("%s as %q renews it: %v", of.by.self.Name, of.name, res)
		}
	}
	liar.turn(1)
	liar.claims(&session.RunningTasks{Request: liar.m.Info().Association, Held: []session.Held{{Claim: c, Queue: "p", Lease: time.Minute}}})
	holds("listed")
	liar.claims(&session.Leave{})
	holds("left")
	same.claims(&session.UpdateStatus{Claim: c, End: session.End{Kind: session.EndCompleted}})
	if r.days(10*time.Second, 10*time.Millisecond, func() bool { return len(h.stops) > 0 }, h); len(h.stops) != 1 || h.stops[0].Claim != c {
		t.Errorf("it is completed, and its worker hears %v", h.stops)
	}
}

// TestAWorkerHearsAtOnceThatItsClaimWasEnded by others, however they do it, and nothing of what
// it ends itself.
func TestAWorkerHearsAtOnceThatItsClaimWasEnded(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	for i, end := range []func(session.Claim){
		func(c session.Claim) {
			ask[*nornv1.WriteReply](r, 1, &nornv1.ReleaseRequest{Claims: refOf(c.Task, c.Token)})
		},
		func(c session.Claim) {
			ask[*nornv1.WriteReply](r, 1, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: c.Task.Bytes(), Token: c.Token, Discard: true}}})
		},
		func(c session.Claim) {
			ask[*nornv1.WriteReply](r, 1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: c.Task.Bytes(), Token: c.Token}}})
		},
	} {
		r.stock(1, 1)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
		c := h.starts[len(h.starts)-1]
		end(c)
		if took := r.days(10*time.Second, 10*time.Millisecond, func() bool { return len(h.stops) > i }, h); took > 200*time.Millisecond || len(h.stops) != i+1 || h.stops[i].Claim != c {
			t.Fatalf("end %d: after %v it has heard %v", i, took, h.stops)
		}
		h.end(c, session.EndReported)
		if i == 0 { // it is given the task again
			r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
			h.end(h.starts[len(h.starts)-1], session.EndCompleted)
		}
	}
	if len(h.stops) != 3 {
		t.Errorf("it was stopped %v", h.stops)
	}
}

// TestAWorkerThatDoesNotHearThatItIsKilled: what it runs begins elsewhere when its lease is over,
// and not before, and another worker may have its name.
func TestAWorkerThatDoesNotHearThatItIsKilled(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	h.deaf = func(m session.Message) bool { return m.Body.Kind() == session.KindSuicide }
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	began := r.now
	ask[*nornv1.WorkersReply](r, 0, &nornv1.SetWorkerRequest{Name: "w", Action: nornv1.WorkerAction_WORKER_ACTION_KILL})
	heir := r.newHand("w", 1, 1)
	r.days(2*time.Minute, 100*time.Millisecond, func() bool { return len(heir.running) == 1 }, h, heir)
	took := time.Duration(r.now.Mono - began.Mono)
	if least := 30 * time.Second; took < least || took > 50*time.Second {
		t.Errorf("it runs elsewhere after %v", took)
	}
	if len(h.stops) == 0 {
		t.Error("its handler was not stopped when its lease was over")
	}
	all := ask[*nornv1.WorkersReply](r, 2, &nornv1.WorkersRequest{Names: []string{"w"}}).Workers
	if len(all) != 2 {
		t.Fatalf("%d workers are listed", len(all))
	}
	for _, m := range all {
		old := session.Instance(m.Instance) == h.self.Instance
		if m.Killed != old || (m.State == nornv1.SessionState_SESSION_STATE_MUST_DIE) != old {
			t.Errorf("listed is %v", m)
		}
	}
}
