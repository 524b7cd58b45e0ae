package vnode

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// suspends has a member accept a claim of a task's second run, and hear of the end
// of the first one only then; nobody tells it of the retry in between.
func suspends(t *testing.T) (r *rig, task id.ID, retried crdt.Fact) {
	r = follower(t)
	task = r.enqueue(crdt.Enqueued{})
	r.accept(task, token1+1, Accepted)
	r.merge(crdt.Dead{At: 1, Reason: "e"}.Fact(task))
	r.is(task, crdt.StateDead, claim.Ended)
	return r, task, crdt.Requeued{Generation: 1, At: 2, AfterToken: token1}.Fact(task)
}

// tells wants a member to tell candidates of just this claim, or of none (0).
func (r *rig) tells(task id.ID, token uint64, end int64) {
	r.t.Helper()
	all, err := DecodeHeld(AppendHeld(nil, SnapshotAt(r.v, r.now)))
	switch {
	case err != nil:
		r.t.Fatal(err)
	case token == 0 && len(all) == 0:
	case token == 0 || len(all) != 1 || all[0].Task != task || all[0].Record.Token != token || all[0].Released || all[0].Record.End != end:
		r.t.Fatalf("it tells of %+v, want claim %x up to %d", all, token, end)
	}
}

// TestAVoterTellsOfAClaimWhoseTaskItTakesForDead: a member of a cohort of three has
// accepted a claim of a task that was retried, and hears late that it was dead. A
// new leader of another cohort, which has all facts of the voters, learns of the claim
// from that one alone (track record: a task granted twice).
func TestAVoterTellsOfAClaimWhoseTaskItTakesForDead(t *testing.T) {
	voter, task, retried := suspends(t)
	end := voter.now.Wall + int64(10*time.Second)
	voter.tells(task, token1+1, end)
	facts, err := Facts(voter.tx, 0, task)
	if err != nil {
		t.Fatal(err)
	}

	// The new leader has copied the partition, with the retry, from another voter.
	leader := follower(t)
	leader.merge(append(facts, retried)...)
	leader.is(task, crdt.StateReady)
	votes, err := DecodeHeld(AppendHeld(nil, SnapshotAt(voter.v, voter.now)))
	if err != nil {
		t.Fatal(err)
	}
	leader.absorb(votes...)
	leader.v.Lead(4)
	leader.is(task, crdt.StateClaimed, claim.Active)
	if d, err := leader.v.Grant(leader.tx, "q", Ask{Worker: "other", Lease: 10 * time.Second}, leader.now); !errors.Is(err, ErrNothing) {
		t.Fatalf("the task of claim %x is granted again: %v, %v", token1+1, d, err)
	}

	// Whoever has not heard of the retry takes the claim over as the voter knows it.
	third := follower(t)
	third.merge(facts...)
	third.absorb(votes...)
	third.is(task, crdt.StateDead, claim.Ended)
	third.tells(task, token1+1, end)
	later := votes[0]
	later.Record.End++ // another voter knows of a renewal
	third.absorb(later)
	third.tells(task, token1+1, end+1)
	third.restart()
	third.tells(task, token1+1, end+1)
	third.merge(retried)
	third.is(task, crdt.StateClaimed, claim.Active)
	third.tells(task, token1+1, end+1)
}

// TestARetryEndsNoClaimThatMayHold: the leader does not know that a dead task was
// retried already, but knows a claim of that run. A second retry comes to the same as
// the first (track record: a task granted twice).
func TestARetryEndsNoClaimThatMayHold(t *testing.T) {
	r, task, retried := suspends(t)
	r.v.Lead(4)
	state, err := r.v.Decide(r.tx, task, r.now, func(t *crdt.Task) (crdt.Fact, bool) {
		return crdt.Requeued{Generation: 1, At: 3, AfterToken: RetryAfter(r.v, task)}.Fact(task), true
	})
	if err != nil || state != crdt.StateClaimed {
		t.Fatalf("a retry leaves the task %s, %v", state, err)
	}
	r.is(task, crdt.StateClaimed, claim.Active)
	if _, err := r.v.Grant(r.tx, "q", Ask{Worker: "other", Lease: 10 * time.Second}, r.now); !errors.Is(err, ErrNothing) {
		t.Fatalf("the task is granted again: %v", err)
	}
	r.merge(retried)
	r.is(task, crdt.StateClaimed, claim.Active)
	if _, err := r.v.Renew(r.tx, task, token1+1, 0, r.now); err != nil {
		t.Fatal(err)
	}
	r.wakes(15 * time.Second)
	r.is(task, crdt.StateReady, claim.Expired)
	if got := RetryAfter(r.v, task); got != 4<<32 {
		t.Fatalf("the next retry begins after %x", got)
	}
}

// TestASuspendedClaimGoesWithItsLease: it is told, and keeps its task from being
// collected, until it has lapsed here, and not after a restart either.
func TestASuspendedClaimGoesWithItsLease(t *testing.T) {
	r, task, retried := suspends(t)
	due := Due{Task: task, State: crdt.StateDead, Queue: "q", At: 1}
	collects := func(want bool) {
		t.Helper()
		gone, err := r.v.Collect(r.tx, due, r.now, func(*crdt.Task) int64 { return 2 })
		if gone != want || err != nil {
			t.Fatalf("collected %v, %v, want %v", gone, err, want)
		}
	}
	r.now = r.now.Add(4 * time.Second)
	if _, mono := r.v.NextWake(); mono != r.now.Add(11*time.Second).Mono {
		t.Fatalf("it wakes at %d, now is %d", mono, r.now.Mono)
	}
	r.now = r.now.Add(11*time.Second - 1)
	r.tick()
	collects(false)
	if n := len(SnapshotAt(r.v, r.now)); n != 1 {
		t.Fatalf("it tells of %d claims", n)
	}
	r.now = r.now.Add(1)
	r.tick()
	r.tells(task, 0, 0)
	r.restart()
	r.tells(task, 0, 0)
	r.merge(retried) // as ever, how much of it is left is not known then
	r.is(task, crdt.StateClaimed, claim.Active)

	r, task, _ = suspends(t)
	due.Task = task
	r.restart()
	collects(false)
	r.now = r.now.Add(15 * time.Second)
	r.tick()
	collects(true)
	r.audit()
}

// TestASuspendedClaimEnds: what ends a claim for good ends one that is suspended, and
// candidates hear no more of it, or that it was released.
func TestASuspendedClaimEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(r *rig, task id.ID)
		state   crdt.State
		outcome claim.Outcome
	}{
		"completed": {func(r *rig, task id.ID) { r.merge(crdt.Completed{Token: token1 + 1, At: 3}.Fact(task)) }, crdt.StateCompleted, claim.Completed},
		"completed here": {func(r *rig, task id.ID) {
			if _, err := r.v.Add(r.tx, crdt.Completed{Token: token1 + 1, At: 3}.Fact(task), r.now); err != nil {
				r.t.Fatal(err)
			}
		}, crdt.StateCompleted, claim.Completed},
		"cancelled": {func(r *rig, task id.ID) { r.merge(crdt.Cancelled{At: 3}.Fact(task)) }, crdt.StateCancelled, claim.Ended},
		"failed":    {func(r *rig, task id.ID) { r.merge(crdt.Failed{Token: token1 + 1, At: 3}.Fact(task)) }, crdt.StateDead, claim.Failed},
		"retried since": {func(r *rig, task id.ID) {
			r.merge(crdt.Requeued{Generation: 1, At: 3, AfterToken: token1 + 1}.Fact(task))
		}, crdt.StateReady, claim.Ended},
		"collected": {func(r *rig, task id.ID) {
			r.merge(crdt.Tombstone{Outcome: crdt.StateDead, At: 1, Collected: 3}.Fact(task))
		}, crdt.StateDead, claim.Active},
		"released": {func(r *rig, task id.ID) { r.release(task, token1+1) }, crdt.StateDead, claim.Released},
	} {
		t.Run(name, func(t *testing.T) {
			r, task, retried := suspends(t)
			c.end(r, task)
			if c.outcome == claim.Active {
				r.is(task, c.state) // nothing is left of its claims
			} else {
				r.is(task, c.state, c.outcome)
			}
			told := SnapshotAt(r.v, r.now)
			if c.outcome == claim.Released {
				if len(told) != 1 || !told[0].Released {
					t.Fatalf("it tells of %+v", told)
				}
				return
			}
			r.tells(task, 0, 0)
			if c.outcome == claim.Failed {
				r.merge(retried)
				r.is(task, crdt.StateReady, claim.Failed)
			}
		})
	}
}

// TestAnExpiryIsNotBelievedOfASuspendedClaim: a leader says that the claim expired. It
// holds until it has lapsed here, too, also when it comes back.
func TestAnExpiryIsNotBelievedOfASuspendedClaim(t *testing.T) {
	r, task, retried := suspends(t)
	r.merge(crdt.Expired{Token: token1 + 1, At: 2}.Fact(task))
	r.merge(retried)
	r.is(task, crdt.StateClaimed, claim.Active)
	r.accept(task, token1+2, Busy)
	r.wakes(15 * time.Second)
	r.is(task, crdt.StateReady, claim.Expired)
	r.accept(task, token1+2, Accepted)
}

// TestADeathThatIsKnownIsNotWrittenAgain: a leader knows that a task is dead and lacks its
// enqueue and the retry, which the others have. The claim of the second run is
// discarded: what it then writes must be no second fact under the key of the first one,
// which the others have and the tree has counted (track record).
func TestADeathThatIsKnownIsNotWrittenAgain(t *testing.T) {
	r := follower(t)
	Grow(r.v, nil)
	Grown(r.v, r.tx)
	task := r.ids.Next(r.now.Wall)
	first := crdt.Dead{At: 1, Reason: "first"}.Fact(task)
	r.merge(first)
	r.absorb(Held{Task: task, Record: r.record(token1 + 1)})
	r.v.Lead(4)
	if _, existed, err := r.v.Fail(r.tx, task, Failure{Token: token1 + 1, Counted: true, Discard: true}, r.now); existed || err != nil {
		t.Fatal(existed, err)
	}
	if f, _ := FactOf(r.tx, 0, task, first.Key); !bytes.Equal(f.Body, first.Body) {
		t.Errorf("another body is under the key of the first death: %q", f.Body)
	}
	r.audit()
}

// TestAReleaseOutlivesARetryThatComesLate: a member has refused a claim, because it has missed
// a retry, and its leader has released it for that. The retry took it back, and it was in the
// way of the next one.
func TestAReleaseOutlivesARetryThatComesLate(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{})
	r.merge(crdt.Dead{At: 1, Reason: "e"}.Fact(task))
	r.accept(task, token1+1, Finished)
	r.release(task, token1+1)
	r.merge(crdt.Requeued{Generation: 1, At: 2, AfterToken: token1}.Fact(task))
	r.is(task, crdt.StateReady, claim.Released)
	r.accept(task, token1+2, Accepted)
}
