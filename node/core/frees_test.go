package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestAGrantInFlightOfADeposedLeaderIsFreedAtOnce: the members that hold it have
// told the new leader, but nobody has heard of it: the task does not wait for
// lease and buffer.
func TestAGrantInFlightOfADeposedLeaderIsFreedAtOnce(t *testing.T) {
	for _, holds := range []bool{true, false} { // whether another member has it too
		r := newTrio(t)
		task, old := r.put(0, 1), r.leader(1)
		keeps, heir := (old+1)%3, (old+2)%3
		m := claimUpTo(1)
		from := r.send(old, m)
		r.settleBut(func(l letter) bool {
			_, asks := l.message.(*message.Claims)
			_, answers := l.message.(*message.ClaimsTaken)
			return asks && (l.to == heir || !holds) || answers
		})
		r.depose(1, old, heir)
		if r.leader(1) != heir {
			t.Fatalf("node %d leads", r.leader(1)+1)
		}
		r.live(3*time.Second, 50*time.Millisecond, nothing)
		grants := ask[*nornv1.ClaimReply](r, keeps, claimUpTo(1)).Grants
		if early, ok := r.granted(old, from); ok && len(early) > 0 {
			grants = early // the request that waited has it
		}
		if len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
			t.Fatalf("another member has it %t: granted %v", holds, grants)
		}
		for i, p := range r.peers {
			if n := p.core.leases.Reclaims(); n != 0 {
				t.Errorf("node %d would free %d claims for ever", i+1, n)
			}
		}
		r.audit()
	}
}

// depose has another node lead a partition.
func (r *trio) depose(p ring.Partition, old, heir int) { r.deposeBut(p, old, heir, nothing) }

// deposeBut is the same where some messages are lost.
func (r *trio) deposeBut(p ring.Partition, old, heir int, lost func(letter) bool) {
	r.t.Helper()
	cell := r.state().Cells[p]
	r.say(old, heir, &message.Elect{Stand: []message.Stand{{Partition: p, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}}})
	r.settleBut(lost)
	r.tell()
	r.settleBut(lost)
}

// TestAGrantThatMayHaveBeenHeardIsNotFreed: the same request came again, and its
// answer has left, before a lost reply is reported over another node; whoever
// leads by then must not believe that nobody has heard of it.
func TestAGrantThatMayHaveBeenHeardIsNotFreed(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	old := r.leader(1)
	via, heir := (old+1)%3, (old+2)%3
	m := claimUpTo(1)
	m.Session, m.RequestNo = []byte("0123456789abcdef"), 7
	lost := r.send(via, m)
	r.settle()
	reply := r.peers[via].replies[lost]
	if len(reply.Grants) != 1 {
		t.Fatalf("through another node: %+v", reply)
	}
	again := ask[*nornv1.ClaimReply](r, old, m).Grants
	if len(again) != 1 {
		t.Fatalf("the same request again: %v", again)
	}
	r.depose(1, old, heir)
	r.check(r.peers[via].core.Step(r.now, message.Undelivered{Grants: reply.Grants}))
	r.turn(via)
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	if grants := ask[*nornv1.ClaimReply](r, heir, claimUpTo(1)).Grants; len(grants) != 0 {
		t.Fatalf("a task whose worker has heard of its claim is granted again: %v", grants)
	}
	r.audit()
}

// TestOnlyClaimsOfEarlierEpochsAreTakenBack: a leader knows better of its own.
func TestOnlyClaimsOfEarlierEpochsAreTakenBack(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	i := r.leader(1)
	grant := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0]
	task := parse(t, grant.Task.Id)
	word := &message.ReclaimLease{}
	for _, p := range []ring.Partition{1, 2, 9999} {
		word.Parts = append(word.Parts, message.PartClaims{Partition: p, Epoch: 1, Claims: vnode.AppendHeld(nil, lease.Releases([]message.GrantRef{{Task: task, Token: grant.Token}}))})
	}
	word.Parts = append(word.Parts, message.PartClaims{Partition: 1, Epoch: 1, Claims: []byte("no claims")})
	for j := range r.peers {
		r.say((i+1)%3, j, word)
		r.settle()
	}
	if n := r.holders(task, grant.Token); n < 2 {
		t.Fatalf("%d hold the claim", n)
	}
}

// TestAnAnswerThatComesTwiceTakesNothingBack: the client has heard of the grant by the
// first of the two.
func TestAnAnswerThatComesTwiceTakesNothingBack(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	leader := r.leader(1)
	via, twice := (leader+1)%3, 0
	from := r.send(via, claimUpTo(1))
	for len(r.post) > 0 {
		if l := r.post[0]; twice < 1 && l.to == via {
			if m, ok := l.message.(*message.Forwarded); ok && len(m.Grants) > 0 {
				r.post, twice = append(r.post, l), twice+1
			}
		}
		r.deliver(0)
	}
	grants := r.got(via, from)
	if len(grants) != 1 || twice != 1 {
		t.Fatalf("granted %v, answered twice %d times", grants, twice)
	}
	if again := ask[*nornv1.ClaimReply](r, leader, claimUpTo(1)).Grants; len(again) != 0 {
		t.Fatalf("a task that is held is granted again: %v", again)
	}
	r.audit()
}

// TestTheOnlyOneLeftRepeatsNoClaimOfALeaderBeforeIt: that one may still have its word
// on the way that surely nobody has heard of the claim. A request that came again was
// given it, and then another one.
func TestTheOnlyOneLeftRepeatsNoClaimOfALeaderBeforeIt(t *testing.T) {
	r := newTrio(t)
	for _, o := range r.peers {
		if n, ok := r.state().Find(o.self); !ok || n.Status != register.Active {
			r.set(o.self, register.Joining)
			r.set(o.self, register.Active)
		}
	}
	task, old := r.put(0, 1), r.leader(1)
	left, via := (old+1)%3, (old+2)%3
	lost := r.send(via, asking(7))
	r.settle()
	first := r.got(via, lost) // which via cannot deliver
	if len(first) != 1 {
		t.Fatalf("granted %v", first)
	}
	cell := r.state().Cells[1]
	alone := register.Cell{Epoch: cell.Epoch + 10, Nonce: 5, Cohort: []register.Member{r.peers[left].self}}
	r.register.Do(register.Request{Changes: []register.Change{{Partition: 1, Old: cell, New: alone}}}, func(res register.Result) { r.check(res.Err) })
	r.kill(left) // who starts knows which requests got the claims that it has
	r.open(left)
	r.live(3*time.Second, 100*time.Millisecond, nothing)
	if r.leader(1) != left {
		t.Fatalf("node %d leads", r.leader(1)+1)
	}
	again := ask[*nornv1.ClaimReply](r, left, asking(7)).Grants
	r.say(old, left, &message.ReclaimLease{Parts: []message.PartClaims{{Partition: 1, Epoch: r.state().Cells[1].Epoch, Claims: vnode.AppendHeld(nil, lease.Releases([]message.GrantRef{{Task: task, Token: first[0].Token}}))}}})
	r.settle()
	if other := ask[*nornv1.ClaimReply](r, left, claimUpTo(1)).Grants; len(again) != 0 || len(other) != 1 {
		t.Fatalf("the request again has %v, another one %v", again, other)
	}
}

// TestWhatALeaderReleasedInVainIsReleased: it was cut off when a member had accepted the
// grant, did not know yet that somebody else leads, and released the claim for itself.
func TestWhatALeaderReleasedInVainIsReleased(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	leader := r.leader(1)
	from := r.send(leader, claimUpTo(1))
	r.settleBut(func(l letter) bool { _, is := l.message.(*message.ClaimsTaken); return is })
	for i := range r.peers {
		r.cut[[2]int{leader, i}], r.cut[[2]int{i, leader}] = true, true
	}
	for range 25 { // before it hears that the others are out of its reach
		r.pass(100 * time.Millisecond)
		r.settle()
	}
	r.peers[leader].deaf = true
	r.live(leadership.Lonely+time.Second, 100*time.Millisecond, nothing)
	if grants, is := r.granted(leader, from); len(grants) > 0 {
		t.Fatalf("granted %v, answered: %t", grants, is)
	}
	r.elect()
	next := r.leader(1)
	if next == leader || r.peers[next].core.vnodes.See(1).Claimed() != 1 {
		t.Fatalf("node %d leads, with %d claims", next, r.peers[next].core.vnodes.See(1).Claimed())
	}
	clear(r.cut)
	r.peers[leader].deaf = false
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	if l := r.leader(1); r.peers[l].core.vnodes.See(1).Claimed() != 0 {
		t.Errorf("node %d, which leads, still has the claim two seconds after the networks are whole", l)
	}
	for i, p := range r.peers {
		if n := p.core.leases.Reclaims(); n > 0 {
			t.Errorf("node %d still tells of %d", i, n)
		}
	}
}

// TestReleasesOfAPartitionThatGrantsAgainAreTaken: what it had granted before no majority
// took anything is released with the others too, though nobody asks for tasks of it any
// more, and then there is nothing left to wake up for.
func TestReleasesOfAPartitionThatGrantsAgainAreTaken(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	r.put(0, 1)
	leader := r.leader(1)
	answers := func(l letter) bool { _, is := l.message.(*message.ClaimsTaken); return is }
	from := r.send(leader, claimUpTo(2))
	r.settleBut(answers)
	r.live(6*time.Second, 50*time.Millisecond, answers)
	m := r.peers[leader].core.leases
	if grants, is := r.granted(leader, from); !is || len(grants) > 0 || m.Reclaims() != 2 {
		t.Fatalf("answered: %t, with %v; %d releases are left", is, grants, m.Reclaims())
	}
	r.live(5*time.Second, 50*time.Millisecond, nothing)
	if m.Reclaims() > 0 {
		t.Errorf("%d releases are left", m.Reclaims())
	}
}

// TestAReleaseOfAnEarlierClaimIsTriedAgain: a leader has released what one before it had
// granted, after it was elected, so that those who voted for it were not told; and no
// majority took the release. A successor would keep the task for lease and buffer.
func TestAReleaseOfAnEarlierClaimIsTriedAgain(t *testing.T) {
	r := newTrio(t)
	task, old := r.put(0, 1), r.leader(1)
	heir := (old + 1) % 3
	grants := ask[*nornv1.ClaimReply](r, old, asking(7)).Grants
	r.depose(1, old, heir)
	if len(grants) != 1 || r.leader(1) != heir || r.holders(task, grants[0].Token) != 3 {
		t.Fatalf("node %d leads, granted %v", r.leader(1), grants)
	}
	m := asking(8, 7)
	m.Queues = nil
	r.send(heir, m)
	lost := func(l letter) bool {
		_, claims := l.message.(*message.Claims)
		_, word := l.message.(*message.AbandonClaims)
		return claims || word
	}
	r.settleBut(lost)
	r.live(dispatch.ToldFor+time.Second, 50*time.Millisecond, lost)
	if n := r.holders(task, grants[0].Token); n != 2 {
		t.Fatalf("%d hold it", n)
	}
	r.live(5*time.Second, 50*time.Millisecond, nothing)
	if n, left := r.holders(task, grants[0].Token), r.peers[heir].core.leases.Reclaims(); n != 0 || left > 0 {
		t.Errorf("%d still hold it; %d releases are left", n, left)
	}
}
