package vnode

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

func (r *rig) absorb(all ...Held) {
	r.t.Helper()
	if err := Absorb(r.v, r.tx, all, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// wakes wants the vnode to ask for a tick at just this time, and to do something
// then.
func (r *rig) wakes(d time.Duration) {
	r.t.Helper()
	claims := r.v.Claimed()
	r.now = r.now.Add(d - 1)
	r.tick()
	if r.v.Claimed() != claims {
		r.t.Fatalf("a claim has ended before %v were over", d)
	}
	wall, mono := r.v.NextWake()
	if next := r.now.Add(1); wall != next.Wall && mono != next.Mono {
		r.t.Fatalf("it wakes at %d and %d, want %v", wall, mono, next)
	}
	r.now = r.now.Add(1)
	r.tick()
	if r.v.Claimed() != claims-1 {
		r.t.Fatalf("after %v there are %d claims, before %d", d, r.v.Claimed(), claims)
	}
}

func TestSlackIsBounded(t *testing.T) {
	for buffer, want := range map[time.Duration]time.Duration{
		0: 20 * time.Millisecond, time.Second: 50 * time.Millisecond, time.Hour: 250 * time.Millisecond,
	} {
		if got := SlackOf(buffer); got != want {
			t.Errorf("slack of %v is %v, want %v", buffer, got, want)
		}
	}
}

// TestALeaderWaitsForItsFollowers: what it lets expire has lapsed at those who
// learned of it a little later, so that they do not refuse the next grant.
func TestALeaderWaitsForItsFollowers(t *testing.T) {
	r, f := newRig(t), follower(t)
	r.v.cfg.Slack = SlackOf(5 * time.Second)
	task := r.enqueue(crdt.Enqueued{})
	granted := r.grant().Claims[0]
	f.now = f.now.Add(200 * time.Millisecond)
	f.acceptRecord(task, granted, Lacking)
	r.wakes(15*time.Second + 250*time.Millisecond)
	r.is(task, crdt.StateReady, claim.Expired)
	f.now = f.now.Add(15*time.Second + 50*time.Millisecond)
	f.accept(task, granted.Token+1, Lacking)
}

// TestAClaimCountsFromTheTakeover: a renewal may have passed the new leader by.
// A wall clock that another node confirms ends it at its end.
func TestAClaimCountsFromTheTakeover(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		r := follower(t)
		r.accept(r.enqueue(crdt.Enqueued{}), token1, Accepted)
		Confirm(r.v, confirmed)
		r.now = r.now.Add(4 * time.Second)
		r.v.Lead(4)
		if _, mono := r.v.NextWake(); mono > r.now.Mono {
			t.Fatal("the takeover is not noted")
		}
		r.tick()
		if confirmed {
			r.wakes(11*time.Second + 1) // past the end and the buffer
		} else {
			r.wakes(15 * time.Second)
		}
	}
}

// TestElectionsDoNotProlongAClaimForEver: each begins it anew by elapsed time, and
// the wall clock ends it all the same.
func TestElectionsDoNotProlongAClaimForEver(t *testing.T) {
	r := follower(t)
	r.accept(r.enqueue(crdt.Enqueued{}), token1, Accepted)
	Confirm(r.v, true)
	for epoch := uint64(4); r.v.Claimed() > 0; epoch++ {
		if epoch == 10 {
			t.Fatal("a dead worker's claim lives on")
		}
		r.absorb(Snapshot(r.v)...)
		r.v.Lead(epoch)
		r.now = r.now.Add(3*time.Second + 1)
		r.tick()
		r.v.Follow()
	}
}

// TestALeaderThatStaysKnowsItsClaims: nobody else can have renewed them.
func TestALeaderThatStaysKnowsItsClaims(t *testing.T) {
	for _, away := range []bool{false, true} {
		r := newRig(t)
		r.enqueue(crdt.Enqueued{})
		r.grant()
		r.now = r.now.Add(4 * time.Second)
		if away {
			r.v.Follow()
		}
		r.v.Lead(2)
		r.tick()
		if away {
			r.wakes(15 * time.Second)
		} else {
			r.wakes(11 * time.Second)
		}
	}
}

func TestRecoveredClaimsOfAFollowerLapseByTheWallClock(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 3}})
	r.accept(task, token1, Accepted)
	r.now = r.now.Add(14 * time.Second)
	r.restart()
	r.merge(crdt.Expired{Token: token1, At: 1}.Fact(task))
	r.restart() // the fact says again that the claim is over
	if wall, mono := r.v.NextWake(); wall != clock.Never || mono != r.now.Add(15*time.Second).Mono {
		t.Fatalf("it wakes at %d and %d", wall, mono)
	}
	Confirm(r.v, true)
	r.wakes(time.Second + 1)
	r.is(task, crdt.StateReady, claim.Expired)
}

// TestNothingIsDueWhileNothingIsOver: lapsed claims alone do not wake a follower.
func TestNothingIsDueWhileNothingIsOver(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{})
	r.accept(task, token1, Accepted)
	r.now = r.now.Add(time.Hour)
	if wall, mono := r.v.NextWake(); wall != clock.Never || mono != clock.Never {
		t.Fatalf("it wakes at %d and %d", wall, mono)
	}
	r.tick()
	r.is(task, crdt.StateClaimed, claim.Active)
	if stuck := Stuck(r.v, r.now, 1); len(stuck) != 1 || stuck[0].Task != task {
		t.Fatalf("stuck are %v", stuck)
	}
}

// TestTheLeadersWordOnStuckClaims: what the leader does not hold goes, once it
// has lapsed here.
func TestTheLeadersWordOnStuckClaims(t *testing.T) {
	r, leader := follower(t), newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 3}})
	r.accept(task, token1, Accepted)
	all := Snapshot(r.v)
	if got := Unheld(leader.v, all); len(got) != 1 {
		t.Fatalf("the leader holds none: %v", got)
	}
	dismiss := func(all []Held) {
		t.Helper()
		if err := Dismiss(r.v, r.tx, all, r.now); err != nil {
			t.Fatal(err)
		}
	}
	dismiss(all)
	r.is(task, crdt.StateClaimed, claim.Active)
	r.now = r.now.Add(20*time.Second - 1)
	if stuck := Stuck(r.v, r.now, 10); len(stuck) > 0 {
		t.Fatalf("stuck after lease and buffer alone: %v", stuck)
	}
	r.now = r.now.Add(1)
	dismiss(Stuck(r.v, r.now, 0))
	r.is(task, crdt.StateClaimed, claim.Active)
	leader.absorb(all...)
	dismiss(Unheld(leader.v, Stuck(r.v, r.now, 10)))
	r.is(task, crdt.StateClaimed, claim.Active)
	dismiss(Stuck(r.v, r.now, 10))
	r.is(task, crdt.StateReady, claim.Expired)
	dismiss(all)
}

// TestLeaderLearnsFromARefusal: of a claim that it does not know, or has let
// expire too early; not of one that has ended for good.
func TestLeaderLearnsFromARefusal(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
	learn := func(token uint64, left time.Duration) {
		t.Helper()
		if err := Learn(r.v, r.tx, task, Blocker{r.record(token), left}, r.now); err != nil {
			t.Fatal(err)
		}
	}
	learn(1, 3*time.Second)
	r.is(task, crdt.StateClaimed, claim.Active)
	learn(1, 4*time.Second)
	learn(1, time.Second)
	r.wakes(4 * time.Second)
	r.is(task, crdt.StateReady, claim.Expired)
	learn(1, time.Second) // it holds elsewhere for a little longer
	r.is(task, crdt.StateClaimed, claim.Active)
	if _, err := r.v.Renew(r.tx, task, 1, 0, r.now); err == nil {
		t.Fatal("a claim that has expired is renewed")
	}
	r.wakes(time.Second)
	if b := r.v.claims.Lookup(task); b != nil {
		t.Fatalf("still there: %+v", b)
	}
	granted := r.grant().Claims
	token := granted[len(granted)-1].Token
	if d, _ := LoadTask(r.tx, 0, task); d.Attempts() != 1 {
		t.Fatalf("%d attempts, one has expired", d.Attempts())
	}
	if _, _, err := r.v.Fail(r.tx, task, Failure{Token: token, RetryAt: 1}, r.now); err != nil {
		t.Fatal(err)
	}
	learn(token, 9*time.Second)
	learn(token+7, 0)
	r.is(task, crdt.StateReady, claim.Expired, claim.Failed)
	facts, released, err := EndOf(r.v, r.tx, task, token)
	if err != nil || released || len(facts) != 2 || facts[0].Key != (crdt.Key{Kind: crdt.KindFailed, A: token}) {
		t.Fatalf("what ended it: %v %v %v", facts, released, err)
	}
	if _, err := r.v.Release(r.tx, task, r.grant().Claims[2].Token, r.now); err != nil {
		t.Fatal(err)
	}
	learn(token+1, 9*time.Second)
	r.is(task, crdt.StateReady, claim.Expired, claim.Failed, claim.Released)
	if _, released, _ := EndOf(r.v, r.tx, task, token+1); !released {
		t.Fatal("nobody says that it was released")
	}
	learn(1<<32|50, time.Second)
	r.wakes(time.Second)
	if next := r.grant().Claims; next[len(next)-1].Token != 1<<32|51 {
		t.Fatalf("token %x after %x was seen", next[len(next)-1].Token, 1<<32|50)
	}
}

// TestSeveralClaimsOfOneTask: it is free only when all have ended, and the last
// of them decides whether it is given up.
func TestSeveralClaimsOfOneTask(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 2}})
	older, newer := r.record(1), r.record(2)
	r.absorb(Held{Task: task, Record: newer}, Held{Task: task, Record: older})
	r.now = r.now.Add(time.Second)
	if _, err := r.v.Renew(r.tx, task, 2, 0, r.now); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(14 * time.Second)
	r.tick()
	r.is(task, crdt.StateClaimed, claim.Expired, claim.Active)
	r.absorb(Held{Task: task, Record: older}, Held{Task: task, Record: claim.Record{Token: 1}, Released: true})
	r.is(task, crdt.StateClaimed, claim.Expired, claim.Active)
	r.wakes(time.Second)
	r.is(task, crdt.StateDead, claim.Expired, claim.Expired)
}

// TestRequeueEndsOlderClaims: the task was finished in between, unseen here.
func TestRequeueEndsOlderClaims(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{})
	r.accept(task, token1, Accepted)
	r.merge(
		crdt.Dead{At: 1, Reason: "e"}.Fact(task),
		crdt.Requeued{Generation: 1, At: 2, AfterToken: token1 + 1}.Fact(task),
	)
	r.is(task, crdt.StateReady, claim.Ended)
	r.accept(task, token1+1, Stale)
	r.absorb(Held{Task: task, Record: r.record(token1 + 1)})
	r.is(task, crdt.StateReady, claim.Ended)
	r.accept(task, token1+2, Accepted)
}

// TestRequeueLeavesNewerClaims: a member that hears late that the task was dead,
// and later still that it was requeued, keeps a claim that was granted after
// that, whether it had accepted it before or refused it over the death.
func TestRequeueLeavesNewerClaims(t *testing.T) {
	r := follower(t)
	accepted, refused := r.enqueue(crdt.Enqueued{}), r.enqueue(crdt.Enqueued{})
	dead := func(task id.ID) crdt.Fact { return crdt.Dead{At: 1, Reason: "e"}.Fact(task) }
	r.accept(accepted, token1+1, Accepted)
	for _, task := range []id.ID{accepted, refused} {
		r.merge(dead(task))
	}
	r.accept(refused, token1+1, Finished)
	for _, task := range []id.ID{accepted, refused} {
		r.is(task, crdt.StateDead, claim.Ended)
		r.merge(crdt.Requeued{Generation: 1, At: 2, AfterToken: token1}.Fact(task))
		r.is(task, crdt.StateClaimed, claim.Active)
		r.accept(task, token1+2, Busy)
	}
	r.restart()
	if all := Snapshot(r.v); len(all) != 2 {
		t.Fatalf("it tells a candidate of %v only", all)
	}
	r.absorb(Held{Task: refused, Record: r.record(token1 + 1)})
	r.merge(crdt.Completed{Token: token1 + 1, At: r.now.Wall}.Fact(refused))
	r.is(refused, crdt.StateCompleted, claim.Completed)
}

// TestAReleaseIsToldOnce: a claim was released, its task was finished, collected
// and forgotten, and then somebody who missed all that brings the release again, or
// the claim itself. What this replica says of its claims to a candidate can be read
// all the same (track record: a partition that nobody could lead any more).
func TestAReleaseIsToldOnce(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Queue: "q"})
	r.accept(task, token1, Accepted)
	r.release(task, token1)
	at := r.now.Wall
	r.merge(crdt.Tombstone{Outcome: crdt.StateCancelled, At: at, Collected: at}.Fact(task))
	r.goes(task, at)
	told := func(want Held) {
		t.Helper()
		all, err := DecodeHeld(AppendHeld(nil, SnapshotAt(r.v, r.now)))
		if err != nil || len(all) != 1 || all[0] != want {
			t.Fatalf("it says %+v, %v", all, err)
		}
	}
	over := Held{Task: task, Record: claim.Record{Token: token1}, Released: true}
	told(over)
	r.absorb(Held{Task: task, Record: r.record(token1)})
	told(over)
	r.absorb(over)
	told(over)
	r.absorb(over)
	told(over)
}

// TestReleasesAreForgotten: the newest are told to whoever asks for votes.
func TestReleasesAreForgotten(t *testing.T) {
	r := follower(t)
	for n := range uint64(maxReleases + 3) {
		r.release(id.ID{1}, n+1)
	}
	all := Snapshot(r.v)
	if len(all) != maxReleases || all[0].Record.Token != 4 || all[maxReleases-1].Record.Token != maxReleases+3 {
		t.Fatalf("%d releases from %d on", len(all), all[0].Record.Token)
	}
}

// TestALapseLeavesTheOtherClaimItsAttempt: of two claims that an election has brought
// together one lapses, which uses up the last attempt. The other one's worker may be about to
// finish: the task is given up when that one has lapsed as well.
func TestALapseLeavesTheOtherClaimItsAttempt(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 1}})
	long, short := r.record(token1), r.record(token1+1)
	long.Lease, long.End = time.Minute, long.Start+int64(time.Minute)
	short.Lease, short.End = 2*time.Second, short.Start+int64(2*time.Second)
	r.absorb(Held{Task: task, Record: long}, Held{Task: task, Record: short})
	r.v.Lead(5)
	r.tick()
	r.now = r.now.Add(20 * time.Second)
	r.tick()
	r.is(task, crdt.StateClaimed, claim.Active, claim.Expired)
	r.now = r.now.Add(time.Minute)
	r.tick()
	r.is(task, crdt.StateDead, claim.Expired, claim.Expired)
}
