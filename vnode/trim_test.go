package vnode

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"

	"pgregory.net/rapid"
)

// tallied is what a bounded history must not change.
func tallied(t *crdt.Task) string {
	return fmt.Sprint(t.Attempts(), t.Failures(), t.Outcome(), t.Generation(), t.RuledOut(), t.Retries())
}

func endsHere(t *rapid.T, view store.View, task id.ID) int {
	all, err := endsFrom(view, 0, task, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestABoundedHistoryCountsTheSame: the leader, which has all facts of a task, counts the
// older ones; others have some of them, or more come again, in any order: all come to the
// same facts, with as many attempts and failures as all of them say.
func TestABoundedHistoryCountsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCohort(t, 2)
		lead, other := c.all[0], c.all[1]
		lead.v.cfg.History = rapid.IntRange(1, 40).Draw(t, "kept")
		task := c.ids.Next(c.now.Wall)
		facts := tried(t, task)
		merge := func(r *replica, some []crdt.Fact) {
			t.Helper()
			if len(some) == 0 {
				return
			}
			_, err := Merge(r.v, r.tx, some, c.now)
			c.check(err)
			r.flush()
			c.check(Audit(r.mem, 0))
		}
		merge(lead, facts)
		whole, err := loadAll(lead.mem, 0, task)
		c.check(err)
		want := tallied(whole)
		merge(other, rapid.SliceOfDistinct(rapid.SampledFrom(facts), func(f crdt.Fact) string { return string(f.Key.Append(nil)) + string(f.Body) }).Draw(t, "known to the other"))
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			before := endsHere(t, lead.mem, task)
			n, err := Trim(lead.v, lead.tx, task, math.MaxInt64)
			c.check(err)
			lead.flush()
			c.check(Audit(lead.mem, 0))
			if left := endsHere(t, lead.mem, task); left != before-n || n == 0 && left >= lead.v.cfg.History+trimStep {
				t.Fatalf("%d of %d were counted, %d are left of %d to keep", n, before, left, lead.v.cfg.History)
			}
		}
		for range rapid.IntRange(1, 2).Draw(t, "comparisons") {
			for _, pair := range [][2]*replica{{lead, other}, {other, lead}} {
				all, err := Facts(pair[0].mem, 0, task)
				c.check(err)
				merge(pair[1], rapid.Permutation(all).Draw(t, "order"))
			}
		}
		for _, r := range c.all {
			merge(r, rapid.Permutation(facts).Draw(t, "once more"))
			got, err := LoadTask(r.mem, 0, task)
			c.check(err)
			if tallied(got) != want {
				t.Fatalf("%s, want %s", tallied(got), want)
			}
		}
		a, err := Facts(lead.mem, 0, task)
		c.check(err)
		b, err := Facts(other.mem, 0, task)
		c.check(err)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("one has %v, the other %v", a, b)
		}
	})
}

// TestAHistoryIsBounded: of 500 attempts few facts and claims are left, and they tell of the
// first three and of the last ones, by number.
func TestAHistoryIsBounded(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 1000, Multiplier: 1000}})
	most := 0
	for n := range 500 {
		d, err := r.v.Grant(r.tx, "q", Ask{Worker: fmt.Sprint("w", n+1), Lease: time.Second, Claims: 16}, r.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Task.Attempts(); got != n {
			t.Fatalf("%d attempts before attempt %d", got, n+1)
		}
		if n%3 == 0 {
			r.now = r.now.Add(time.Minute)
			r.tick()
		} else if _, _, err := r.v.Fail(r.tx, task, Failure{Token: d.Claims[len(d.Claims)-1].Token, Error: fmt.Sprint("e", n+1), Counted: true}, r.now); err != nil {
			t.Fatal(err)
		}
		r.now = r.now.Add(time.Second)
		r.tick()
		if tasks, _ := Trims(r.v, r.tx, id.ID{}, 10); len(tasks) > 0 {
			if _, err := Trim(r.v, r.tx, tasks[0], r.now.Wall); err != nil {
				t.Fatal(err)
			}
		}
		r.flush()
		facts, err := Facts(r.mem, 0, task)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(facts))
	}
	r.audit()
	if most > crdt.LastAttempts+trimStep+4 {
		t.Errorf("up to %d facts", most)
	}
	records := 0
	prefix := appendTask(nil, tableEnded, 0, task)
	for range r.mem.Scan(prefix, after(prefix)) {
		records++
	}
	if records > crdt.LastAttempts+trimStep {
		t.Errorf("%d claims are left", records)
	}
	all := r.attempts(task)
	if len(all) != crdt.FirstAttempts+crdt.LastAttempts || all[1].Worker != "w2" || all[1].Error != "e2" || all[0].By != crdt.KindExpired {
		t.Fatalf("%d attempts, %+v", len(all), all[:min(3, len(all))])
	}
	for i, a := range all {
		if want := uint64(i + 1); i < crdt.FirstAttempts && a.Number != want || i >= crdt.FirstAttempts && a.Number != want+450 {
			t.Errorf("attempt %d has number %d", i, a.Number)
		}
	}
	r.now = r.now.Add(time.Second)
	dead, err := LoadTask(r.mem, 0, task)
	if err != nil || dead.Attempts() != 500 {
		t.Errorf("%d attempts, %v", dead.Attempts(), err)
	}
}

// TestWhatIsNotCountedYet: what is young, what is below an open claim, and by whom does not
// lead.
func TestWhatIsNotCountedYet(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 1000}})
	for token := uint64(1); token <= 100; token++ {
		r.v.shelf.put(r.tx, crdt.Failed{Token: token, At: int64(token), Counted: true}.Fact(task), nil)
	}
	trim := func(before int64, want int) {
		t.Helper()
		if n, err := Trim(r.v, r.tx, task, before); err != nil || n != want {
			t.Errorf("%d were counted, %v; want %d", n, err, want)
		}
	}
	trim(52, 0)
	r.v.Follow()
	trim(1000, 0)
	r.v.Lead(1)
	held := claim.Record{Token: 50, Lease: time.Minute}
	r.v.claims.Recover(task, claim.Brief{}, held, r.now)
	trim(1000, 0)
	r.v.claims.End(task, 50)
	trim(1000, 53)
}

// TestAClaimBelowTheCountIsOver: a grant that comes late, or is held by a member that was away.
func TestAClaimBelowTheCountIsOver(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{})
	p := Proposed{Task: task, Record: r.record(token1)}
	if verdict, _, err := Accept(r.v, r.tx, p, Judge{}, r.now); err != nil || verdict != Accepted {
		t.Fatal(verdict, err)
	}
	o := crdt.Older{Ends: crdt.Ends{Below: token1 + 9, Attempts: 3}, Claims: 3}
	if _, err := Merge(r.v, r.tx, []crdt.Fact{o.Fact(task)}, r.now); err != nil {
		t.Fatal(err)
	}
	if EntryOf(r.v, task).Of(token1) != nil {
		t.Error("it is held still")
	}
	p.Record.Token++
	if verdict, _, err := Accept(r.v, r.tx, p, Judge{}, r.now); err != nil || verdict != Stale {
		t.Errorf("%v, %v", verdict, err)
	}
	r.flush()
	r.audit()
}
