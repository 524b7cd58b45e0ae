package session

import (
	"slices"
	"testing"
	"time"
)

// TestHeartbeatsThatBreakARule are refused, and begin nothing.
func TestHeartbeatsThatBreakARule(t *testing.T) {
	for what, spoil := range map[string]func(*Heartbeat){
		"many slots":           func(h *Heartbeat) { h.Capacity.Slots = MaxTakes },
		"no slot":              func(h *Heartbeat) { h.Capacity.Slots = 0 },
		"many queues":          func(h *Heartbeat) { h.Capacity.Queues = make([]QueueSlots, MaxQueues+1) },
		"no name":              func(h *Heartbeat) { h.Identity.Name = "" },
		"somebody else":        func(h *Heartbeat) { h.Identity.Instance = Instance{2} },
		"handlers that linger": func(h *Heartbeat) { h.Stop = DefaultTimeouts.LoseAfter/2 + 1 },
		"":                     nil,
	} {
		d, err := NewDispatcher(DispatcherConfig{})
		if err != nil {
			t.Fatal(err)
		}
		b := &boss{t: t, d: d, now: newBoss(t).now, n: 1}
		if spoil == nil {
			b.beatIn(0)
		} else {
			b.beat(spoil)
		}
		if r := frames[*HeartbeatReply](b.done().Send); len(r) != 1 || r[0].Refused != RefusedInvalid || b.d.Open() != 0 {
			t.Errorf("%s: answered %+v, %d sessions", what, r, b.d.Open())
		}
	}
}

// TestAnEarlierAssociationSaysNothing: frames of it come late.
func TestAnEarlierAssociationSaysNothing(t *testing.T) {
	b := newBoss(t)
	c := claims(1)[0]
	b.n = 2
	b.beat(func(h *Heartbeat) { h.Claims = []Claim{c} })
	s := b.s()
	stamp, echo := s.stamp, s.beat
	b.beatIn(1, func(h *Heartbeat) { h.Draining = true })
	b.saysIn(1, &RunningTasks{Request: 1, Held: []Held{{Claim: c}}})
	b.saysIn(1, &UpdateStatus{Claim: claims(2)[1], End: End{Kind: EndCompleted}})
	if s.draining || s.listed || s.association != 2 || s.stamp != stamp {
		t.Errorf("draining %v, listed %v, association %d, stamp %d, not %d", s.draining, s.listed, s.association, s.stamp, stamp)
	}
	if b.d.Closed(b.now, Instance{1}, 1); s.closed {
		t.Error("the end of its stream ends the one of now")
	}
	items := []Renewal{{Claim: c, Lease: time.Minute}}
	b.done()
	b.d.Renewed(b.now, Instance{1}, 1, echo, items, false)
	b.d.Renewed(b.now, Instance{1}, 2, echo+1, items, false)
	if b.take(); len(frames[*Renewed](b.done().Send)) != 0 {
		t.Error("renewals of another association, or of no heartbeat, are told")
	}
	b.d.Renewed(b.now, Instance{1}, 2, echo, items, true)
	if b.take(); len(frames[*Renewed](b.done().Send)) != 1 {
		t.Error("renewals of this one are not")
	}
}

// TestANewAssociationBeginsAnew: with the name, the list, and what is wanted. What was pushed may
// or may not have come.
func TestANewAssociationBeginsAnew(t *testing.T) {
	b := newBoss(t)
	c := claims(1)[0]
	b.grant(c)
	b.says(&RunReply{Push: b.s().push, Claim: c})
	b.wants(c, "running")
	b.n, b.refuse = 2, NameUnknown
	no := b.s().want.no
	b.done()
	b.stamp++
	b.d.Step(b.now, Message{Instance: Instance{1}, Association: 2, Stamp: b.stamp, Body: &Heartbeat{
		Identity: b.s().id, MinVersion: MinVersion, MaxVersion: MaxVersion, Capacity: b.s().capacity, Settled: true,
	}})
	s, out := b.s(), b.d.Ready()
	if s.name.held || s.listed || s.state == Healthy || s.want != nil {
		t.Errorf("named %v, listed %v, %v, wants %v", s.name.held, s.listed, s.state, s.want)
	}
	if !slices.Contains(out.Unwant, no) || len(out.Names) != 1 || out.Names[0].Op != NameAcquire || len(frames[*GetRunningTasks](out.Send)) != 1 {
		t.Errorf("%+v", out)
	}
	b.wants(c, "unsure")
}

// TestWhoIsGivenNothing: a worker that drains, has gone, or is to die.
func TestWhoIsGivenNothing(t *testing.T) {
	for what, set := range map[string]func(b *boss){
		"it drains":         func(b *boss) { b.beat(func(h *Heartbeat) { h.Draining = true }) },
		"it is to drain":    func(b *boss) { b.d.Drain(b.now, Instance{1}) },
		"its stream ended":  func(b *boss) { b.d.Closed(b.now, Instance{1}, 1) },
		"it is to die":      func(b *boss) { b.d.Kill(b.now, Instance{1}, "why") },
		"it leaves":         func(b *boss) { b.refuse = NameStands; b.says(&Leave{}) },
		"it is silent":      func(b *boss) { b.pass(DefaultTimeouts.HeartbeatGap) },
		"it is stuck":       func(b *boss) { c := claims(1)[0]; b.grant(c); b.d.Unsent(b.now, Instance{1}, c) },
		"it has much to do": func(b *boss) { b.d.Doubt(b.now, Instance{1}, questions(3)) },
	} {
		b := newBoss(t)
		b.done()
		no := b.s().want.no
		if set(b); b.s().want != nil {
			t.Errorf("%s: it wants %+v", what, b.s().want)
		}
		b.take()
		closed := what == "it is stuck" // answered
		if !closed && !slices.Contains(b.done().Unwant, no) {
			t.Errorf("%s: what it wanted is asked for still", what)
		}
		b.done()
		c := claims(9)[8]
		b.d.Granted(b.now, no, b.now.Mono, []Assignment{{Claim: c, Queue: "q"}})
		if b.take(); !is(settledFor(b.done().Settle, c), WhyUnsent) {
			t.Errorf("%s: what it is granted all the same is not given back", what)
		}
	}
}

func questions(n int) (all []Question) {
	for _, c := range claims(n) {
		all = append(all, Question{Claim: c, Lease: time.Minute})
	}
	return all
}

// TestWhatCannotBePushedIsGivenBack: of a queue that is not served any more, or has no room, and
// what is there already.
func TestWhatCannotBePushedIsGivenBack(t *testing.T) {
	one := func(h *Heartbeat) {
		h.Capacity.Prefetch, h.Capacity.Slots, h.Capacity.Queues = 0, 3, []QueueSlots{{Queue: "q", Slots: 1}, {Queue: "r"}}
	}
	b := newBoss(t, one)
	all := claims(4)
	b.done()
	b.d.Granted(b.now, b.s().want.no, b.now.Mono, []Assignment{{Claim: all[0], Queue: "q"}, {Claim: all[1], Queue: "q"}, {Claim: all[2], Queue: "x"}, {Claim: all[0], Queue: "r"}, {Claim: all[3], Queue: "r"}})
	b.take()
	out := b.done()
	for c, want := range map[Claim][]Why{all[0]: {WhyUnsent}, all[1]: {WhyUnsent}, all[2]: {WhyUnsent}, all[3]: nil} {
		if got := settledFor(out.Settle, c); !slices.Equal(got, want) {
			t.Errorf("claim %d is given back for %v, not %v", c.Token, got, want)
		}
	}
	if run := frames[*RunTask](out.Send); len(run) != 2 || run[0].Claim != all[0] || run[1].Claim != all[3] {
		t.Errorf("pushed: %+v", run)
	}
}

// TestWhatAnAnswerTells: of the claims that were in its question, and are unsure since. Those that
// have ended are none any more.
func TestWhatAnAnswerTells(t *testing.T) {
	b := newBoss(t)
	all := questions(3)
	b.d.Doubt(b.now, Instance{1}, all[:1])
	b.pass(1)
	b.d.Doubt(b.now, Instance{1}, all[1:2])
	b.says(&NotifyReply{Seq: 7})
	b.wants(all[0].Claim, "unsure")
	b.says(&NotifyReply{Seq: 1})
	b.wants(all[0].Claim, "running")
	b.wants(all[1].Claim, "unsure")
	b.d.Doubt(b.now, Instance{1}, all[2:])
	b.pass(time.Minute / 60)
	b.beat()
	if n := frames[*Notify](b.done().Send); len(n) < 2 || len(n[len(n)-1].Claims) != 2 {
		t.Fatalf("asked: %+v", n)
	}
	b.says(&NotifyReply{Seq: b.s().book.seq, Ended: []Claim{all[1].Claim}})
	b.wants(all[1].Claim, "nothing")
	b.wants(all[2].Claim, "running")
}

// TestAQuestionAsksAboutSoMany, and what was not in it is not answered with it.
func TestAQuestionAsksAboutSoMany(t *testing.T) {
	k := newBook()
	all := claims(maxQuestions + 1)
	for _, c := range all {
		k.put(k.add(c, "q", time.Minute, sent), unsure, 5)
	}
	q := k.question()
	var out *entry
	for _, e := range k.all {
		if e.asked != q.Seq {
			out = e
		}
	}
	if len(q.Claims) != maxQuestions || out == nil || out.asked != q.Seq+1 {
		t.Fatalf("%d claims, and left out is %+v", len(q.Claims), out)
	}
	k.ask = retry{at: 99}
	in := k.all[q.Claims[0].Claim]
	if k.put(in, unsure, 7); in.asked != q.Seq || k.ask.at != 99 {
		t.Errorf("what is unsure already is asked about anew: %d, at %d", in.asked, k.ask.at)
	}
	k.put(in, knownRunning, 8)
	if k.put(in, unsure, 9); in.asked != q.Seq+1 || k.ask.at != 9 {
		t.Errorf("what has become unsure is not: %d, at %d", in.asked, k.ask.at)
	}
}
