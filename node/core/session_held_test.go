package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"
)

// TestANameHasLapsed: when its lease, what a worker may keep beyond it, and the buffer are over.
func TestANameHasLapsed(t *testing.T) {
	n := &newTrio(t).peers[0].core.sessions.names
	const lease = 20 * time.Second
	c := &shard{lease: lease, seen: 1000}
	over := int64(lease + clock.Margin(lease, 0) + eta)
	for at, want := range map[int64]bool{1000 + over - 1: false, 1000 + over: true} {
		if got := n.lapsed(c, clockOf(0, at)); got != want {
			t.Errorf("after %v of %v: %v", time.Duration(at-1000), time.Duration(over), got)
		}
	}
}

// TestTwoWhoWantOneName: each is decided by what the register has, so one after the other; and an
// older state of it takes nothing back.
func TestTwoWhoWantOneName(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	n := &c.sessions.names
	want := func(i byte) session.NameRequest {
		return session.NameRequest{No: uint64(i), Op: session.NameAcquire, Identity: session.Identity{Name: "w", Instance: session.Instance{i}}, Association: 1, Lease: time.Minute}
	}
	c.round.Ready.Register, n.urgent = nil, false
	n.write(r.now, []session.NameRequest{want(1), want(2)})
	if len(c.round.Ready.Register) != 1 || len(c.round.Ready.Register[0].Names) != 1 || len(n.waiting) != 1 || n.waiting[0].No != 2 {
		t.Errorf("asked for %v, and %d wait", c.round.Ready.Register, len(n.waiting))
	}
	c.round.Ready.Register, n.waiting, n.busy = nil, nil, false
	data := n.data(&shard{}, session.Cell{Holder: want(1).Identity, Association: 1}, time.Minute)
	later := register.State{NamesAt: 9, HoldersAt: 9, Names: map[string]register.Name{"w": {Version: 9, Data: data}}}
	n.learn(r.now, &later)
	n.learn(r.now, &register.State{NamesAt: 8, HoldersAt: 8})
	if i, _, ok := n.holder("w"); !ok || i != (session.Instance{1}) {
		t.Errorf("the name is %v's (%v)", i, ok)
	}
}

// TestWhatBecameOfARenewal: only what its leader says is a loss. The rest is not decided, and
// nothing is said of it.
func TestWhatBecameOfARenewal(t *testing.T) {
	fails := func(kind nornv1.ErrorKind, s nornv1.State) *nornv1.RenewResult {
		return &nornv1.RenewResult{Error: &nornv1.Error{Kind: kind}, State: s}
	}
	const lost, running = nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, nornv1.State_STATE_CLAIMED
	for _, of := range []struct {
		r     *nornv1.RenewResult
		cause session.Cause
		lease time.Duration
	}{
		{&nornv1.RenewResult{LeaseSeconds: 30}, session.CauseNone, 30 * time.Second},
		{fails(lost, running), session.CauseLost, 0},
		{fails(lost, nornv1.State_STATE_CANCELLED), session.CauseCancelled, 0},
		{fails(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, running), session.CauseLost, 0},
		{fails(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, running), session.CauseNone, 0},
		{fails(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, running), session.CauseNone, 0},
		{fails(nornv1.ErrorKind_ERROR_KIND_INTERNAL, running), session.CauseNone, 0},
	} {
		if got := renewal(session.Claim{Token: 5}, of.r); got.Lost != of.cause || got.Lease != of.lease || got.Claim.Token != 5 {
			t.Errorf("%v: %+v", of.r, got)
		}
	}
}

// TestManyRenewalsDoNotWait for each other: so many go in one request.
func TestManyRenewalsDoNotWait(t *testing.T) {
	r := newTrio(t)
	a := &r.peers[0].core.sessions.asks
	claims := func(n int) session.Renew {
		return session.Renew{Claims: make([]session.Claim, n), Lease: time.Hour}
	}
	a.renew(r.now, []session.Renew{claims(maxRenewGather - 1)})
	if len(a.renewals.waiting) != 1 {
		t.Errorf("%d wait", len(a.renewals.waiting))
	}
	if a.renew(r.now, []session.Renew{claims(1)}); len(a.renewals.waiting) != 0 {
		t.Errorf("%d claims wait still", a.renewals.claims)
	}
}

// TestWhatNobodyRunsIsGivenBackAgain: until its leader has taken it, or for a minute. What a worker
// reports it repeats itself.
func TestWhatNobodyRunsIsGivenBackAgain(t *testing.T) {
	r := newTrio(t)
	a := &r.peers[0].core.sessions.asks
	for _, of := range []struct {
		why   session.Why
		after time.Duration
		done  bool
		again int
	}{
		{session.WhyUnsent, 0, false, 1}, {session.WhyLost, settleFor, false, 1}, {session.WhyRefused, settleFor + 1, false, 0},
		{session.WhyLeft, 0, true, 0}, {session.WhyEnded, 0, false, 0}, {session.WhyNotRunning, 0, false, 0},
	} {
		a.later = nil
		a.ended(r.now.Add(of.after), &ending{Settle: session.Settle{Why: of.why}, since: r.now.Mono}, session.Outcome{Done: of.done})
		if len(a.later) != of.again {
			t.Errorf("%v after %v, done %v: %d", of.why, of.after, of.done, len(a.later))
		}
	}
	a.later = nil
}

// TestALeaseCountsFromTheGrant, not from when its answer has come: the claim would end earlier
// than its worker believes.
func TestALeaseCountsFromTheGrant(t *testing.T) {
	r := newTrio(t)
	a := &r.peers[0].core.sessions.asks
	w := &want{open: make(map[uint64]bool), asked: clock.Never}
	a.ask(r.now, w, []string{"nothing"}, 1, time.Minute, func(clock.Time, int) {})
	then := a.open[a.number]
	then(r.now.Add(2*time.Second), &message.Reply{Message: &nornv1.ClaimReply{WaitedSeconds: 0.5}})
	if w.asked != r.now.Mono+int64(time.Second/2) {
		t.Errorf("it counts from %v after it was asked for", time.Duration(w.asked-r.now.Mono))
	}
}

// TestARenewalThatIsNotDecidedSaysNothing: the node that leads the task stands back for a while. Its
// worker goes on for as long as its claim lasts.
func TestARenewalThatIsNotDecidedSaysNothing(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	p := r.part(h.starts[0].Task)
	e := r.peers[r.leader(p)].core.elector
	renewed := 0
	h.deaf = func(m session.Message) bool {
		if b, is := m.Body.(*session.Renewed); is {
			for _, x := range b.Items {
				if renewed++; x.Lease <= 0 && x.Lost == session.CauseNone {
					t.Errorf("told: %+v", x)
				}
			}
		}
		return false
	}
	e.Stall(true)
	until := r.now.Add(12 * time.Second) // two heartbeats, and its lease is not over
	r.days(time.Minute, 250*time.Millisecond, func() bool { return r.now.Mono >= until.Mono }, h)
	if len(h.stops) > 0 || renewed > 0 {
		t.Errorf("%d renewals while nobody leads, stopped: %v", renewed, h.stops)
	}
	e.Stall(false)
	r.days(20*time.Second, 250*time.Millisecond, func() bool { return renewed > 0 }, h)
	if len(h.running) != 1 || len(h.stops) > 0 {
		t.Errorf("it runs %d, stopped: %v", len(h.running), h.stops)
	}
}
