package vnode

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
)

// fail ends a claim of the only task, and gives for how long it is put off.
func (r *rig) fail(f Failure, want crdt.State) (pause time.Duration) {
	r.t.Helper()
	d := r.grant()
	f.Token = d.Claims[len(d.Claims)-1].Token
	got, _, err := r.v.Fail(r.tx, d.Task.ID, f, r.now)
	if err != nil || got != want {
		r.t.Fatalf("%+v: %s, %v, want %s", f, got, err, want)
	}
	if want != crdt.StateScheduled {
		return 0
	}
	wall, _ := r.v.NextWake()
	pause = time.Duration(wall - r.now.Wall)
	r.now = r.now.Add(pause)
	r.tick()
	return pause
}

// TestHowAFailureCounts: the last attempt is the last one; what uses none lets the pauses
// grow all the same, and there is a least one.
func TestHowAFailureCounts(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	var pauses []time.Duration
	for range 3 {
		pauses = append(pauses, r.fail(Failure{Error: "snoozed"}, crdt.StateScheduled))
	}
	if pauses[0] >= pauses[1] || pauses[1] >= pauses[2] {
		t.Errorf("pauses of %v", pauses)
	}
	if p := r.fail(Failure{Error: "busy", AtLeast: time.Hour}, crdt.StateScheduled); p < time.Hour {
		t.Errorf("a pause of %v, not of an hour at least", p)
	}
	r.fail(Failure{Error: "first", Counted: true}, crdt.StateScheduled)
	r.fail(Failure{Error: "second", Counted: true}, crdt.StateDead)
	r.is(task, crdt.StateDead, slices.Repeat([]claim.Outcome{claim.Failed}, 6)...)
}

// TestWhatIsNotCollected: what another task depends on, and what has ended in another way
// since it was seen.
func TestWhatIsNotCollected(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	if _, err := r.v.Add(r.tx, crdt.Completed{Token: 1 << 32, At: 7}.Fact(task), r.now); err != nil {
		t.Fatal(err)
	}
	collect := func(at int64, want bool) {
		t.Helper()
		got, err := r.v.Collect(r.tx, Due{Task: task, State: crdt.StateCompleted, Queue: "q", At: at}, r.now, func(*crdt.Task) int64 { return r.now.Wall })
		if err != nil || got != want {
			t.Errorf("ended at %d: %v, %v, want %v", at, got, err, want)
		}
	}
	dependent := r.ids.Next(r.now.Wall)
	r.v.Edges.Add(r.tx, task, dependent)
	collect(7, false)
	r.v.Edges.Drop(r.tx, task, dependent)
	collect(6, false)
	collect(7, true)
	r.audit()
}

// TestDependentsOutliveThePartition: they are of tasks that are kept here, so what they
// depend on is not collected when it comes back.
func TestDependentsOutliveThePartition(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	r.v.Edges.Add(r.tx, task, r.ids.Next(r.now.Wall))
	r.flush()
	v, err := Blank(0, *r.v.cfg, r.mem, r.now)
	if err != nil || !v.Edges.Any(r.mem, task) {
		t.Errorf("no dependents are left, %v", err)
	}
}

// TestWhatIsKeptAsideIsSomething: a partition with nothing else is not empty.
func TestWhatIsKeptAsideIsSomething(t *testing.T) {
	r := newRig(t)
	if !Empty(r.tx, 0) {
		t.Error("a new partition is not empty")
	}
	task := r.ids.Next(r.now.Wall)
	r.merge(crdt.Update{Token: 1, At: 1}.Fact(task))
	r.setAside(task)
	r.flush()
	if Empty(r.tx, 0) {
		t.Error("what is kept aside counts for nothing")
	}
}

// TestTheLastBlocker is the one after which there is none.
func TestTheLastBlocker(t *testing.T) {
	r := newRig(t)
	task, a, b := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
	Block(r.tx, 0, task, a)
	Block(r.tx, 0, task, b)
	for i, dep := range []id.ID{a, a, b} {
		was, last := Unblock(r.tx, 0, task, dep)
		if was != (i != 1) || last != (i == 2) {
			t.Errorf("step %d: it was there: %v, and the last one: %v", i, was, last)
		}
	}
}

// TestAGrantKnowsOfAClaimBeforeTheTask, which has ended before the enqueue came: its worker
// may have left a checkpoint.
func TestAGrantKnowsOfAClaimBeforeTheTask(t *testing.T) {
	r := follower(t)
	task := r.ids.Next(r.now.Wall)
	r.accept(task, token1, Lacking)
	r.release(task, token1)
	spec := crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 2, Initial: time.Second, Max: time.Minute, Multiplier: 2000}}
	if _, err := r.v.Enqueue(r.tx, task, &spec, r.now); err != nil {
		t.Fatal(err)
	}
	r.v.Lead(4)
	if d := r.grant(); len(d.Claims) != 2 || d.Claims[0].Token != token1 {
		t.Errorf("claims %+v", d.Claims)
	}
}

// TestAnEndThatIsToldOf: those who wait for a task hear of its end, also where its enqueue is
// not here yet, or all that comes is a tombstone; and what another spec depended on is told.
func TestAnEndThatIsToldOf(t *testing.T) {
	r := newRig(t)
	var finished, unlinked []id.ID
	r.v.cfg.OnFinish = func(_ ring.Partition, task id.ID, _ bool) { finished = append(finished, task) }
	r.v.cfg.OnUnlink = func(task id.ID, _ []id.ID) { unlinked = append(unlinked, task) }
	a, b, c := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
	if _, err := r.v.Add(r.tx, crdt.Completed{Token: 1, At: 1}.Fact(a), r.now); err != nil {
		t.Fatal(err)
	}
	r.merge(crdt.Completed{Token: 1, At: 1}.Fact(b))
	r.merge(crdt.Tombstone{Outcome: crdt.StateCompleted, At: 1, Collected: r.now.Wall}.Fact(c))
	if !slices.Equal(finished, []id.ID{a, b, c}) {
		t.Errorf("told of %v, want %v, %v and %v", finished, a, b, c)
	}
	first := crdt.Enqueued{Queue: "q", Dependencies: []id.ID{a}}
	second := crdt.Enqueued{Queue: "q", Dependencies: []id.ID{b}}
	task := r.ids.Next(r.now.Wall)
	one, other := first.Fact(task), second.Fact(task)
	if !crdt.Wins(other.Body, one.Body) {
		one, other = other, one
	}
	r.merge(one)
	r.merge(other)
	if !slices.Equal(unlinked, []id.ID{task}) {
		t.Errorf("unlinked %v, want %v", unlinked, task)
	}
}

// TestOnlyALeaderRenews, and a leader that is elected twice before it has looked at the time
// takes no claim for its own: others may have renewed it between.
func TestOnlyALeaderRenews(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	token := r.grant().Claims[0].Token
	r.v.Follow()
	if _, err := r.v.Renew(r.tx, task, token, time.Minute, r.now); !errors.Is(err, claim.ErrLost) {
		t.Errorf("a follower renews: %v", err)
	}
	r.now = r.now.Add(4 * time.Second)
	r.v.Lead(4)
	r.v.Lead(5)
	r.tick()
	r.wakes(15 * time.Second)
	r.is(task, crdt.StateReady, claim.Expired)
}

// TestASuspendedClaimCountsFromTheTakeover, as others do: its renewal may have passed the new
// leader by.
func TestASuspendedClaimCountsFromTheTakeover(t *testing.T) {
	r, task, _ := suspends(t)
	r.now = r.now.Add(4 * time.Second)
	r.v.Lead(4)
	if _, mono := r.v.NextWake(); mono > r.now.Mono {
		t.Error("the takeover is not noted")
	}
	r.tick()
	r.now = r.now.Add(14 * time.Second) // of 15 from the takeover, and 18 from the grant
	r.tick()
	if r.v.suspended.Lookup(task) == nil {
		t.Error("the claim has ended by the time of before")
	}
}

// TestDuesAreThoseThatWereHere: by when the end came here, not by when the task has ended. What
// an earlier process has written was here.
func TestDuesAreThoseThatWereHere(t *testing.T) {
	r := newRig(t)
	var tasks []id.ID
	var came []int64
	for range 2 {
		tasks = append(tasks, r.enqueue(crdt.Enqueued{}))
		r.now = r.now.Add(time.Minute)
		if _, err := r.v.Add(r.tx, crdt.Completed{Token: 1 << 32, At: 7}.Fact(tasks[len(tasks)-1]), r.now); err != nil {
			t.Fatal(err)
		}
		came = append(came, r.now.Mono)
	}
	want := func(before int64, n int) {
		t.Helper()
		var c DuesCursor
		dues, done := Dues(r.v, r.tx, &c, func(crdt.State, string) int64 { return 7 }, before, 10)
		if len(dues) != n || !done || n > 0 && dues[0].Task != tasks[0] {
			t.Errorf("of what came up to %d: %+v", before, dues)
		}
	}
	want(came[0]-1, 0)
	want(came[0]+1<<arrivalStep, 1)
	want(came[1]-1, 1)
	want(came[1]+1<<arrivalStep, 2)
	r.restart()
	want(came[0]-1, 2)
}

// TestALateCompletionIsTheEndOfItsClaim, whatever had become of that before; the claims after it
// are not touched, and neither is one whose completion does not count.
func TestALateCompletionIsTheEndOfItsClaim(t *testing.T) {
	ends := map[claim.Outcome]func(*rig, id.ID, uint64){
		claim.Expired: func(r *rig, _ id.ID, _ uint64) {
			for wall, mono := r.v.NextWake(); r.v.claims.Len() > 0; wall, mono = r.v.NextWake() {
				r.now = r.now.Add(max(1, min(time.Duration(mono-r.now.Mono), time.Duration(wall-r.now.Wall))))
				r.tick()
			}
		},
		claim.Released: func(r *rig, task id.ID, token uint64) { r.release(task, token) },
		claim.Failed: func(r *rig, task id.ID, token uint64) {
			if _, _, err := r.v.Fail(r.tx, task, Failure{Token: token, RetryAt: 1, Counted: true}, r.now); err != nil {
				t.Fatal(err)
			}
		},
	}
	for outcome, end := range ends {
		r := newRig(t)
		task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
		token := r.grant().Claims[0].Token
		end(r, task, token)
		r.is(task, crdt.StateReady, outcome)
		end(r, task, r.grant().Claims[1].Token)
		r.is(task, crdt.StateReady, outcome, outcome)
		r.merge(crdt.Completed{Token: token, At: r.now.Wall}.Fact(task))
		r.merge(crdt.Completed{Token: token + 1, At: r.now.Wall + 1}.Fact(task))
		r.is(task, crdt.StateCompleted, claim.Completed, outcome)
	}
}
