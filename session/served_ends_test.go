package session

import (
	"testing"
	"time"
)

// TestAnEndIsAcknowledgedWhereItsWorkerIs: by then it may have turned to this node anew.
func TestAnEndIsAcknowledgedWhereItsWorkerIs(t *testing.T) {
	b := newBoss(t)
	c := claims(1)[0]
	b.says(&UpdateStatus{Claim: c, End: End{Kind: EndCompleted}})
	b.d.Doubt(b.now, Instance{1}, questions(1))
	b.wants(c, "nothing") // its end is being written
	b.n = 2
	b.beat()
	b.done()
	b.d.Settled(b.now, Instance{1}, c, Outcome{Done: true, Lost: true})
	b.take()
	for _, m := range b.done().Send {
		if a, is := m.Body.(*StatusAck); is && (m.Association != 2 || !a.Lost || a.Claim != c) {
			t.Errorf("in association %d: %+v", m.Association, a)
		}
	}
	b.d.settling = make(map[settleKey]*settled)
	for i := range maxSettling {
		b.d.settling[settleKey{Instance{9}, Claim{Token: uint64(i)}}] = &settled{association: 1}
	}
	if b.says(&UpdateStatus{Claim: c, End: End{Kind: EndCompleted}}); len(b.done().Settle) != 0 {
		t.Error("more is written than may be")
	}
}

// TestALostWorker is told to die, is renewed nothing, and its claims are free when the cluster has
// agreed; its handlers may need as long as it has said.
func TestALostWorker(t *testing.T) {
	slow := func(h *Heartbeat) { h.Stop, h.Grace = time.Second, 7*time.Second }
	b := newBoss(t, slow)
	c := claims(1)[0]
	b.grant(c)
	b.says(&RunReply{Push: b.s().push, Claim: c})
	b.beat(slow, func(h *Heartbeat) { h.Claims = []Claim{c} })
	echo := b.s().beat
	b.refuse = NameStands // nothing is agreed on yet
	b.done()
	b.pass(DefaultTimeouts.HeartbeatGap + DefaultTimeouts.LoseAfter)
	if out := b.done(); len(frames[*Suicide](out.Send)) == 0 || len(out.Settle) != 0 || b.s().state != MustDie {
		t.Fatalf("it is %v, and there is to do %+v", b.s().state, out)
	}
	b.d.Renewed(b.now, Instance{1}, 1, echo, []Renewal{{Claim: c, Lease: time.Minute}}, true)
	if b.take(); len(frames[*Renewed](b.done().Send)) != 0 {
		t.Error("what it holds is renewed")
	}
	if b.d.Drain(b.now, Instance{1}) {
		t.Error("it is to drain")
	}
	b.refuse = NameUnknown
	b.pass(time.Minute)
	if out := b.done(); len(out.Settle) != 1 || out.Settle[0].Why != WhyLost || out.Settle[0].Grace != 7*time.Second || !b.s().revoked {
		t.Fatalf("agreed: %v, %+v", b.s().revoked, out.Settle)
	}
	b.n = 2
	b.beat()
	if out := b.done(); len(out.Names) != 0 || b.s().state != MustDie || len(frames[*Suicide](out.Send)) == 0 {
		t.Errorf("it comes back, is %v, and there is to do %+v", b.s().state, out)
	}
}

// TestWhoIsForgottenFirst: of lost workers, where a node is full, the one that was heard longest
// ago, and none whose loss is not agreed on.
func TestWhoIsForgottenFirst(t *testing.T) {
	b := newBoss(t)
	second := func(h *Heartbeat) { h.Identity.Instance, h.Identity.Name = Instance{2}, "v" }
	come := func(i Instance, h *Heartbeat) {
		b.stamp++
		b.d.Step(b.now, Message{Instance: i, Association: 1, Stamp: b.stamp, Body: h})
		b.take()
	}
	h := &Heartbeat{MinVersion: MinVersion, MaxVersion: MaxVersion, Capacity: Capacity{Slots: 1, Queues: []QueueSlots{{Queue: "q"}}}}
	two, three := *h, *h
	second(&two)
	three.Identity = Identity{Name: "u", Instance: Instance{3}}
	b.pass(time.Second)
	come(Instance{2}, &two)
	b.refuse = NameStands
	b.pass(DefaultTimeouts.CheckGap + DefaultTimeouts.LoseAfter + time.Minute)
	if come(Instance{3}, &three); b.d.Knows(Instance{3}) || b.d.Open() != 2 {
		t.Error("one is forgotten whose loss is not agreed on")
	}
	b.refuse = NameUnknown
	b.pass(time.Minute)
	b.refuse = NameStands
	if come(Instance{3}, &three); !b.d.Knows(Instance{3}) || !b.d.Knows(Instance{2}) || b.d.Knows(Instance{1}) {
		t.Errorf("known are 1: %v, 2: %v, 3: %v", b.d.Knows(Instance{1}), b.d.Knows(Instance{2}), b.d.Knows(Instance{3}))
	}
}

// TestRenewalsAreBounded: so many at a time, of so many claims, and how long they may gather is
// not known where one of them is not.
func TestRenewalsAreBounded(t *testing.T) {
	b := newBoss(t)
	c := claims(2)
	b.grant(c[0])
	lists := func(all ...Claim) []Renew {
		b.done()
		b.beat(func(h *Heartbeat) { h.Claims = all })
		return b.done().Renew
	}
	if r := lists(c[0]); len(r) != 1 || r[0].Lease != time.Minute {
		t.Errorf("one that is known: %+v", r)
	}
	if r := lists(c...); len(r) != 1 || r[0].Lease != 0 {
		t.Errorf("with one that is not: %+v", r)
	}
	for range 2 * maxRenewing {
		lists(c[0])
	}
	if n := len(b.s().renewing); n > maxRenewing {
		t.Errorf("%d heartbeats are remembered", n)
	}
	if r := lists(claims(MaxTakes + 1)...); len(r) != 0 {
		t.Error("more claims are renewed than there may be")
	}
	b.d.Doubt(b.now, Instance{1}, questions(2*MaxTakes+5))
	if n := len(b.s().book.all); n > 2*MaxTakes {
		t.Errorf("%d claims are asked about", n)
	}
}

// TestChecks: soon again while it is not healthy, each from when its frame came, and so many.
func TestChecks(t *testing.T) {
	b := newBoss(t)
	s := b.s()
	s.state = Unhealthy
	b.now = b.now.Add(2 * time.Second)
	b.d.Tick(b.now)
	b.done()
	s.sendCheck()
	b.take()
	run := frames[*RunTask](b.done().Send)
	if len(run) != 1 || run[0].Waited != 2*time.Second || run[0].Echo != s.stamp {
		t.Errorf("%+v", run)
	}
	if next := time.Duration(s.checkAt - b.now.Mono); next != DefaultTimeouts.Period {
		t.Errorf("the next one is in %v", next)
	}
	for range 2 * maxChecks {
		s.sendCheck()
	}
	if len(s.checks) > maxChecks || s.checks[len(s.checks)-1].number != s.checkNo {
		t.Errorf("%d are remembered, the last of them %+v", len(s.checks), s.checks[len(s.checks)-1])
	}
}

// TestTheWordToDieIsFinal: each time.
func TestTheWordToDieIsFinal(t *testing.T) {
	b := newBoss(t)
	b.done()
	b.d.Kill(b.now, Instance{1}, "why")
	b.take()
	b.beat()
	all := frames[*Suicide](b.done().Send)
	if len(all) != 2 || !all[0].Final || !all[1].Final || all[1].Reason != "why" {
		t.Errorf("%+v", all)
	}
}

// TestWhatAForgottenSessionWantedIsNotWanted: its worker has turned to another node.
func TestWhatAForgottenSessionWantedIsNotWanted(t *testing.T) {
	b := newBoss(t)
	no := b.s().want.no
	b.done()
	b.d.Name(b.now, NameAnswer{Instance: Instance{1}, Verdict: NameSuperseded})
	b.take()
	if out := b.done(); len(out.Unwant) != 1 || out.Unwant[0] != no || b.d.Knows(Instance{1}) || len(b.d.wants) != 0 {
		t.Errorf("unwanted: %v", out.Unwant)
	}
	b.d.Tick(b.now.Add(-time.Minute))
	if b.d.now.Mono < b.now.Mono {
		t.Error("time goes back")
	}
}

// TestTwoThatStartedAtOnce: neither proves the other dead.
func TestTwoThatStartedAtOnce(t *testing.T) {
	a := Identity{Name: "n", Instance: Instance{1}, Machine: "m", Lock: "l", Started: 100}
	o := a
	o.Instance = Instance{2}
	if got := Replaces(a, Healthy, o, false); got != ReplaceStale {
		t.Errorf("%v", got)
	}
}

// TestTheBetterOfTwoEndsIsKept: whichever of two comes while the other is being written, and
// only then the worker may forget the claim.
func TestTheBetterOfTwoEndsIsKept(t *testing.T) {
	ranks := [][]EndKind{{EndNotRunning, EndReported, EndReleased}, {EndFailed}, {EndCompleted}}
	for i, firsts := range ranks {
		for k, seconds := range ranks {
			for _, first := range firsts {
				for _, second := range seconds {
					b := newBoss(t)
					c := claims(1)[0]
					b.says(&UpdateStatus{Claim: c, End: End{Kind: first}})
					b.says(&UpdateStatus{Claim: c, End: End{Kind: second}})
					if out := b.done(); len(out.Settle) != 1 || out.Settle[0].End.Kind != first {
						t.Fatalf("%v, then %v: written is %+v", first, second, out.Settle)
					}
					b.d.Settled(b.now, Instance{1}, c, Outcome{Done: true})
					b.take()
					out := b.done()
					if more := len(out.Settle) == 1 && out.Settle[0].End.Kind == second; more != (k > i) {
						t.Fatalf("%v, then %v: written next is %+v", first, second, out.Settle)
					}
					if acked := len(frames[*StatusAck](out.Send)) == 1; acked == (k > i) {
						t.Fatalf("%v, then %v: acknowledged %v", first, second, acked)
					}
					if k <= i {
						continue
					}
					b.d.Settled(b.now, Instance{1}, c, Outcome{Done: true, Lost: true})
					b.take()
					if acks := frames[*StatusAck](b.done().Send); len(acks) != 1 || !acks[0].Lost {
						t.Fatalf("%v, then %v: acknowledged %+v", first, second, acks)
					}
				}
			}
		}
	}
}

// TestTheBetterOfTwoEndsInOneFrameIsWritten, and nothing of the other one.
func TestTheBetterOfTwoEndsInOneFrameIsWritten(t *testing.T) {
	b := newBoss(t)
	c := claims(1)[0]
	for _, k := range []EndKind{EndNotRunning, EndFailed, EndReleased, EndCompleted, EndFailed} {
		b.stamp++
		b.d.Step(b.now, Message{Instance: Instance{1}, Association: b.n, Stamp: b.stamp, Body: &UpdateStatus{Claim: c, End: End{Kind: k}}})
	}
	b.take()
	if out := b.done().Settle; len(out) != 1 || out[0].End.Kind != EndCompleted || out[0].Why != WhyEnded {
		t.Errorf("written is %+v", out)
	}
}
