package vnode

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// attempts are those of a task by what they say.
func (r *rig) attempts(task id.ID) []crdt.Attempt {
	r.t.Helper()
	r.flush()
	d, err := ReadTask(r.mem, 0, task, ReadOptions{Attempts: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return d.Attempts
}

// TestAnAttemptSaysWhenItEnded: not when its lease would have. A task that fails twice within
// a second and is completed by a third worker was never running twice at once.
func TestAnAttemptSaysWhenItEnded(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9, Initial: 100 * time.Millisecond, Max: time.Second, Multiplier: 1000}})
	begin := r.now.Wall
	ms := func(n int64) int64 { return begin + n*int64(time.Millisecond) }
	r.now = r.now.Add(200 * time.Millisecond)
	for _, worker := range []string{"a", "b"} {
		d, err := r.v.Grant(r.tx, "q", Ask{Worker: worker, Lease: 30 * time.Second}, r.now)
		if err != nil {
			t.Fatal(err)
		}
		r.now = r.now.Add(300 * time.Millisecond)
		f := Failure{Token: d.Claims[len(d.Claims)-1].Token, Error: "no luck for " + worker, Counted: worker == "a"}
		if _, _, err := r.v.Fail(r.tx, task, f, r.now); err != nil {
			t.Fatal(err)
		}
		r.now = r.now.Add(150 * time.Millisecond)
		r.tick()
	}
	d, err := r.v.Grant(r.tx, "q", Ask{Worker: "c", Lease: 30 * time.Second}, r.now)
	if err != nil {
		t.Fatal(err)
	}
	token := d.Claims[len(d.Claims)-1].Token
	r.now = r.now.Add(time.Second)
	held := EntryOf(r.v, task).Of(token)
	done := crdt.Completed{Token: token, At: r.now.Wall, Further: crdt.AppendRun(nil, nil, crdt.Run{Worker: held.Worker, Start: held.Start})}
	if _, err := r.v.Add(r.tx, done.Fact(task), r.now); err != nil {
		t.Fatal(err)
	}
	got, want := r.attempts(task), []crdt.Attempt{
		{Number: 1, By: crdt.KindFailed, Run: crdt.Run{Worker: "a", Start: ms(200)}, Ready: begin, End: ms(500), Error: "no luck for a", Counted: true},
		{Number: 2, By: crdt.KindFailed, Run: crdt.Run{Worker: "b", Start: ms(650)}, Ready: ms(600), End: ms(950), Error: "no luck for b"},
		{Number: 3, By: crdt.KindCompleted, Run: crdt.Run{Worker: "c", Start: ms(1100)}, Ready: ms(1050), End: ms(2100), Counted: true},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range got {
		got[i].Token, got[i].RetryAt = 0, 0
		if got[i] != want[i] {
			t.Errorf("attempt %d: %+v\nwant %+v", i+1, got[i], want[i])
		}
	}
}

// TestAnExpiredAttemptSaysWhoseItWas: also on a replica that has not heard of the claim.
func TestAnExpiredAttemptSaysWhoseItWas(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	if _, err := r.v.Grant(r.tx, "q", Ask{Worker: "lost", Lease: time.Second}, r.now); err != nil {
		t.Fatal(err)
	}
	start := r.now.Wall
	r.now = r.now.Add(time.Minute)
	r.tick()
	r.flush()
	facts, err := Facts(r.mem, 0, task)
	if err != nil {
		t.Fatal(err)
	}
	other := newRig(t)
	if _, err := Merge(other.v, other.tx, facts, r.now); err != nil {
		t.Fatal(err)
	}
	for _, all := range [][]crdt.Attempt{r.attempts(task), other.attempts(task)} {
		if len(all) != 1 || all[0].Worker != "lost" || all[0].Start != start || all[0].End != r.now.Wall || all[0].By != crdt.KindExpired {
			t.Errorf("%+v", all)
		}
	}
}

// TestAttemptsOfBeforeAreShownAsFarAsTheyTell: facts of an older build do not say who had the
// claim; where the claim is stored it does.
func TestAttemptsOfBeforeAreShownAsFarAsTheyTell(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	setClaim(r.v, r.tx, tableEnded, task, &claim.Record{Token: 1, Worker: "w", Start: 5, End: 99, Outcome: claim.Failed})
	for _, f := range []crdt.Fact{crdt.Failed{Token: 1, At: 8, Error: "e"}.Fact(task), crdt.Expired{Token: 2, At: 9}.Fact(task)} {
		r.v.shelf.put(r.tx, f, nil)
	}
	all := r.attempts(task)
	if len(all) != 2 || all[0].Worker != "w" || all[0].Start != 5 || all[0].End != 8 || all[1].Worker != "" || all[1].Start != 0 || all[1].End != 9 {
		t.Errorf("%+v", all)
	}
}

// TestOfManyAttemptsTheFirstAndTheLastAreGiven: three and 47, by their numbers.
func TestOfManyAttemptsTheFirstAndTheLastAreGiven(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 1000}})
	for token := uint64(1); token <= 120; token++ {
		r.v.shelf.put(r.tx, crdt.Failed{Token: token, Error: "e", Counted: true}.Fact(task), nil)
	}
	all := r.attempts(task)
	var numbers []uint64
	for _, a := range all {
		numbers = append(numbers, a.Number)
	}
	if len(all) != 50 || fmt.Sprint(numbers[:4]) != "[1 2 3 74]" || numbers[49] != 120 {
		t.Errorf("%d", numbers)
	}
}

// TestWhatCompletesAfterItsLeaseIsOneAttempt: it expired, and its completion counts.
func TestWhatCompletesAfterItsLeaseIsOneAttempt(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	for _, f := range []crdt.Fact{
		crdt.Expired{Token: 1, At: 9, Further: crdt.AppendRun(nil, nil, crdt.Run{Worker: "w", Start: 3})}.Fact(task),
		crdt.Completed{Token: 1, At: 12}.Fact(task), crdt.Completed{Token: 0, At: 13}.Fact(task),
	} {
		r.v.shelf.put(r.tx, f, nil)
	}
	if all := r.attempts(task); len(all) != 1 || all[0].By != crdt.KindCompleted || all[0].Worker != "w" || all[0].End != 12 {
		t.Errorf("%+v", all)
	}
}
