package workers

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// testNode keeps what sessions ask of it.
type testNode struct {
	changes  []register.NameChange
	requests []*message.Request
}

func (n *testNode) Closed() bool                                     { return false }
func (n *testNode) Request(_ clock.Time, r *message.Request)         { n.requests = append(n.requests, r) }
func (n *testNode) State(id.ID) nornv1.State                         { return nornv1.State_STATE_CLAIMED }
func (n *testNode) AskedFor(string) (uint64, *timestamppb.Timestamp) { return 0, nil }
func (n *testNode) ChangeNames(changes []register.NameChange, _ func(clock.Time, register.Result)) {
	n.changes = append(n.changes, changes...)
}

// testRoutes know of no leader.
type testRoutes struct{ Routes }

func (testRoutes) Leader(ring.Partition) (register.Member, bool) { return register.Member{}, false }

// testMachine is the machine of a node that knows of nobody else.
func testMachine(t *testing.T) (*Machine, *testNode, clock.Time) {
	t.Helper()
	self, n := register.Member{Node: "n1", Incarnation: register.Incarnation{1}}, &testNode{}
	m, err := New(Env{Ground: &ground.Ground{Pending: waiting.New(), Self: self, View: view.New(self, 1), Round: round.New(nil)}, Buffer: 5 * time.Second, Routes: testRoutes{}, Node: n})
	if err != nil {
		t.Fatal(err)
	}
	return m, n, clock.Time{Wall: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Hour)}
}

// TestANameHasLapsed: when its lease, what a worker may keep beyond it, and the buffer are over.
func TestANameHasLapsed(t *testing.T) {
	m, _, _ := testMachine(t)
	n := &m.Names
	const lease = 20 * time.Second
	c := &shard{lease: lease, seen: 1000}
	over := int64(lease + clock.Margin(lease, 0) + m.Buffer)
	for at, want := range map[int64]bool{1000 + over - 1: false, 1000 + over: true} {
		if got := n.lapsed(c, clock.Time{Mono: at}); got != want {
			t.Errorf("after %v of %v: %v", time.Duration(at-1000), time.Duration(over), got)
		}
	}
}

// TestTwoWhoWantOneName: each is decided by what the register has, so one after the other; and an
// older state of it takes nothing back.
func TestTwoWhoWantOneName(t *testing.T) {
	m, node, now := testMachine(t)
	n := &m.Names
	want := func(i byte) session.NameRequest {
		return session.NameRequest{No: uint64(i), Op: session.NameAcquire, Identity: session.Identity{Name: "w", Instance: session.Instance{i}}, Association: 1, Lease: time.Minute}
	}
	n.urgent = false
	n.write(now, []session.NameRequest{want(1), want(2)})
	if len(node.changes) != 1 || len(n.waiting) != 1 || n.waiting[0].No != 2 {
		t.Errorf("asked for %v, and %d wait", node.changes, len(n.waiting))
	}
	n.waiting, n.busy = nil, false
	data := n.data(&shard{}, session.Cell{Holder: want(1).Identity, Association: 1}, time.Minute)
	later := register.State{NamesAt: 9, HoldersAt: 9, Names: map[string]register.Name{"w": {Version: 9, Data: data}}}
	n.Learn(now, &later)
	n.Learn(now, &register.State{NamesAt: 8, HoldersAt: 8})
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
	m, _, now := testMachine(t)
	a := &m.Asks
	claims := func(n int) session.Renew {
		return session.Renew{Claims: make([]session.Claim, n), Lease: time.Hour}
	}
	a.renew(now, []session.Renew{claims(maxRenewGather - 1)})
	if len(a.renewals.waiting) != 1 {
		t.Errorf("%d wait", len(a.renewals.waiting))
	}
	if a.renew(now, []session.Renew{claims(1)}); len(a.renewals.waiting) != 0 {
		t.Errorf("%d claims wait still", a.renewals.claims)
	}
}

// TestWhatNobodyRunsIsGivenBackAgain: until its leader has taken it, or for a minute. What a worker
// reports it repeats itself.
func TestWhatNobodyRunsIsGivenBackAgain(t *testing.T) {
	m, _, now := testMachine(t)
	a := &m.Asks
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
		a.ended(now.Add(of.after), &ending{Settle: session.Settle{Why: of.why}, since: now.Mono}, session.Outcome{Done: of.done})
		if len(a.later) != of.again {
			t.Errorf("%v after %v, done %v: %d", of.why, of.after, of.done, len(a.later))
		}
	}
	a.later = nil
}

// TestALeaseCountsFromTheGrant, not from when its answer has come: the claim would end earlier
// than its worker believes.
func TestALeaseCountsFromTheGrant(t *testing.T) {
	m, _, now := testMachine(t)
	a := &m.Asks
	w := &want{open: make(map[uint64]bool), asked: clock.Never}
	a.claimFor(now, w, []string{"nothing"}, 1, time.Minute, func(clock.Time, int) {})
	then := a.open[a.Number]
	then(now.Add(2*time.Second), &message.Reply{Message: &nornv1.ClaimReply{WaitedSeconds: 0.5}})
	if w.asked != now.Mono+int64(time.Second/2) {
		t.Errorf("it counts from %v after it was asked for", time.Duration(w.asked-now.Mono))
	}
}
