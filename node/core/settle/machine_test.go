package settle

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

const (
	parts = 2
	epoch = 5 // in which the node of the tests leads
	lasts = 30 * time.Second
	grace = 24 * time.Hour
)

const (
	invalid     = nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
	lost        = nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST
	unavailable = nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE
	notFound    = nornv1.ErrorKind_ERROR_KIND_NOT_FOUND
	cancelled   = nornv1.ErrorKind_ERROR_KIND_CANCELLED
)

func member(n byte) register.Member {
	return register.Member{Node: "n", Incarnation: register.Incarnation{n}}
}

// nobody is the rest of a node that has nothing, and whose sessions hear nothing.
type nobody struct{ lease.Others }

func (nobody) Confirmed(ring.Partition) {}
func (nobody) Tells([]byte)             {}

// bench is the machine of a node which leads both partitions, and in the first of them alice's session 1,
// of worker w, holds a task.
type bench struct {
	*Machine
	v     *vnode.Vnode
	now   clock.Time
	task  id.ID
	token uint64
}

// newBench makes one with so many members of the cohort.
func newBench(t *testing.T, members int) *bench {
	t.Helper()
	b := &bench{now: clock.Time{Wall: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Hour)}}
	self, disk, seen := member(0), memstore.New(), view.New(member(0), parts)
	var cohort []register.Member
	for n := range members {
		cohort = append(cohort, member(byte(n)))
	}
	all := make([]*vnode.Vnode, parts)
	for p := range all {
		seen.Cells[p] = register.Cell{Epoch: epoch, Cohort: cohort, Leader: self}
		var err error
		if all[p], err = vnode.Open(ring.Partition(p), vnode.Config{Partitions: parts, HeadSize: 8, Random: rand.Float64}, disk, b.now); err != nil {
			t.Fatal(err)
		}
		all[p].Lead(epoch)
	}
	b.v = all[0]
	seen.Look()
	seen.Hear(cohort[1:])
	e := Env{Ground: &ground.Ground{Self: self, GCGrace: grace, View: seen, Round: round.New(disk), Partitions: partitions.New(all, nil, nil), Pending: waiting.New(), Rand: rand.New(rand.NewPCG(1, 2))}, Sessions: nobody{}, Clashes: &arrivals.Clashes{}}
	acceptors, err := leadership.OpenAcceptors(&leadership.Env{Ground: e.Ground}, parts, disk)
	if err != nil {
		t.Fatal(err)
	}
	if e.Standing, err = standing.New(standing.Env{Ground: e.Ground}, make([]uint64, parts), disk, b.now); err != nil {
		t.Fatal(err)
	}
	e.Leases = lease.New(lease.Env{Ground: e.Ground, Standing: e.Standing, Acceptors: acceptors, Others: nobody{}})
	e.Replication = replication.New(replication.Env{Ground: e.Ground, Standing: e.Standing, Acceptors: acceptors, Leases: e.Leases})
	e.Transfer = transfer.New(transfer.Env{Ground: e.Ground})
	e.Replication.Transfer = e.Transfer
	e.Index = dispatch.New(dispatch.Env{Ground: e.Ground, MaxQueues: 1}).Index
	b.Machine = New(e)
	ids := id.NewGenerator(7, rand.Uint64)
	b.task = ids.Hashed(b.now.Wall, ring.HashIn(ids.Next(b.now.Wall-1), 0, parts))
	b.Round.Now = b.now
	if _, err := b.v.Enqueue(b.Round.Tx, b.task, &crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 3}}, b.now); err != nil {
		t.Fatal(err)
	}
	d, err := b.v.Grant(b.Round.Tx, "q", vnode.Ask{Worker: "w", Session: [16]byte{1}, Lease: lasts, By: "alice"}, b.now)
	if err != nil {
		t.Fatal(err)
	}
	b.token = d.Claims[0].Token
	return b
}

// other goes on with a task that is not known.
func (b *bench) other() {
	for b.task[19]++; ring.Of(b.task, parts) != 0; {
		b.task[19]++
	}
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	b.now = b.now.Add(d)
	b.Round.Now = b.now
}

// asker is who says something of a claim.
type asker struct {
	by, worker string
	session    byte
}

// holder is who holds the task of a bench.
var holder = asker{"alice", "w", 1}

// kindOf is what is wrong with an answer of one result; ok: it is answered.
func kindOf(m gproto.Message, err *proto.Error) (kind nornv1.ErrorKind, ok bool) {
	switch m := m.(type) {
	case *nornv1.RenewReply:
		return m.Results[0].GetError().GetKind(), true
	case *nornv1.WriteReply:
		return m.Results[0].GetError().GetKind(), true
	}
	if err != nil {
		return err.Kind, true
	}
	return 0, false
}

// verb is a request about one claim; it gives what is wrong with it, and whether it is answered yet.
type verb func(*bench, asker) (nornv1.ErrorKind, bool)

// deferred gives the answer that was given by now to a request whose answer may have to wait.
func (b *bench) deferred(m gproto.Message, err *proto.Error) (nornv1.ErrorKind, bool) {
	if all := b.Round.Ready.Replies; m == nil && err == nil && len(all) > 0 {
		m, err = all[len(all)-1].Message, all[len(all)-1].Err
	}
	return kindOf(m, err)
}

func (b *bench) ref(a asker) *nornv1.ClaimRef {
	return &nornv1.ClaimRef{Id: b.task.Bytes(), Token: b.token, Session: session(a), Worker: a.worker}
}

func session(a asker) []byte {
	if a.session == 0 {
		return nil
	}
	s := [16]byte{a.session}
	return s[:]
}

func (b *bench) request(a asker) *message.Request {
	return &message.Request{From: message.Origin{Conn: 1, Request: 1}, By: a.by}
}

func (b *bench) complete(a asker) *nornv1.WriteResult {
	m, err := b.Complete(b.now, b.request(a), &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: b.task.Bytes(), Token: b.token, Session: session(a), Result: []byte("done")}}})
	if err != nil {
		return &nornv1.WriteResult{Error: err.Proto()}
	}
	return m.(*nornv1.WriteReply).Results[0]
}

var verbs = map[string]verb{
	"renew": func(b *bench, a asker) (nornv1.ErrorKind, bool) {
		return b.deferred(b.Renew(b.now, b.request(a), &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{b.ref(a)}, LeaseSeconds: 60}))
	},
	"release": func(b *bench, a asker) (nornv1.ErrorKind, bool) {
		return b.deferred(b.Release(b.now, b.request(a), &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{b.ref(a)}}))
	},
	"fail": func(b *bench, a asker) (nornv1.ErrorKind, bool) {
		f := &nornv1.Failure{Id: b.task.Bytes(), Token: b.token, Session: session(a), Worker: a.worker, Error: "no"}
		return b.deferred(b.Fail(b.now, b.request(a), &nornv1.FailRequest{Failures: []*nornv1.Failure{f}}))
	},
	"update": func(b *bench, a asker) (nornv1.ErrorKind, bool) {
		return b.deferred(b.Update(b.now, b.request(a), &nornv1.UpdateRequest{Id: b.task.Bytes(), Token: b.token, Seq: 1, Data: []byte("x")}))
	},
	"complete": func(b *bench, a asker) (nornv1.ErrorKind, bool) { return b.complete(a).GetError().GetKind(), true },
}

// TestWhoMaySayWhatOfAClaim: guarantee 1, and the table of the package comment, for the sole member
// of a cohort.
func TestWhoMaySayWhatOfAClaim(t *testing.T) {
	order := []string{"renew", "fail", "release", "update", "complete"}
	for _, c := range []struct {
		what string
		by   asker
		do   func(*bench)
		want [5]nornv1.ErrorKind
	}{
		{"its holder", holder, nil, [5]nornv1.ErrorKind{}},
		{"its principal, who names no session", asker{"alice", "", 0}, nil, [5]nornv1.ErrorKind{}},
		{"nobody has to show who it is", asker{"", "w", 1}, nil, [5]nornv1.ErrorKind{}},
		{"another principal", asker{"bob", "w", 1}, nil, [5]nornv1.ErrorKind{lost, lost, lost, lost, 0}},
		{"another session", asker{"alice", "w", 2}, nil, [5]nornv1.ErrorKind{lost, lost, lost, 0, 0}},
		{"another worker of it", asker{"alice", "v", 1}, nil, [5]nornv1.ErrorKind{lost, lost, lost, 0, 0}},
		{"nobody leads", holder, func(b *bench) { b.v.Follow() }, [5]nornv1.ErrorKind{unavailable, unavailable, unavailable, 0, 0}},
		{"its lease is over", holder, func(b *bench) { b.pass(lasts) }, [5]nornv1.ErrorKind{lost, lost, lost, 0, 0}},
		{"it is unknown", holder, func(b *bench) { b.other() }, [5]nornv1.ErrorKind{notFound, notFound, notFound, 0, 0}},
		{"it is unknown and old", holder, func(b *bench) { b.other(); b.pass(2 * grace) }, [5]nornv1.ErrorKind{notFound, notFound, notFound, notFound, notFound}},
		{"it is another claim", holder, func(b *bench) { b.token++ }, [5]nornv1.ErrorKind{lost, lost, lost, 0, 0}},
		{"it is none", holder, func(b *bench) { b.token = 0 }, [5]nornv1.ErrorKind{invalid, invalid, invalid, invalid, invalid}},
		{"its partition is being deleted", holder, func(b *bench) { b.v.Follow(); b.View.Dropping[0] = true }, [5]nornv1.ErrorKind{unavailable, unavailable, unavailable, unavailable, unavailable}},
		{"the clock was set", holder, func(b *bench) { b.Standing.Clocks.Doubt[0] = true }, [5]nornv1.ErrorKind{unavailable, 0, 0, 0, 0}},
	} {
		for i, name := range order {
			b := newBench(t, 1)
			if c.do != nil {
				c.do(b)
			}
			if got, answered := verbs[name](b, c.by); got != c.want[i] || !answered {
				t.Errorf("%s, %s: %v, want %v; answered: %t", c.what, name, got, c.want[i], answered)
			}
		}
	}
}

// TestAClaimIsLostOnlyIfNobodyCanHaveRenewedIt: guarantee 2, where others may lead.
func TestAClaimIsLostOnlyIfNobodyCanHaveRenewedIt(t *testing.T) {
	for _, name := range []string{"renew", "fail", "release"} {
		for _, c := range []struct {
			what string
			do   func(*bench)
			want nornv1.ErrorKind
			asks bool
		}{
			{"its lease is over", func(b *bench) { b.pass(lasts) }, unavailable, true},
			{"it is of a later epoch", func(b *bench) { b.token = (epoch + 1) << 32 }, unavailable, false},
			{"it was never granted", func(b *bench) { b.token++ }, lost, false},
			{"it has ended", func(b *bench) { b.complete(holder) }, lost, false},
		} {
			b := newBench(t, 3)
			c.do(b)
			got, answered := verbs[name](b, holder)
			if asks := b.Leases.AskDue() != clock.Never; got != c.want || !answered || asks != c.asks {
				t.Errorf("%s, %s: %v, want %v; a majority is asked who leads: %t", c.what, name, got, c.want, asks)
			}
			if !c.asks {
				continue
			}
			b.pass(time.Millisecond)
			b.Leases.Ask(b.now)
			b.answer(0)
			if got, _ := verbs[name](b, holder); got != lost {
				t.Errorf("%s, %s, and a majority says that nobody else has led since: %v", c.what, name, got)
			}
		}
	}
}

// answer has so many of the others take what they were last asked to take, after so many who refuse.
func (b *bench) answer(refuse int) {
	early := b.Round.Ready.Early
	asked := early[len(early)-1].Message.(*message.Claims)
	for n := range refuse {
		b.Leases.Taken(b.now, member(byte(2-n)), &message.ClaimsTaken{Round: asked.Round, Parts: []message.PartTaken{{No: true}}})
	}
	if refuse < 2 {
		b.Leases.Taken(b.now, member(1), &message.ClaimsTaken{Round: asked.Round, Parts: []message.PartTaken{{}}})
	}
}

// TestARenewalAndAReleaseAreToldOnceAMajorityHasThem: guarantee 3, and that an answer says of those
// that no majority has that their effect is unknown.
func TestARenewalAndAReleaseAreToldOnceAMajorityHasThem(t *testing.T) {
	for _, name := range []string{"renew", "release"} {
		for what, c := range map[string]struct {
			then func(*bench)
			want nornv1.ErrorKind
		}{
			"one other has it":       {func(b *bench) { b.answer(0) }, 0},
			"one other refuses":      {func(b *bench) { b.answer(1) }, 0},
			"all others refuse":      {func(b *bench) { b.answer(2) }, unavailable},
			"nobody answers":         {func(b *bench) { b.pass(lease.Timeout); b.Leases.Expire(b.now) }, unavailable},
			"its sender gives it up": {func(b *bench) { b.Pending.Cancel(b.request(holder).From); b.answer(0) }, cancelled},
			"another one leads":      {func(b *bench) { b.Leases.Stop(0) }, unavailable},
		} {
			b := newBench(t, 3)
			if _, answered := verbs[name](b, holder); answered {
				t.Errorf("%s is answered though nobody else has it", name)
			}
			if b.Leases.Send(b.now); len(b.Round.Ready.Early) != 2 {
				t.Errorf("%s is sent to %d others", name, len(b.Round.Ready.Early))
			}
			c.then(b)
			got, answered := b.deferred(nil, nil)
			if got != c.want || !answered || len(b.Round.Ready.Replies) != 1 {
				t.Errorf("%s, %s: %v, want %v; it is answered %d times", name, what, got, c.want, len(b.Round.Ready.Replies))
			}
		}
		if b := newBench(t, 1); b.Round.Take().Round == 0 {
			t.Fatal("no round")
		} else if _, answered := verbs[name](b, holder); !answered {
			t.Errorf("%s waits though there is nobody else", name)
		}
	}
}

// TestTheSameRequestTwiceIsOne: guarantee 4 of a completion, and that a failure and a release that
// were not answered may be sent again.
func TestTheSameRequestTwiceIsOne(t *testing.T) {
	b := newBench(t, 1)
	first, second := b.complete(holder), b.complete(asker{"bob", "v", 2})
	if b.Completed != 1 || first.GetReceipt().GetExisted() || !second.GetReceipt().GetExisted() {
		t.Errorf("%d are counted: %v, then %v", b.Completed, first, second)
	}
	for _, name := range []string{"fail", "release"} {
		b := newBench(t, 1)
		verbs[name](b, holder)
		if kind, answered := verbs[name](b, holder); kind != 0 || !answered || b.Failed+b.Released != 1 {
			t.Errorf("%s a second time: %v; %d are counted", name, kind, b.Failed+b.Released)
		}
	}
}

// TestACompletionIsTakenWhateverBecameOfItsClaim: guarantee 4, but for what was collected with
// another end.
func TestACompletionIsTakenWhateverBecameOfItsClaim(t *testing.T) {
	stone := func(s crdt.State) func(*bench) {
		return func(b *bench) {
			if _, err := vnode.Merge(b.v, b.Round.Tx, []crdt.Fact{crdt.Tombstone{Outcome: s, At: 1, Collected: 2}.Fact(b.task)}, b.now); err != nil {
				panic(err)
			}
		}
	}
	for what, c := range map[string]struct {
		do    func(*bench)
		want  nornv1.ErrorKind
		state nornv1.State
	}{
		"nobody leads":               {func(b *bench) { b.v.Follow() }, 0, 0},
		"it has failed":              {func(b *bench) { verbs["fail"](b, holder) }, 0, 0},
		"it was given back":          {func(b *bench) { verbs["release"](b, holder) }, 0, 0},
		"collected as completed":     {stone(crdt.StateCompleted), 0, 0},
		"collected as dead":          {stone(crdt.StateDead), lost, nornv1.State_STATE_DEAD},
		"unknown, old, nobody leads": {func(b *bench) { b.other(); b.pass(2 * grace); b.v.Follow() }, unavailable, 0},
	} {
		b := newBench(t, 3)
		c.do(b)
		res := b.complete(asker{"bob", "", 0})
		if kind := res.GetError().GetKind(); kind != c.want || res.GetState() != c.state {
			t.Errorf("%s: %v in state %v, want %v in %v", what, kind, res.GetState(), c.want, c.state)
		}
		if c.want == 0 && b.StateOf(b.task) != nornv1.State_STATE_COMPLETED {
			t.Errorf("%s: the task is %v", what, b.StateOf(b.task))
		}
	}
}
