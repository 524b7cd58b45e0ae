package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestTheClockIsJudgedBeforeTheFirstVote: a node that starts may vote and lead only
// once others have told what they know of it. With the same answer it learns how
// far its clock is off, in both directions, and judges it at once: it waited for
// the next second before, and voted meanwhile.
func TestTheClockIsJudgedBeforeTheFirstVote(t *testing.T) {
	for _, off := range []time.Duration{0, -eta, eta, time.Hour} {
		r := newTrio(t).spread()
		r.kill(2)
		r.elect()
		r.open(2)
		k := r.peers[2].core.standing.Clocks
		voting := func() (n int) {
			for p := range ring.Partition(testPartitions) {
				if r.peers[2].core.standing.Disk.Trusts(p) && !k.Bad[p] {
					n++
				}
			}
			return n
		}
		r.tell()
		r.pass(2 * time.Second) // it asks for the time
		for len(r.post) > 0 {
			if m, is := r.post[0].message.(*message.Beaten); is && r.post[0].to == 2 {
				m.Received, m.Answered = m.Received-int64(off), m.Answered-int64(off)
			}
			r.deliver(0)
			if off != 0 && voting() > 0 {
				t.Fatalf("a node whose clock is %v ahead votes for %d partitions", off, voting())
			}
		}
		if off == 0 && voting() != testPartitions {
			t.Errorf("a node with a good clock votes for %d partitions", voting())
		}
	}
}

// TestElectionsEndAfterAnyDeath: whichever node dies, all partitions are led again
// within a second, and so they are where each node keeps a part of them only.
func TestElectionsEndAfterAnyDeath(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		for dead := range nodes {
			r := newCluster(t, nodes, 0)
			if nodes == 3 {
				r.spread()
			}
			r.kill(dead)
			began := r.now.Mono
			r.elect()
			if took := time.Duration(r.now.Mono - began); took > time.Second {
				t.Errorf("node %d of %d is dead: all partitions are led after %v", dead+1, nodes, took)
			}
		}
	}
}

// TestAStepOfTheClockEndsNoRecoveredClaim: a leader knows a claim by the election
// only, so that its wall clock may end it as long as others agree with that. It is
// set ahead by an hour between two beats: what they have said of it before does not
// count any more (track record, laboratory, clock-strobe, seed 11).
func TestAStepOfTheClockEndsNoRecoveredClaim(t *testing.T) {
	for _, off := range []time.Duration{eta, time.Minute, time.Hour} {
		r := newTrio(t)
		task := r.put(0, 1)
		old := r.leader(1)
		heir := (old + 1) % 3
		from := r.send(old, claimUpTo(1))
		r.settle()
		grants, _ := r.granted(old, from)
		if len(grants) != 1 {
			t.Fatalf("granted %v", grants)
		}
		r.depose(1, old, heir)
		if r.leader(1) != heir {
			t.Fatalf("node %d leads", r.leader(1)+1)
		}
		r.live(2*time.Second, 100*time.Millisecond, nothing)
		right := r.now
		r.now.Wall += int64(off + leaseTime)
		p := r.peers[heir]
		r.check(p.core.Step(r.now, message.Tick{}))
		r.turn(heir)
		r.now = right
		r.live(time.Second, 100*time.Millisecond, nothing)
		if n := r.holders(task, grants[0].Token); n != 3 {
			t.Errorf("the clock of the leader was ahead by %v of the end for a moment: %d of 3 members still know the claim", off, n)
		}
		r.audit()
	}
}

// TestAClockThatWasSetRightIsTrustedAgain: however far a clock was off, and
// whichever node's, all partitions are led soon after it was set right.
func TestAClockThatWasSetRightIsTrustedAgain(t *testing.T) {
	for _, off := range []time.Duration{time.Second, -5 * time.Second, -time.Hour, -24 * time.Hour, 24 * time.Hour} {
		for i := range 3 {
			r := newTrio(t)
			r.wrong = map[int]time.Duration{}
			r.live(5*time.Second, 200*time.Millisecond, nothing)
			r.wrong[i] = off
			r.live(10*time.Second, 200*time.Millisecond, nothing)
			if s := r.peers[i].core.Stats(); off.Abs() > eta && (s.ClockBad != testPartitions || s.ClockFault == "") {
				t.Errorf("the clock of node %d is off by %v: it says so of %d partitions, %q", i+1, off, s.ClockBad, s.ClockFault)
			}
			if s := r.peers[i].core.Stats(); off.Abs() > eta && (time.Duration(s.ClockRight)+off).Abs() > eta {
				t.Errorf("the clock of node %d is off by %v, and to be put right by %v", i+1, off, time.Duration(s.ClockRight))
			}
			clear(r.wrong)
			r.live(5*time.Second, 200*time.Millisecond, nothing)
			if s := r.peers[i].core.Stats(); s.ClockBad != 0 || s.ClockFault != "" {
				t.Errorf("the clock of node %d is good again: it says so of all but %d partitions, %q", i+1, s.ClockBad, s.ClockFault)
			}
			for p, cell := range r.state().Cells {
				led := false
				for _, o := range r.peers {
					led = led || o.self == cell.Leader && o.core.vnodes.See(ring.Partition(p)).Leading() == cell.Epoch
				}
				if !led {
					t.Errorf("the clock of node %d was off by %v: partition %d, which %s is to lead, is not led; clocks: %q", i+1, off, p, cell.Leader.Node, r.peers[i].core.standing.Clocks.Why)
				}
			}
		}
	}
}

// TestTwoWrongClocksOfFiveStopNoPartition: whose clock is off has another one lead, and that
// one's may be off, too. Each of the others is asked in its turn.
func TestTwoWrongClocksOfFiveStopNoPartition(t *testing.T) {
	for i := range 5 {
		for j := range i {
			r := newCohorts(t, 5, 0, func(int) []int { return []int{0, 1, 2, 3, 4} })
			r.wrong = map[int]time.Duration{}
			r.live(3*time.Second, 500*time.Millisecond, nothing)
			r.wrong[i], r.wrong[j] = time.Hour, -time.Hour
			r.live(40*time.Second, 500*time.Millisecond, nothing)
			for p, cell := range r.state().Cells {
				led := false
				for n, o := range r.peers {
					led = led || n != i && n != j && o.self == cell.Leader && o.core.vnodes.See(ring.Partition(p)).Leading() == cell.Epoch
				}
				if !led {
					t.Errorf("the clocks of nodes %d and %d are off: partition %d, which %s is to lead, is not led", i+1, j+1, p, cell.Leader.Node)
				}
			}
		}
	}
}

// TestANodeLeavesThoughAnotherClockIsOff: who is to lead a partition without it may be the one
// whose clock is off, and has somebody else do so.
func TestANodeLeavesThoughAnotherClockIsOff(t *testing.T) {
	for i := range 4 {
		for j := range 4 {
			if i == j {
				continue
			}
			r := newAdmins(t, 4)
			r.wrong = map[int]time.Duration{}
			r.live(3*time.Second, 500*time.Millisecond, nothing)
			r.wrong[j] = time.Hour
			r.live(10*time.Second, 500*time.Millisecond, nothing)
			r.does((i+1)%4, leave(r.peers[i].self.Node))
			for n := 0; n < 100 && r.status1(i) != register.Removed; n++ {
				r.live(time.Second, 500*time.Millisecond, nothing)
			}
			if s := r.status1(i); s != register.Removed {
				t.Errorf("the clock of node %d is off: node %d is %v", j+1, i+1, s)
				for p, cell := range r.state().Cells {
					t.Logf("partition %d: %v, led by %s, planned %v", p, cell.Cohort, cell.Leader.Node, r.peers[0].core.transfer.Driver.View().Planned(ring.Partition(p)))
				}
			}
		}
	}
}

// TestWhoGaveUpForItsClockStandsAgain: a node gives up what it leads because of its
// clock, and nobody who is asked takes over, because the request is lost. When the
// clock is right again it leads again, though nothing else happens: it looked only
// when something did (track record, laboratory, clock-jump, seed 40).
func TestWhoGaveUpForItsClockStandsAgain(t *testing.T) {
	r := newTrio(t)
	r.wrong = map[int]time.Duration{}
	old := r.leader(1)
	isElect := func(l letter) bool { _, is := l.message.(*message.Elect); return is }
	alone := func(d time.Duration) {
		for end := r.now.Add(d).Mono; r.now.Mono < end; {
			r.pass(200 * time.Millisecond)
			r.settleBut(isElect)
		}
	}
	alone(5 * time.Second)
	r.wrong[old] = -24 * time.Hour
	alone(5 * time.Second)
	if r.peers[old].core.vnodes.See(1).Leading() != 0 {
		t.Fatal("it leads with a clock that is a day off")
	}
	clear(r.wrong)
	alone(20 * time.Second)
	r.tell() // only now
	if cell := r.state().Cells[1]; r.peers[old].core.vnodes.See(1).Leading() != cell.Epoch {
		t.Errorf("nobody leads: %s is to, and its clock is right: %q", cell.Leader.Node, r.peers[old].core.standing.Clocks.Why)
	}
}

// ends gives for each node when a claim ends by what it has on disk.
func (r *trio) ends(task id.ID, token uint64) (all []int64) {
	r.t.Helper()
	for _, o := range r.peers {
		d, err := vnode.ReadTask(o.store.Crash(0), ring.Of(task, testPartitions), task, vnode.ReadOptions{})
		r.check(err)
		for i := range d.Claims {
			if d.Claims[i].Token == token && d.Claims[i].Outcome == claim.Active {
				all = append(all, d.Claims[i].End)
			}
		}
	}
	return all
}

// TestALeaderWhoseClockWasSetRenewsNothing: until the next beat, up to a second
// later, it renewed by a clock that was off by any time. Behind, such a renewal
// reached a majority and left the claim with an end that was over soon by all other
// clocks; ahead, with one in the far future (track record).
func TestALeaderWhoseClockWasSetRenewsNothing(t *testing.T) {
	for _, off := range []time.Duration{eta, -eta, time.Hour, -time.Hour} {
		r := newTrio(t)
		r.wrong = map[int]time.Duration{}
		task := r.put(0, 1)
		old := r.leader(1)
		m := claimUpTo(1)
		m.Session, m.RequestNo = []byte("0123456789abcdef"), 7
		from := r.send(old, m)
		r.settle()
		grants, _ := r.granted(old, from)
		if len(grants) != 1 {
			t.Fatalf("granted %v", grants)
		}
		token := grants[0].Token
		r.live(5*time.Second, 100*time.Millisecond, nothing)
		before := r.ends(task, token)
		r.wrong[old] = off
		again := r.send(old, m) // it would get its claim anew
		res := r.renew(old, task, token)
		if kind := res.GetError().GetKind(); kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			t.Errorf("off by %v: renewed: %v", off, res)
		}
		if got, ok := r.granted(old, again); !ok || got != nil {
			t.Errorf("off by %v: the request came again and got %v, %v", off, got, ok)
		}
		if after := r.ends(task, token); len(before) != 3 || !slices.Equal(before, after) {
			t.Errorf("off by %v: the claim ended at %v and ends at %v", off, before, after)
		}
		r.live(10*time.Second, 100*time.Millisecond, nothing)
		if r.leader(1) == old {
			t.Errorf("off by %v: it still leads: %q", off, r.peers[old].core.standing.Clocks.Why)
		}
		if res := r.renew(old, task, token); res.GetError() != nil {
			t.Errorf("off by %v: the next leader does not renew: %v", off, res)
		}
		for i, end := range r.ends(task, token) {
			if i != old && end != r.now.Wall+int64(leaseTime) { // who is off takes no claims
				t.Errorf("off by %v: renewed at %d to %d", off, r.now.Wall, end)
			}
		}
		r.audit()
	}
}

func (r *trio) renew(i int, task id.ID, token uint64) *nornv1.RenewResult {
	r.t.Helper()
	return ask[*nornv1.RenewReply](r, i, &nornv1.RenewRequest{Claims: refOf(task, token), LeaseSeconds: leaseTime.Seconds()}).Results[0]
}

// TestALeaderThatWasSuspendedSoonRenews: all machines were, or an operator has set
// all clocks; nobody is off, as the next beats show, and the same leader goes on.
func TestALeaderThatWasSuspendedSoonRenews(t *testing.T) {
	r := newTrio(t)
	r.wrong = map[int]time.Duration{}
	task := r.put(0, 1)
	old := r.leader(1)
	from := r.send(old, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(old, from)
	if len(grants) != 1 {
		t.Fatalf("granted %v", grants)
	}
	r.live(5*time.Second, 100*time.Millisecond, nothing)
	epoch := r.state().Cells[1].Epoch
	for i := range r.peers {
		r.wrong[i] = time.Hour
	}
	if res := r.renew(old, task, grants[0].Token); res.GetError() == nil {
		t.Errorf("renewed before anybody has told his time: %v", res)
	}
	r.live(2*standing.BeatSoon, standing.BeatSoon, nothing)
	if res := r.renew(old, task, grants[0].Token); res.GetError() != nil {
		t.Errorf("not renewed %v later: %v", 2*standing.BeatSoon, res)
	}
	if now := r.state().Cells[1].Epoch; now != epoch || len(r.peers[old].core.standing.Clocks.Doubt) > 0 {
		t.Errorf("epoch %d, then %d; in doubt: %v", epoch, now, r.peers[old].core.standing.Clocks.Doubt)
	}
	r.audit()
}

// TestMissingNodesAreNoFaultOfTheClock: a node whose others are gone cannot show how good its
// clock is, and that is no fault of it; one that the others are far from has one.
func TestMissingNodesAreNoFaultOfTheClock(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour} {
		r := newTrio(t)
		r.wrong = map[int]time.Duration{0: off}
		r.live(5*time.Second, 200*time.Millisecond, nothing)
		if off == 0 {
			r.kill(1)
			r.kill(2)
		}
		r.live(30*time.Second, 200*time.Millisecond, nothing)
		s := r.peers[0].core.Stats()
		if s.ClockBad == 0 || s.ClockAlone != (off == 0) {
			t.Errorf("off by %v: %d partitions, alone %v: %s", off, s.ClockBad, s.ClockAlone, s.ClockFault)
		}
	}
}
