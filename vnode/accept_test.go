package vnode

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

const token1 = 3<<32 | 1

// follower is a rig that does not lead.
func follower(t *testing.T) *rig {
	r := newRig(t)
	r.v.Follow()
	return r
}

// restart opens the vnode again, with the store as it is.
func (r *rig) restart() {
	r.t.Helper()
	r.audit()
	r.open()
	r.v.Follow()
}

func (r *rig) record(token uint64) claim.Record {
	return claim.Record{
		Token: token, Worker: "w", Session: [16]byte{1}, Request: 7,
		Start: r.now.Wall, End: r.now.Wall + int64(10*time.Second), Lease: 10 * time.Second,
	}
}

// accept wants a verdict on a claim that is granted now.
func (r *rig) accept(task id.ID, token uint64, want Verdict) *Blocker {
	r.t.Helper()
	return r.acceptRecord(task, r.record(token), want)
}

func (r *rig) acceptRecord(task id.ID, c claim.Record, want Verdict) *Blocker {
	r.t.Helper()
	got, b, err := Accept(r.v, r.tx, Proposed{task, c}, Judge{HalfEta: time.Second}, r.now)
	if err != nil || got != want {
		r.t.Fatalf("claim %x: %v, %v, want %v", c.Token, got, err, want)
	}
	return b
}

func (r *rig) release(task id.ID, token uint64) {
	r.t.Helper()
	if err := AcceptRelease(r.v, r.tx, task, token, r.now); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) merge(facts ...crdt.Fact) {
	r.t.Helper()
	if _, err := Merge(r.v, r.tx, facts, r.now); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tick() {
	r.t.Helper()
	if err := r.v.Tick(r.tx, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// is wants a task in a state, with claims that ended so.
func (r *rig) is(task id.ID, want crdt.State, outcomes ...claim.Outcome) {
	r.t.Helper()
	r.audit()
	d, err := ReadTask(r.mem, 0, task, ReadOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var got []claim.Outcome
	for _, c := range d.Claims {
		got = append(got, c.Outcome)
	}
	if d.State != want || fmt.Sprint(got) != fmt.Sprint(outcomes) {
		r.t.Fatalf("%s with claims %v, want %s with %v", d.State, got, want, outcomes)
	}
}

func TestAcceptedClaimSurvivesARestart(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{})
	r.accept(task, token1, Accepted)
	r.accept(task, token1, Accepted) // the message came twice
	r.is(task, crdt.StateClaimed, claim.Active)
	r.restart()
	if all := Snapshot(r.v); len(all) != 1 || all[0].Task != task || all[0].Record != r.record(token1) {
		t.Fatalf("after a restart: %+v", all)
	}
	r.merge(crdt.Completed{Token: token1, At: r.now.Wall}.Fact(task))
	r.is(task, crdt.StateCompleted, claim.Completed)
}

func TestWhoRefusesAGrant(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
	far := r.record(token1)
	far.Start, far.End = far.Start+int64(time.Second)+1, far.End+int64(time.Second)+1
	r.acceptRecord(task, far, SkewedClock)
	far.Start -= 2 * int64(time.Second)
	far.End -= 2 * int64(time.Second)
	r.acceptRecord(task, far, Accepted)
	r.now = r.now.Add(5 * time.Second)
	if b := r.accept(task, token1+1, Busy); b.Record.Token != token1 || b.Left != 10*time.Second {
		t.Fatalf("blocked by %+v", b)
	}
	// A renewal is not judged by its start, but by its end: whoever falls and comes back
	// goes by it, and the worker by the whole length.
	far.End = r.now.Wall + int64(9*time.Second) - 1
	r.acceptRecord(task, far, SkewedClock)
	if b := r.accept(task, token1+1, Busy); b.Left != 10*time.Second {
		t.Fatalf("blocked for %v after a renewal that was refused", b.Left)
	}
	far.End++
	r.acceptRecord(task, far, Accepted)
	// It counts anew, though its end may not grow.
	r.acceptRecord(task, far, Accepted)
	if b := r.accept(task, token1+1, Busy); b.Left != 15*time.Second {
		t.Fatalf("blocked for %v", b.Left)
	}
	r.now = r.now.Add(15*time.Second - 1)
	r.accept(task, token1+1, Busy)
	r.now = r.now.Add(1)
	r.accept(task, token1+1, Accepted) // nobody has written yet that the first one expired
	r.is(task, crdt.StateClaimed, claim.Active, claim.Active)
	if b := r.accept(task, token1, Stale); b.Record.Token != token1+1 || b.Left != 15*time.Second {
		t.Fatalf("superseded by %+v", b)
	}
	r.merge(crdt.Expired{Token: token1, At: r.now.Wall}.Fact(task))
	r.is(task, crdt.StateClaimed, claim.Expired, claim.Active)
	r.merge(crdt.Failed{Token: token1 + 1, At: r.now.Wall}.Fact(task))
	r.is(task, crdt.StateReady, claim.Expired, claim.Failed)
	for _, token := range []uint64{token1, token1 + 1} {
		r.accept(task, token, Stale)
	}
	r.merge(crdt.Failed{Token: token1 + 3, At: r.now.Wall}.Fact(task)) // of a claim that never came here
	if b := r.accept(task, token1+2, Stale); b == nil || b.Record.Token != token1+3 || b.Left != 0 {
		t.Fatalf("a newer claim has failed: %+v", b)
	}
	r.accept(task, token1+4, Accepted)
	r.is(task, crdt.StateClaimed, claim.Expired, claim.Failed, claim.Active)
}

// TestOfTwoClaimsTheOlderOneHoldsToo: an election may bring a second claim on a task to a
// member that holds one. When the newer one lapses the task is not free yet.
func TestOfTwoClaimsTheOlderOneHoldsToo(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
	long, short := r.record(token1), r.record(token1+1)
	long.Lease, long.End = time.Minute, long.Start+int64(time.Minute)
	short.Lease, short.End = 2*time.Second, short.Start+int64(2*time.Second)
	r.acceptRecord(task, long, Accepted)
	r.absorb(Held{Task: task, Record: short})
	r.now = r.now.Add(10 * time.Second)
	if b := r.accept(task, token1+2, Busy); b.Record.Token != token1 {
		t.Fatalf("blocked by %+v, want the claim that has not lapsed", b)
	}
	r.is(task, crdt.StateClaimed, claim.Active, claim.Active)
}

func TestFinishedTaskIsNotClaimed(t *testing.T) {
	r := follower(t)
	task, unknown, gone := r.enqueue(crdt.Enqueued{}), r.ids.Next(r.now.Wall), r.enqueue(crdt.Enqueued{})
	for _, k := range []id.ID{task, unknown} {
		if _, err := r.v.Add(r.tx, crdt.Completed{Token: token1, At: 1}.Fact(k), r.now); err != nil {
			t.Fatal(err)
		}
		r.accept(k, token1, Finished)
		r.accept(k, token1+1, Finished)
	}
	r.is(task, crdt.StateCompleted, claim.Completed, claim.Ended)
	r.merge(crdt.Tombstone{Outcome: crdt.StateDead, Collected: 1}.Fact(gone))
	r.accept(gone, token1, Finished)
	r.release(gone, token1)
	if err := Absorb(r.v, r.tx, []Held{{Task: task, Record: r.record(token1 + 2)}, {Task: gone, Record: r.record(token1 + 2)}}, r.now); err != nil {
		t.Fatal(err)
	}
	r.is(task, crdt.StateCompleted, claim.Completed, claim.Ended, claim.Ended)
	if r.v.Claimed() != 0 {
		t.Fatalf("claims: %v", Snapshot(r.v))
	}
}

// TestClaimBeforeItsTask: a claim may overtake the enqueue, over each of the ways
// that an enqueue can come, and a restart in between.
func TestClaimBeforeItsTask(t *testing.T) {
	spec := crdt.Enqueued{Queue: "q", Priority: 4, Retry: crdt.Retry{MaxAttempts: 2}}
	update := crdt.Update{Token: token1, Data: []byte("d"), At: 1}
	ways := map[string]func(r *rig, task id.ID){
		"enqueue":  func(r *rig, task id.ID) { _, _ = r.v.Enqueue(r.tx, task, &spec, r.now) },
		"merge":    func(r *rig, task id.ID) { r.merge(spec.Fact(task)) },
		"together": func(r *rig, task id.ID) { r.merge(update.Fact(task), spec.Fact(task)) },
		"after an update": func(r *rig, task id.ID) {
			if _, err := r.v.Add(r.tx, update.Fact(task), r.now); err != nil {
				r.t.Fatal(err)
			}
			r.audit()
			r.merge(spec.Fact(task))
		},
	}
	for name, come := range ways {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restart), func(t *testing.T) {
				r := follower(t)
				task := r.ids.Next(r.now.Wall)
				r.accept(task, token1, Lacking)
				r.accept(task, token1, Lacking)
				if restart {
					r.restart()
				}
				come(r, task)
				r.is(task, crdt.StateClaimed, claim.Active)
				if e := r.v.claims.Lookup(task); e.Brief.MaxAttempts != 2 || e.Brief.Rank.Priority() != 4 {
					t.Fatalf("the table has %+v", e.Brief)
				}
				r.accept(task, token1, Accepted)
				r.merge(crdt.Failed{Token: token1, At: 1, Counted: true}.Fact(task))
				r.is(task, crdt.StateReady, claim.Failed)
			})
		}
	}
}

// TestClaimOnATaskThatNeverComes: its end is written, and it goes with what is
// left of the task.
func TestClaimOnATaskThatNeverComes(t *testing.T) {
	for _, end := range []string{"expires", "is completed", "is given up"} {
		t.Run(end, func(t *testing.T) {
			r := follower(t)
			task := r.ids.Next(r.now.Wall)
			r.accept(task, token1, Lacking)
			switch end {
			case "expires":
				r.v.Lead(4)
				r.tick() // it counts from now
				r.now = r.now.Add(15 * time.Second)
				r.tick()
			case "is completed":
				r.merge(crdt.Completed{Token: token1, At: 1}.Fact(task))
			case "is given up":
				r.merge(crdt.Update{Token: token1, At: 1}.Fact(task))
				r.accept(task, token1, Lacking)
			}
			r.audit()
			if !DropOrphan(r.v, r.tx, task) || r.v.Claimed() != 0 {
				t.Fatalf("left are %v", Snapshot(r.v))
			}
			r.audit()
			for _, table := range []byte{tableActive, tableEnded} {
				if HasKey(r.mem, appendPrefix(nil, table, 0)) {
					t.Fatalf("something is left in table %c", table)
				}
			}
		})
	}
}

// TestReleaseBeforeItsGrant: the grant does not bring the claim back, over each
// order of the three messages.
func TestReleaseBeforeItsGrant(t *testing.T) {
	for _, enqueued := range []bool{true, false} {
		for _, restart := range []bool{true, false} {
			t.Run(fmt.Sprint(enqueued, restart), func(t *testing.T) {
				r := follower(t)
				task := r.ids.Next(r.now.Wall)
				spec := crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 2}}
				if enqueued {
					r.merge(spec.Fact(task))
				}
				r.release(task, token1)
				r.release(task, token1)
				if all := Snapshot(r.v); len(all) != 1 || !all[0].Released || all[0].Record.Token != token1 {
					t.Fatalf("snapshot %+v", all)
				}
				if restart {
					r.restart()
				}
				if !enqueued {
					r.accept(task, token1, Stale)
					r.merge(spec.Fact(task))
				}
				if b := r.accept(task, token1, Stale); b != nil {
					t.Fatalf("blocked by %+v", b)
				}
				r.is(task, crdt.StateReady, claim.Released)
				r.accept(task, token1+1, Accepted)
				r.release(task, token1+1)
				r.is(task, crdt.StateReady, claim.Released, claim.Released)
				r.accept(task, token1+1, Stale)
				r.accept(task, token1, Stale)
				r.accept(task, token1+2, Accepted) // over two that were released
			})
		}
	}
}

// TestTheBallotOutlivesThePartition: all of it is deleted but the promise.
func TestTheBallotOutlivesThePartition(t *testing.T) {
	r := follower(t)
	if Ballot(r.tx, 0) != nil {
		t.Fatal("a ballot before the first vote")
	}
	SetBallot(r.tx, 0, []byte("promised"))
	if !Empty(r.tx, 0) {
		t.Fatal("a promise is nothing to hand over")
	}
	r.accept(r.ids.Next(r.now.Wall), token1, Lacking)
	if Empty(r.tx, 0) {
		t.Fatal("a claim alone is not seen")
	}
	r.accept(r.enqueue(crdt.Enqueued{}), token1+1, Accepted)
	BeginDrop(r.tx, 0)
	r.flush()
	v, err := Blank(0, *r.v.cfg, r.mem, r.now)
	if err != nil {
		t.Fatal(err)
	}
	for r.v = v; !Drop(r.v, r.tx, 2); {
		r.flush()
	}
	r.flush()
	if got := Ballot(r.mem, 0); !bytes.Equal(got, []byte("promised")) {
		t.Fatalf("the ballot is %q", got)
	}
	if HasKey(r.mem, appendPrefix(nil, tableActive, 0)) {
		t.Fatal("claims are left")
	}
}

// TestDamagedClaimsAreReported: what cannot be read is not taken for absent.
func TestDamagedClaimsAreReported(t *testing.T) {
	for _, hurt := range []func(task id.ID, b *store.Batch){
		func(task id.ID, b *store.Batch) { b.Set(appendClaim(nil, tableEnded, 0, task, token1+1), []byte("?")) },
		func(task id.ID, b *store.Batch) {
			b.Set(appendFact(nil, 0, task, crdt.Key{Kind: crdt.KindRequeued, A: 1}), []byte("?"))
		},
	} {
		r := follower(t)
		task := r.enqueue(crdt.Enqueued{})
		r.release(task, token1) // so that it is no longer fresh
		r.flush()
		var b store.Batch
		hurt(task, &b)
		r.mem.Apply(&b)
		if _, _, err := Accept(r.v, r.tx, Proposed{task, r.record(token1 + 1)}, Judge{}, r.now); !errors.Is(err, ErrDamaged) {
			t.Fatalf("got %v, want ErrDamaged", err)
		}
	}
}

func TestNoLeaderGrantsSuch(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{})
	for _, spoil := range []func(*claim.Record){
		func(c *claim.Record) { c.Lease = clock.MaxLease + 1 },
		func(c *claim.Record) { c.Lease = -1 },
		func(c *claim.Record) { c.Outcome = claim.Failed },
		func(c *claim.Record) { c.Worker = string(make([]byte, maxWorker+1)) },
	} {
		c := r.record(token1)
		spoil(&c)
		r.acceptRecord(task, c, Stale)
		if _, err := DecodeHeld(AppendHeld(nil, []Held{{Task: task, Record: c}})); !errors.Is(err, ErrHeld) {
			t.Fatalf("%+v is taken: %v", c, err)
		}
	}
	r.is(task, crdt.StateReady)
}

// TestAFailureOfATaskThatIsNotHereYet: a leader may have a claim from a vote and
// not the enqueue. The worker's word counts all the same.
func TestAFailureOfATaskThatIsNotHereYet(t *testing.T) {
	r := follower(t)
	task := r.ids.Next(r.now.Wall)
	r.acceptRecord(task, r.record(token1), Lacking)
	r.v.Lead(token1>>32 + 1)
	if state, again, err := r.v.Fail(r.tx, task, Failure{Token: token1, Error: "x", Counted: true}, r.now); err != nil || again || state.Finished() {
		t.Fatalf("%v, again %v, %v", state, again, err)
	}
	spec := crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 3}}
	r.merge(spec.Fact(task))
	r.is(task, crdt.StateReady, claim.Failed)
	r.audit()
}
