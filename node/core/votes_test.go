package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// claims asks a node to keep claims of a partition as the leader of an epoch, and
// gives its answer.
func (r *trio) claims(from, to int, p ring.Partition, epoch uint64, all ...vnode.Held) message.PartTaken {
	r.t.Helper()
	r.post = nil
	r.say(from, to, &message.Claims{Round: 99, Parts: []message.PartClaims{{Partition: p, Epoch: epoch, Claims: vnode.AppendHeld(nil, all)}}})
	for _, l := range r.post {
		if m, ok := l.message.(*message.ClaimsTaken); ok && l.from == to {
			return m.Parts[0]
		}
	}
	r.t.Fatal("no answer")
	return message.PartTaken{}
}

// heldFrom is a grant that starts at a wall ns.
func heldFrom(task id.ID, token uint64, start int64) vnode.Held {
	return vnode.Held{Task: task, Record: claim.Record{Token: token, Worker: "w", Start: start, End: start + int64(leaseTime), Lease: leaseTime}}
}

// TestThePromiseToALeaderSurvivesACrash: whoever has taken a leader's claims, the
// union of a candidate, or its word on what it does not hold, takes nothing of an
// earlier epoch any more, and has it on disk before it says so.
func TestThePromiseToALeaderSurvivesACrash(t *testing.T) {
	const epoch = 50
	for name, m := range map[string]message.PeerMessage{
		"claims": &message.Claims{Round: 1, Parts: []message.PartClaims{{Partition: 1, Epoch: epoch, Claims: vnode.AppendHeld(nil, nil)}}},
		"push":   &message.Pushes{Pushes: []message.Pushed{{Partition: 1, Epoch: epoch, Nonce: 7, Claims: vnode.AppendHeld(nil, nil)}}},
		"unheld": &message.NotHeld{Parts: []message.PartClaims{{Partition: 1, Epoch: epoch, Claims: vnode.AppendHeld(nil, nil)}}},
	} {
		r := newTrio(t)
		i := r.leader(1)
		j := (i + 1) % 3
		r.say((i+2)%3, j, m)
		r.kill(j)
		r.open(j)
		if got := r.peers[j].core.acceptors.All[1].Promise; got != epoch {
			t.Errorf("%s: after a crash %d is promised, not %d", name, got, epoch)
		}
	}
}

// TestALeaderThatHearsOfALaterOneLeadsNoMore: by its claims, or by a candidate's push.
func TestALeaderThatHearsOfALaterOneLeadsNoMore(t *testing.T) {
	for name, m := range map[string]func(epoch uint64) message.PeerMessage{
		"claims": func(e uint64) message.PeerMessage {
			return &message.Claims{Round: 1, Parts: []message.PartClaims{{Partition: 1, Epoch: e, Claims: vnode.AppendHeld(nil, nil)}}}
		},
		"push": func(e uint64) message.PeerMessage {
			return &message.Pushes{Pushes: []message.Pushed{{Partition: 1, Epoch: e, Nonce: 7, Claims: vnode.AppendHeld(nil, nil)}}}
		},
	} {
		r := newTrio(t)
		i := r.leader(1)
		c := r.peers[i].core
		r.check(c.Step(r.now, &message.FromPeer{From: r.peers[(i+1)%3].self, Message: m(c.vnodes.See(1).Leading() + 1)}))
		if n := c.vnodes.See(1).Leading(); n != 0 {
			t.Errorf("%s: it goes on in epoch %d", name, n)
		}
	}
}

// TestWhoIsNoMemberHoldsNoClaims: it would delete them with the partition.
func TestWhoIsNoMemberHoldsNoClaims(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	out := (i + 1) % 3
	cell := r.state().Cells[1]
	next := register.Cell{Epoch: cell.Epoch + 1, Leader: cell.Leader, Nonce: r.rand.Uint64()}
	next.Cohort = slices.DeleteFunc(slices.Clone(cell.Cohort), func(m register.Member) bool { return m == r.peers[out].self })
	r.register.Do(register.Request{Changes: []register.Change{{Partition: 1, Old: cell, New: next}}}, func(register.Result) {})
	r.tell()
	for _, epoch := range []uint64{cell.Epoch, next.Epoch} {
		if got := r.claims(i, out, 1, epoch, heldFrom(r.at(1), epoch<<32|900, r.now.Wall)); !got.No {
			t.Errorf("in epoch %d of %d it answers %+v", epoch, next.Epoch, got)
		}
	}
}

// TestHowFarTheStartOfAGrantMayBeOff: half of eta (design 7.3).
func TestHowFarTheStartOfAGrantMayBeOff(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	j, epoch := (i+1)%3, r.state().Cells[1].Epoch
	for n, c := range []struct {
		off     time.Duration
		refused bool
	}{{eta / 2, false}, {eta/2 + 1, true}, {-eta / 2, false}, {-eta/2 - 1, true}} {
		got := r.claims(i, j, 1, epoch, heldFrom(r.at(1), epoch<<32|uint64(900+n), r.now.Wall+int64(c.off)))
		skewed := slices.ContainsFunc(got.Refused, func(x message.Refusal) bool { return x.Verdict == vnode.SkewedClock })
		if got.No || skewed != c.refused {
			t.Errorf("a grant by a clock that is %v ahead: %+v", c.off, got)
		}
	}
}

// TestAnUnconfirmedWallClockFreesNoTask: a member starts again, with a wall clock that is
// an hour ahead, and nobody has told it his time. The claim that its disk has, and whose
// worker holds it, stands in the way of the next one.
func TestAnUnconfirmedWallClockFreesNoTask(t *testing.T) {
	r := newTrio(t)
	r.wrong = map[int]time.Duration{}
	task := r.put(0, 1)
	i := r.leader(1)
	grants := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants
	r.settle()
	j := (i + 1) % 3
	r.kill(j)
	r.open(j)
	r.wrong[j] = time.Hour
	c := r.peers[j].core
	for _, m := range r.state().Cells[1].Cohort {
		c.standing.Disk.Heard(m, 0)
	}
	r.register.Do(register.Request{}, func(res register.Result) {
		r.check(c.Step(r.clock(j), message.Registered{Result: register.Result{Tag: 1, State: res.State}}))
	})
	r.turn(j)
	next := heldFrom(task, grants[0].Token+1, r.clock(j).Wall)
	r.post = nil
	r.check(c.Step(r.clock(j), &message.FromPeer{From: r.peers[i].self, Message: &message.Claims{Round: 9, Parts: []message.PartClaims{{Partition: 1, Epoch: grants[0].Token >> 32, Claims: vnode.AppendHeld(nil, []vnode.Held{next})}}}}))
	r.turn(j)
	for _, l := range r.post {
		m, ok := l.message.(*message.ClaimsTaken)
		if !ok {
			continue
		}
		if got := m.Parts[0]; got.No || len(got.Refused) != 1 || got.Refused[0].Verdict != vnode.Busy {
			t.Errorf("%+v", got)
		}
		return
	}
	t.Fatal("no answer")
}

// TestARenewalThatComesTwiceInARoundIsAnsweredTwice: one message to the others says it all.
func TestARenewalThatComesTwiceInARoundIsAnsweredTwice(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	token := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0].Token
	var asks []message.Origin
	for n := range uint64(2) {
		from := message.Origin{Conn: 7, Request: n + 1}
		r.check(r.peers[i].core.Step(r.now, &message.Request{From: from, Body: &nornv1.RenewRequest{Claims: refOf(task, token)}, Received: r.now.Mono}))
		asks = append(asks, from)
	}
	r.turn(i)
	for n, from := range asks {
		if _, ok := r.ended(i, from); ok {
			t.Errorf("number %d is answered before anybody else has it", n)
		}
	}
	r.settle()
	for n, from := range asks {
		if e, ok := r.ended(i, from); !ok || e != nil {
			t.Errorf("number %d: answered %v, %v", n, ok, e)
		}
	}
}

// TestAWriteIsAnsweredWhenItsClientGivesUp: not when its copies are given up.
func TestAWriteIsAnsweredWhenItsClientGivesUp(t *testing.T) {
	r := newTrio(t)
	s := spec("q")
	s.Id = r.at(1).Bytes()
	from := message.Origin{Conn: 7, Request: 1}
	r.check(r.peers[0].core.Step(r.now, &message.Request{From: from, Body: &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}, Received: r.now.Mono, Deadline: r.now.Mono + int64(time.Second)}))
	r.turn(0)
	r.post = nil // nobody hears of it
	w := r.peers[0].core.replication.Writes
	if next := w.Due(); next > r.now.Mono+int64(time.Second) {
		t.Errorf("it is looked at %v from now", time.Duration(next-r.now.Mono))
	}
	r.pass(time.Second)
	if res := r.result(0, from); res == nil || res.Error == nil || res.Error.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN {
		t.Errorf("after its time: %v", res)
	}
	for range 10 {
		r.post = nil
		r.pass(time.Second)
	}
	if w.Bytes != 0 || len(w.Open) != 0 {
		t.Errorf("%d writes with %d bytes are open when all were given up", len(w.Open), w.Bytes)
	}
}

// TestTooMuchWaitsForCopies: a node whose peers do not answer takes no more than so much.
func TestTooMuchWaitsForCopies(t *testing.T) {
	r := newTrio(t)
	w := r.peers[0].core.replication.Writes
	for extra, refused := range map[int]bool{0: false, 1: true} {
		w.Bytes = replication.MaxOpenBytes + extra
		from := r.enqueue(0, r.at(1), nil)
		e := r.peers[0].replies[from].Err
		if is := e != nil && e.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && e.RetryAfter > 0; is != refused {
			t.Errorf("with %d bytes over: %v", extra, e)
		}
		r.settle()
	}
}

// TestALoneKeeperThatHasVotedForCompany: a write has to reach the cohort that it has
// voted for, too (design 5).
func TestALoneKeeperThatHasVotedForCompany(t *testing.T) {
	r := newCohorts(t, 3, 0, func(p int) []int { return []int{p % 3} })
	const p, keeper, newcomer = ring.Partition(1), 1, 2
	cell := r.state().Cells[p]
	b := message.Ballot{Partition: p, Epoch: cell.Epoch + 40, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: []register.Member{r.peers[keeper].self, r.peers[newcomer].self}, Transfer: true}
	r.say(newcomer, keeper, &message.Ballots{Ballots: []message.Ballot{b}})
	if len(r.peers[keeper].core.acceptors.All[p].Open) != 1 {
		t.Fatal("it has not voted")
	}
	r.post = nil
	task := r.at(p)
	from := r.enqueue(keeper, task, nil)
	if res := r.result(keeper, from); res != nil {
		t.Fatalf("acknowledged though the other one has not got it: %v", res)
	}
	r.settle()
	if res := r.result(keeper, from); res.GetReceipt() == nil || r.copies(task) != 2 {
		t.Fatalf("%v, %d copies", res, r.copies(task))
	}
}

// TestWhatIsLeftOfACollectedTaskIsSentToo: a task is enqueued again that only this node
// knows to have been collected. That it has been is no answer before others have that.
func TestWhatIsLeftOfACollectedTaskIsSentToo(t *testing.T) {
	r := newTrio(t)
	task := r.at(1)
	stone := crdt.Tombstone{Outcome: crdt.StateCompleted, At: r.now.Wall, Collected: r.now.Wall}
	r.say(1, 0, &message.Facts{Write: 1, Parts: []message.PartFacts{{Partition: 1, Epoch: r.state().Cells[1].Epoch, Facts: []crdt.Fact{stone.Fact(task)}}}})
	r.post = nil
	from := r.enqueue(0, task, nil)
	if res := r.result(0, from); res != nil {
		t.Fatalf("answered by one of three: %v", res)
	}
	r.settle()
	if res := r.result(0, from); !res.GetReceipt().GetExisted() || r.copies(task) != 3 {
		t.Fatalf("%v, %d know of it", res, r.copies(task))
	}
}

// pushed hands a node a candidate's claims, and tells whether it takes them.
func (r *trio) pushed(from, to int, epoch, nonce uint64) bool {
	r.t.Helper()
	r.post = nil
	r.say(from, to, &message.Pushes{Pushes: []message.Pushed{{Partition: 1, Epoch: epoch, Nonce: nonce, Claims: vnode.AppendHeld(nil, nil)}}})
	for _, l := range r.post {
		if m, ok := l.message.(*message.PushesTaken); ok && l.from == to {
			return m.Votes[0].Granted
		}
	}
	r.t.Fatal("no answer")
	return false
}

// TestWhoTakesACandidatesClaims: not who has given this epoch's vote to another one,
// judges leases wrongly, may have forgotten something, or is about to delete all of it.
func TestWhoTakesACandidatesClaims(t *testing.T) {
	const epoch = 50
	for name, c := range map[string]struct {
		spoil func(r *trio, c *Core)
		taken bool
	}{
		"nothing is wrong": {func(*trio, *Core) {}, true},
		"it has voted for the candidate": {func(_ *trio, c *Core) {
			c.acceptors.All[1].Promise, c.acceptors.All[1].Nonce = epoch, 7
		}, true},
		"it has voted for another one": {func(_ *trio, c *Core) {
			c.acceptors.All[1].Promise, c.acceptors.All[1].Nonce = epoch, 8
		}, false},
		"it has promised more":           {func(_ *trio, c *Core) { c.acceptors.All[1].Promise = epoch + 1 }, false},
		"its clock is off":               {func(_ *trio, c *Core) { c.standing.Clocks.Bad[1] = true }, false},
		"it may have forgotten":          {func(_ *trio, c *Core) { c.view.Current = false }, false},
		"the partition is being deleted": {func(_ *trio, c *Core) { c.view.Dropping[1] = true }, false},
	} {
		r := newTrio(t)
		i := r.leader(1)
		j := (i + 1) % 3
		c.spoil(r, r.peers[j].core)
		if got := r.pushed((i+2)%3, j, epoch, 7); got != c.taken {
			t.Errorf("%s: taken: %v", name, got)
		}
	}
}

// TestWhoStandsWhenAsked: not whose clock is off, who may have forgotten something or is
// about to stop, nor for a cell that is another one by now.
func TestWhoStandsWhenAsked(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(r *trio, j int, s *message.Stand)
		stands bool
	}{
		"nothing is wrong":      {func(*trio, int, *message.Stand) {}, true},
		"its clock is off":      {func(r *trio, j int, _ *message.Stand) { r.peers[j].core.standing.Clocks.Bad[1] = true }, false},
		"it may have forgotten": {func(r *trio, j int, _ *message.Stand) { r.peers[j].core.view.Current = false }, false},
		"it is about to stop": {func(r *trio, j int, _ *message.Stand) {
			r.check(r.peers[j].core.Step(r.now, message.Drain{}))
			r.turn(j)
		}, false},
		"an older cell":     {func(_ *trio, _ int, s *message.Stand) { s.Epoch-- }, false},
		"another candidacy": {func(_ *trio, _ int, s *message.Stand) { s.Nonce++ }, false},
		"it is to be no member": {func(r *trio, j int, s *message.Stand) {
			s.To = slices.DeleteFunc(slices.Clone(s.To), func(m register.Member) bool { return m == r.peers[j].self })
		}, false},
	} {
		r := newTrio(t)
		i, cell := r.leader(1), r.state().Cells[1]
		j := (i + 1) % 3
		s := message.Stand{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}
		c.spoil(r, j, &s)
		r.settle()
		r.say(i, j, &message.Elect{Stand: []message.Stand{s}})
		asks := slices.ContainsFunc(r.post, func(l letter) bool { _, ok := l.message.(*message.Ballots); return ok && l.from == j })
		if asks != c.stands {
			t.Errorf("%s: it stands: %v", name, asks)
		}
	}
}

// TestANamedLeaderThatDoesNotLeadSparesNobody: the register names it, and it has stepped
// down; whoever else stands is not held up by it.
func TestANamedLeaderThatDoesNotLeadSparesNobody(t *testing.T) {
	for _, leads := range []bool{true, false} {
		r := newTrio(t)
		i, cell := r.leader(1), r.state().Cells[1]
		c := r.peers[i].core
		if !leads {
			c.vnodes.Use(1).Follow()
		}
		b := message.Ballot{Partition: 1, Epoch: cell.Epoch + 9, Nonce: 7, Old: cell.Epoch, From: cell.Cohort, To: cell.Cohort, Pre: true}
		if v := (leadership.Voter{Machine: c.elector}).Vote(r.now, r.peers[(i+1)%3].self, &b); v.Granted == leads {
			t.Errorf("leads: %v, and a pre-vote is granted: %v", leads, v.Granted)
		}
	}
}

// TestWhoHasPromisedMoreDoesNotLead: while only the register can say whether it has won,
// a candidate votes for a later one. It has won, and its own copy of a claim counts in no
// majority any more.
func TestWhoHasPromisedMoreDoesNotLead(t *testing.T) {
	r := newTrio(t)
	i, cell := r.leader(1), r.state().Cells[1]
	j, k := (i+1)%3, (i+2)%3
	p := r.peers[j]
	r.say(i, j, &message.Elect{Stand: []message.Stand{{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}}})
	var commit []register.Request
	for n := 0; n < 100 && len(commit) == 0; n++ {
		for len(r.post) > 0 && r.post[0].to != j {
			r.deliver(0)
		}
		if len(r.post) == 0 {
			r.t.Fatal("it never asks the register")
		}
		l := r.post[0]
		r.post = r.post[1:]
		r.check(p.core.Step(r.now, &message.FromPeer{From: r.peers[l.from].self, Message: l.message}))
		ready, err := p.core.Ready(r.now)
		r.check(err)
		if ready.Persist != nil {
			p.store.Apply(ready.Persist)
			p.core.Recycle(ready.Persist)
			p.store.Sync()
		}
		for _, s := range slices.Concat(ready.Early, ready.Send) {
			to := slices.IndexFunc(r.peers, func(o *peer) bool { return o.self == s.To })
			r.post = append(r.post, letter{j, to, s.Message})
		}
		commit = ready.Commit
		for _, req := range ready.Register {
			r.register.Do(req, func(res register.Result) { r.check(p.core.Step(r.now, message.Registered{Result: res})) })
		}
	}
	if len(commit) != 1 || len(commit[0].Changes) != 1 {
		t.Fatalf("asked of the register: %+v", commit)
	}
	won := commit[0].Changes[0].New.Epoch
	r.say(k, j, &message.Ballots{Ballots: []message.Ballot{{Partition: 1, Epoch: won + 5, Nonce: 77, Old: cell.Epoch, From: cell.Cohort, To: cell.Cohort, Transfer: true}}})
	if got := p.core.acceptors.All[1].Promise; got != won+5 {
		t.Fatalf("it has promised %d", got)
	}
	r.register.Do(commit[0], func(res register.Result) {
		if !res.Won[0] {
			t.Fatal("the register has not taken it")
		}
		r.check(p.core.Step(r.now, message.Registered{Result: res}))
	})
	r.turn(j)
	if lead := p.core.vnodes.See(1).Leading(); lead != 0 {
		t.Errorf("it leads in epoch %d and has promised %d", lead, won+5)
	}
}

// TestAnAnswerThatFailsTakesNothingFromTheOther: a request came again before what it was
// granted had reached a majority, and the second answer has. The first one fails after
// that, and the worker goes by the second.
func TestAnAnswerThatFailsTakesNothingFromTheOther(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	i := r.leader(1)
	m := claimUpTo(1)
	m.Session, m.RequestNo = []byte("0123456789abcdef"), 3
	first := r.send(i, m)
	r.post = slices.DeleteFunc(r.post, func(l letter) bool { _, is := l.message.(*message.Claims); return is })
	r.settle()
	r.pass(100 * time.Millisecond)
	second := r.send(i, m)
	r.settle()
	grants, _ := r.granted(i, second)
	if len(grants) != 1 {
		t.Fatalf("the second one is granted %v", grants)
	}
	r.live(lease.Timeout+time.Second, 100*time.Millisecond, nothing)
	if got, ok := r.granted(i, first); !ok || len(got) != 0 {
		t.Fatalf("the first one: %v, %v", got, ok)
	}
	task := parse(t, grants[0].Task.Id)
	if n := r.holders(task, grants[0].Token); n != 3 {
		t.Errorf("%d hold the claim that its worker has heard of", n)
	}
	if res := r.renew(i, task, grants[0].Token); res.GetError() != nil {
		t.Errorf("its worker loses it: %v", res.GetError())
	}
}

// TestAPostponedRequest: what it would have been granted has reached no majority, and it
// is tried again in a moment. It may come again meanwhile, or be given up; one of them is
// granted something, and no more than that.
func TestAPostponedRequest(t *testing.T) {
	for _, givenUp := range []bool{false, true} {
		r := newTrio(t)
		for range 3 {
			r.put(0, 1)
		}
		i := r.leader(1)
		c := r.peers[i].core
		m := claimUpTo(1)
		m.Session, m.RequestNo, m.WaitSeconds = []byte("0123456789abcdef"), 3, 30
		first := r.send(i, m)
		for n := 0; n < 100 && c.dispatch.Held().Postponed == 0; n++ {
			r.pass(50 * time.Millisecond)
			r.post = nil // nobody hears of it
		}
		if c.dispatch.Held().Postponed == 0 {
			t.Fatal("it is not postponed")
		}
		again := claimUpTo(1)
		again.Session, again.RequestNo, again.WaitSeconds = m.Session, m.RequestNo, 30
		if givenUp {
			again.RequestNo, again.Unanswered = 4, []uint64{m.RequestNo}
		}
		second := r.send(i, again)
		r.live(10*time.Second, 50*time.Millisecond, nothing)
		one, ok1 := r.granted(i, first)
		two, ok2 := r.granted(i, second)
		if !ok1 || len(one) != 0 || !ok2 || len(two) != 1 {
			t.Errorf("given up: %v; the first one is granted %v (%v), the second one %v (%v)", givenUp, one, ok1, two, ok2)
		}
		if n := c.vnodes.Claimed(); n != 1 {
			t.Errorf("given up: %v; %d claims are held", givenUp, n)
		}
	}
}
