package core

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// holders is the number of nodes with a claim on their disks.
func (r *trio) holders(task id.ID, token uint64) (n int) {
	r.t.Helper()
	for _, o := range r.peers {
		d, err := vnode.ReadTask(o.store.Crash(0), ring.Of(task, testPartitions), task, vnode.ReadOptions{})
		r.check(err)
		for i := range d.Claims {
			if d.Claims[i].Token == token && d.Claims[i].Outcome == claim.Active {
				n++
			}
		}
	}
	return n
}

// granted gives what a request was granted, ok when it was answered.
func (r *trio) granted(i int, from message.Origin) (grants []*nornv1.Grant, ok bool) {
	reply, ok := r.peers[i].replies[from]
	if !ok || reply.Err != nil {
		return nil, ok
	}
	return reply.Message.(*nornv1.ClaimReply).Grants, true
}

func everything(letter) bool { return true }

func isFacts(l letter) bool { _, ok := l.message.(*message.Facts); return ok }

// TestAGrantWaitsForAMajority: nobody hears of it before.
func TestAGrantWaitsForAMajority(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	from := r.send(i, claimUpTo(1))
	r.post = slices.DeleteFunc(r.post, func(l letter) bool { _, news := l.message.(*message.QueueHeads); return news })
	if _, ok := r.granted(i, from); ok || len(r.post) != 2 {
		t.Fatalf("answered: %v, %d messages", ok, len(r.post))
	}
	r.deliver(0)
	if _, ok := r.granted(i, from); ok {
		t.Fatal("answered before anybody has said that it holds the claim")
	}
	r.deliver(len(r.post) - 1)
	grants, _ := r.granted(i, from)
	if len(grants) != 1 || r.holders(task, grants[0].Token) != 2 {
		t.Fatalf("%v", grants)
	}
}

// TestWhatHasEndedIsNotHandedOut: a claim ends at its leader before it has reached its
// majority, here by a cancellation. Of one that has lapsed there, as by a clock that runs
// ahead, the task may have been granted anew (track record).
func TestWhatHasEndedIsNotHandedOut(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	from := r.send(i, claimUpTo(1))
	r.send(i, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	r.settle()
	r.live(5*time.Second, 250*time.Millisecond, nothing)
	if grants, _ := r.granted(i, from); len(grants) > 0 {
		t.Errorf("handed out: %v", grants)
	}
}

// TestWhoseClockIsOffHoldsNoClaims: it counts in no majority of a grant (design 7.3).
func TestWhoseClockIsOffHoldsNoClaims(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	from := r.send(i, claimUpTo(1))
	r.post = slices.DeleteFunc(r.post, func(l letter) bool { _, news := l.message.(*message.QueueHeads); return news })
	off := r.post[0].to
	r.peers[off].core.standing.Clocks.Bad[ring.Of(task, testPartitions)] = true
	r.deliver(0)
	r.deliver(len(r.post) - 1)
	if grants, ok := r.granted(i, from); ok {
		t.Fatalf("%v was granted with the vote of a node whose clock is off", grants)
	}
	r.settle()
	grants, _ := r.granted(i, from)
	if len(grants) != 1 || r.holders(task, grants[0].Token) != 2 {
		t.Fatalf("%v", grants)
	}
}

// TestAGrantWithoutAMajorityIsFreeAgain: it is never handed out, and the task is
// granted once the others answer.
func TestAGrantWithoutAMajorityIsFreeAgain(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	from := r.send(i, claimUpTo(1))
	r.live(5*time.Second, 100*time.Millisecond, everything)
	if grants, _ := r.granted(i, from); len(grants) != 0 {
		t.Fatalf("granted by one of three: %v", grants)
	}
	if r.peers[i].core.Stats().Passed == 0 {
		t.Fatal("nothing was taken back")
	}
	r.live(5*time.Second, 100*time.Millisecond, nothing)
	grants, ok := r.granted(i, from)
	if !ok {
		t.Fatal("never answered")
	}
	if len(grants) == 0 { // it had been sent away: the next one gets the task
		grants = ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants
	}
	if len(grants) != 1 || parse(t, grants[0].Task.Id) != task || r.holders(task, grants[0].Token) < 2 {
		t.Fatalf("%v", grants)
	}
	for _, o := range r.peers {
		if n := o.core.vnodes.Claimed(); n > 1 {
			t.Errorf("%s counts %d claims", o.self.Node, n)
		}
	}
	r.audit()
}

// ended gives the error that a renewal or release was answered with, ok when it
// was answered.
func (r *trio) ended(i int, from message.Origin) (e *nornv1.Error, ok bool) {
	r.t.Helper()
	reply, ok := r.peers[i].replies[from]
	if !ok {
		return nil, false
	}
	if reply.Err != nil {
		r.t.Fatal(reply.Err)
	}
	switch m := reply.Message.(type) {
	case *nornv1.RenewReply:
		return m.Results[0].Error, true
	case *nornv1.WriteReply:
		return m.Results[0].Error, true
	}
	r.t.Fatalf("%T", reply.Message)
	return nil, false
}

// TestRepairSpreadsNoClaims: what a leader alone has written is no claim to anybody
// else, however long the replicas compare what they have; nobody is told of it.
func TestRepairSpreadsNoClaims(t *testing.T) {
	r := newRepairingTrio(t, 100*time.Millisecond)
	task := r.put(0, 1)
	i := r.leader(1)
	from := r.send(i, claimUpTo(1))
	compared := 0
	r.live(lease.Timeout-100*time.Millisecond, 50*time.Millisecond, func(l letter) bool {
		if ofRepair(l.message) {
			compared++
		}
		_, is := l.message.(*message.Claims)
		return is
	})
	if grants, _ := r.granted(i, from); len(grants) != 0 {
		t.Fatalf("granted by one of three: %v", grants)
	}
	for n, o := range r.peers {
		d, err := vnode.ReadTask(o.store, ring.Of(task, testPartitions), task, vnode.ReadOptions{})
		r.check(err)
		if held := len(d.Claims) > 0; held != (n == i) {
			t.Errorf("node %d, leader %v, has a claim: %v", n+1, n == i, held)
		}
	}
	if compared < 10 {
		t.Fatalf("%d messages of repair: nothing was compared", compared)
	}
}

// TestRenewalsAndReleasesWaitForAMajority: and without one it is not known what
// came of them.
func TestRenewalsAndReleasesWaitForAMajority(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	claims := refOf(task, ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0].Token)
	for _, m := range []gproto.Message{&nornv1.RenewRequest{Claims: claims}, &nornv1.ReleaseRequest{Claims: claims}} {
		r.settle()
		from := r.send(i, m)
		r.live(lease.Timeout+time.Second, 100*time.Millisecond, everything)
		if e, ok := r.ended(i, from); !ok || e.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN {
			t.Fatalf("%T without a majority: %v, %v", m, e, ok)
		}
		from = r.send(i, m)
		r.unmarked()
		if _, ok := r.ended(i, from); ok || len(r.post) != 2 {
			t.Fatalf("%T: answered: %v, with %d messages", m, ok, len(r.post))
		}
		r.deliver(0)
		if _, ok := r.ended(i, from); ok {
			t.Fatalf("%T was answered before anybody else", m)
		}
		r.unmarked()
		r.deliver(len(r.post) - 1)
		if e, ok := r.ended(i, from); !ok || e != nil {
			t.Fatalf("%T with a majority: %v, %v", m, e, ok)
		}
	}
	if grants := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants; len(grants) != 1 {
		t.Fatalf("released, and %v is granted", grants)
	}
}

// TestARequestThatComesOverAnotherNodeGetsTheSame: while what it was granted is on
// its way it gets that, and never more than it may have.
func TestARequestThatComesOverAnotherNodeGetsTheSame(t *testing.T) {
	for seed := range uint64(40) {
		r := newTrio(t)
		chance := rand.New(rand.NewPCG(seed, 4))
		for range 5 {
			r.put(0, 1)
		}
		m := claimUpTo(2)
		m.Session, m.RequestNo, m.WaitSeconds = make([]byte, 16), 3, 5
		m.Session[0] = 1
		froms := map[int]message.Origin{r.leader(1): r.send(r.leader(1), m)}
		for k := range 400 {
			if i := chance.IntN(3); k < 12 && froms[i] == (message.Origin{}) {
				froms[i] = r.send(i, m)
			}
			switch {
			case len(r.post) == 0:
			case chance.IntN(12) == 0:
				r.post = r.post[1:]
			default:
				r.deliver(chance.IntN(len(r.post)))
			}
		}
		r.live(10*time.Second, 250*time.Millisecond, nothing)
		got, answers := map[string]uint64{}, 0
		for i, from := range froms {
			grants, ok := r.granted(i, from)
			if !ok {
				t.Errorf("seed %d: no answer through node %d", seed, i+1)
			}
			if len(grants) > 0 {
				answers++
			}
			for _, g := range grants {
				if token, twice := got[g.Task.Id]; twice && token != g.Token {
					t.Errorf("seed %d: %s was granted twice", seed, g.Task.Id)
				}
				got[g.Task.Id] = g.Token
			}
		}
		if len(got) > 2 || answers == 0 && r.peers[r.leader(1)].core.vnodes.Claimed() > 0 {
			t.Errorf("seed %d: %d answers with %v, %d claims are held", seed, answers, got, r.peers[r.leader(1)].core.vnodes.Claimed())
		}
		r.audit()
	}
}

// TestWhatIsCompletedIsNotGrantedAgain: a leader that has not heard of a
// completion which a majority has on disk learns of it from those who refuse.
func TestWhatIsCompletedIsNotGrantedAgain(t *testing.T) {
	for _, dies := range []bool{false, true} {
		r := newTrio(t)
		task := r.put(0, 1)
		i := r.leader(1)
		token := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0].Token
		toLeader := func(l letter) bool { return l.to == i && isFacts(l) }
		from := r.send((i+1)%3, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: token, AutoSeq: true}}})
		r.settleBut(toLeader)
		if e, ok := r.ended((i+1)%3, from); !ok || e != nil {
			t.Fatalf("not completed: %v, %v", e, ok)
		}
		through := i
		if dies {
			r.kill(i)
			r.elect()
			through = (i + 2) % 3
		}
		for range 60 {
			r.live(time.Second, 250*time.Millisecond, toLeader)
			from := r.send(through, claimUpTo(1))
			r.settleBut(toLeader)
			r.live(500*time.Millisecond, 250*time.Millisecond, toLeader)
			if grants, _ := r.granted(through, from); len(grants) != 0 {
				t.Fatalf("a completed task was granted: %v", grants)
			}
		}
		if !dies && r.peers[i].core.Stats().Passed == 0 {
			t.Error("the leader has not tried")
		}
		if got := ask[*nornv1.GetReply](r, through, &nornv1.GetRequest{Id: task.Bytes()}).Task; got.State != nornv1.State_STATE_COMPLETED {
			t.Errorf("it is %v", got.State)
		}
		r.audit()
	}
}

// TestAClaimThatTheLeaderDoesNotHoldEnds: a member that holds one which never
// reached its majority asks when it has lapsed there.
func TestAClaimThatTheLeaderDoesNotHoldEnds(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	j, epoch := (i+1)%3, r.state().Cells[1].Epoch
	held := vnode.Held{Task: task, Record: claim.Record{
		Token: epoch<<32 | 7777, Worker: "w", Start: r.now.Wall, End: r.now.Wall + int64(leaseTime), Lease: leaseTime, Outcome: claim.Active,
	}}
	r.say(i, j, &message.Claims{Round: 1, Parts: []message.PartClaims{{Partition: 1, Epoch: epoch, Claims: vnode.AppendHeld(nil, []vnode.Held{held})}}})
	r.settle()
	claims := func() int { return r.peers[j].core.vnodes.See(1).Claimed() }
	if claims() != 1 {
		t.Fatal("the claim was not kept")
	}
	asked := 0
	r.live(90*time.Second, time.Second, func(l letter) bool {
		_, ok := l.message.(*message.AskOrphans)
		if ok {
			asked++
			if r.now.Wall < held.Record.End {
				t.Error("it asks before the claim has lapsed")
			}
		}
		return ok
	})
	if claims() != 1 || asked == 0 {
		t.Fatalf("%d claims after %d questions that got lost", claims(), asked)
	}
	r.live(3*lease.StuckEvery, time.Second, nothing)
	if claims() != 0 {
		t.Fatal("the claim stays for ever")
	}
	r.audit()
}

// TestARefusedGrantIsNotTriedWithoutEnd: members that refuse without a reason that
// passes are not asked as fast as they answer.
func TestARefusedGrantIsNotTriedWithoutEnd(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	i := r.leader(1)
	r.send(i, claimUpTo(1))
	now, n := r.now, 0
	for k := 0; len(r.post) > 0 && k < 3000; k++ {
		if _, ok := r.post[0].message.(*message.Claims); ok {
			n++
		}
		if r.post[0].to != i {
			r.now.Wall += int64(time.Minute)
		}
		r.deliver(0)
		r.now = now
	}
	if n > 20 {
		t.Fatalf("%d messages in no time", n)
	}
}

// TestARequestWhoseTimeIsOverIsGrantedNothing: its client has given up when the first
// grant turns out to have reached no majority; another one may have the task.
func TestARequestWhoseTimeIsOverIsGrantedNothing(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	from := message.Origin{Conn: 2, Request: 1}
	r.check(r.peers[i].core.Step(r.now, &message.Request{From: from, Body: claimUpTo(1), Received: r.now.Mono, Deadline: r.now.Add(time.Second).Mono}))
	r.turn(i)
	r.live(2500*time.Millisecond, 100*time.Millisecond, func(l letter) bool { _, is := l.message.(*message.Claims); return is })
	r.live(time.Second, 100*time.Millisecond, nothing)
	if grants, ok := r.granted(i, from); !ok || len(grants) != 0 {
		t.Fatalf("granted %v to nobody, answered: %t", grants, ok)
	}
	if grants := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants; len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("another one is granted %v", grants)
	}
}

// TestARequestWithoutAMajorityIsToldSo: it does not wait and has no deadline, and was
// tried for ever; here and through another node it hears that there is work and no
// majority, and who asks when there is one gets the task.
func TestARequestWithoutAMajorityIsToldSo(t *testing.T) {
	for _, via := range []int{0, 1} {
		r := newTrio(t)
		task := r.put(0, 1)
		leader := r.leader(1)
		from := r.send((leader+via)%3, claimUpTo(1))
		tries := 0
		r.live(2*dispatch.GrantPatience, 100*time.Millisecond, func(l letter) bool {
			_, is := l.message.(*message.Claims)
			if is {
				tries++
			}
			return is
		})
		reply, ok := r.peers[(leader+via)%3].replies[from]
		if !ok || reply.Err == nil {
			t.Fatalf("via %d: %v, %t", via, reply.Message, ok)
		}
		if e := reply.Err; e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Guarantee != "exclusive claims" || e.RetryAfter == 0 || e.Effect != nornv1.Effect_EFFECT_NONE {
			t.Errorf("via %d: %+v", via, e)
		}
		if tries < 4 { // two messages each
			t.Errorf("via %d: %d messages", via, tries)
		}
		r.live(time.Second, 100*time.Millisecond, nothing)
		if grants := ask[*nornv1.ClaimReply](r, leader, claimUpTo(1)).Grants; len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
			t.Errorf("via %d: the next one is granted %v", via, grants)
		}
		r.audit()
	}
}

// TestALimitOfClaimsIsSaid: so many tasks of a partition, or of a node, are under a claim
// that nothing more is granted. That is counted, and told to who asks for the reason.
func TestALimitOfClaimsIsSaid(t *testing.T) {
	for _, what := range []string{"partition", "node"} {
		r := newTrio(t)
		for i := range r.peers {
			r.kill(i)
		}
		r.beside = func(c *Config) {
			if c.PartClaims = 2; what == "node" {
				c.PartClaims, c.MaxClaims = 0, 2
			}
		}
		for i := range r.peers {
			r.open(i)
		}
		r.elect()
		var last id.ID
		for range 3 {
			last = r.put(1, 1)
		}
		i := r.leader(1)
		limited := func() bool {
			e := ask[*nornv1.ExplainReply](r, i, &nornv1.ExplainRequest{Id: last.Bytes()})
			n := slices.IndexFunc(e.Reasons, func(r *nornv1.Reason) bool { return r.Kind == nornv1.ReasonKind_REASON_KIND_CLAIM_LIMIT })
			if n >= 0 && (e.Reasons[n].Count != 2 || !strings.Contains(e.Reasons[n].Text, "limit")) {
				t.Errorf("%s: %v", what, e.Reasons[n])
			}
			return n >= 0
		}
		if full := r.peers[i].core.Stats().Full; full != 0 || limited() {
			t.Errorf("%s: full before anything is granted: %d", what, full)
		}
		g := ask[*nornv1.ClaimReply](r, i, claimUpTo(2)).Grants
		want := 0
		if what == "partition" {
			want = 1
		}
		if full := r.peers[i].core.Stats().Full; len(g) != 2 || full != want || !limited() {
			t.Errorf("%s: after %d grants %d partitions are full", what, len(g), full)
		}
		ask[*nornv1.WriteReply](r, i, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: parse(t, g[0].Task.Id).Bytes(), Token: g[0].Token}}})
		if full := r.peers[i].core.Stats().Full; full != 0 || limited() {
			t.Errorf("%s: full after one was released: %d", what, full)
		}
	}
}

// TestWhatAWorkerHasEndedIsNotReleased (seed 215 of fierce clusters): a grant reached no
// majority, and the same request again got it, and its worker has completed the task before
// the first round was given up. Whether the partition grants again is not asked with a
// release of that claim: a member that has not heard of the completion would show it as
// given back for ever.
func TestWhatAWorkerHasEndedIsNotReleased(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	deaf := (i + 1) % 3
	r.send(i, waiting60(7))
	r.settleBut(everything) // nobody hears of the grant
	r.live(lease.Timeout/2, 50*time.Millisecond, everything)
	again := message.Origin{Conn: 2, Request: 1}
	r.check(r.peers[i].core.Step(r.now, &message.Request{From: again, Body: waiting60(7), Received: r.now.Mono}))
	r.turn(i)
	r.settle()
	grants, _ := r.granted(i, again)
	if len(grants) != 1 {
		t.Fatalf("granted %v to the same request again", grants)
	}
	token := grants[0].Token
	r.send(i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: token}}})
	completion := func(l letter) bool { return l.to == deaf && isFacts(l) }
	r.settleBut(completion)
	r.live(2*lease.Timeout, 50*time.Millisecond, completion)
	d, err := vnode.ReadTask(r.peers[deaf].store, 1, task, vnode.ReadOptions{})
	r.check(err)
	if d.State == crdt.StateCompleted || len(d.Claims) != 1 || d.Claims[0].Outcome != claim.Active {
		t.Fatalf("whoever has not heard of the completion shows %v, %+v", d.State, d.Claims)
	}
}

// TestExplainTellsThatNoMajorityTakesClaims: a task is ready and a worker asks, and nothing
// held it back, by what each node explained. Once a majority takes claims that is so.
func TestExplainTellsThatNoMajorityTakesClaims(t *testing.T) {
	for via := range 3 {
		r := newTrio(t)
		task, i := r.put(0, 1), r.leader(1)
		told := func(fails bool, want int) {
			t.Helper()
			r.live(2*time.Second, 100*time.Millisecond, func(l letter) bool { return fails && isClaims(l) })
			from, reasons := r.send((i+via)%3, &nornv1.ExplainRequest{Id: task.Bytes()}), 0
			r.live(10*time.Millisecond, 10*time.Millisecond, func(l letter) bool { return fails && isClaims(l) })
			e, ok := r.peers[(i+via)%3].replies[from].Message.(*nornv1.ExplainReply)
			for _, reason := range e.GetReasons() {
				if reason.Kind == nornv1.ReasonKind_REASON_KIND_NO_MAJORITY && strings.Contains(reason.Text, "majority") {
					reasons++
				}
			}
			if !ok || e.State != nornv1.State_STATE_READY || reasons != want {
				t.Errorf("via %d, failing %t: %v", via, fails, e)
			}
		}
		told(false, 0)
		from := r.postponed(i, waiting60(7))
		told(true, 1)
		r.check(r.peers[i].core.Step(r.clock(i), message.Cancel{From: from}))
		r.turn(i)
		told(false, 0)
	}
}
