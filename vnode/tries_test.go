package vnode

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"

	"pgregory.net/rapid"
)

// tried are facts of a task that has failed and expired often, and was retried, some of them.
func tried(t *rapid.T, task id.ID) (facts []crdt.Fact) {
	facts = append(facts, crdt.Enqueued{Queue: "q", NotBefore: 7, Retry: crdt.Retry{MaxAttempts: 3}}.Fact(task))
	n := rapid.IntRange(0, 5*mostEnds).Draw(t, "claims")
	for token := uint64(1); token <= uint64(n); token++ {
		how := rapid.IntRange(0, 9).Draw(t, "end")
		if how < 6 {
			facts = append(facts, crdt.Failed{Token: token, Error: fmt.Sprint("e", token), At: int64(token), RetryAt: int64(10 * token), Counted: how < 4}.Fact(task))
		}
		if how > 4 && how < 9 {
			facts = append(facts, crdt.Expired{Token: token, At: int64(token)}.Fact(task))
		}
	}
	for generation := range rapid.IntRange(0, 3).Draw(t, "retries") {
		facts = append(facts, crdt.Requeued{Generation: uint64(generation + 1), AfterToken: uint64(rapid.IntRange(0, n).Draw(t, "after")), At: 1}.Fact(task))
	}
	if rapid.IntRange(0, 4).Draw(t, "again") == 0 && n > 0 { // another leader says it otherwise
		token := uint64(rapid.IntRange(1, n).Draw(t, "twice"))
		facts = append(facts, crdt.Failed{Token: token, Error: "other", At: 0, Counted: rapid.Bool().Draw(t, "counted")}.Fact(task))
	}
	return facts
}

// TestCountedEndsSayWhatTheFactsSay: however facts arrive, in whichever order and how often,
// what is counted of them leads to the same as reading all of them, on each replica, and the
// two come to the same.
func TestCountedEndsSayWhatTheFactsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCohort(t, 2)
		task := c.ids.Next(c.now.Wall)
		facts := tried(t, task)
		for i, r := range c.all {
			order := facts
			if i > 0 || rapid.Bool().Draw(t, "shuffled") {
				order = rapid.Permutation(facts).Draw(t, "order")
			}
			for rest := order; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "together")
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					_, err := Merge(r.v, r.tx, rest[:n], c.now)
					c.check(err)
				}
				rest = rest[n:]
				short, err := LoadTask(r.tx, 0, task)
				c.check(err)
				whole, err := loadAll(r.tx, 0, task)
				c.check(err)
				if a, b := summed(short), summed(whole); a != b {
					t.Fatalf("counted %s, by the facts %s", a, b)
				}
			}
			r.flush()
			c.check(Audit(r.mem, 0))
		}
		a, err := LoadTask(c.all[0].tx, 0, task)
		c.check(err)
		b, err := LoadTask(c.all[1].tx, 0, task)
		c.check(err)
		if summed(a) != summed(b) {
			t.Fatalf("one replica says %s, the other %s", summed(a), summed(b))
		}
		for _, r := range c.all {
			r.v.shelf.drop(r.tx, r.v.shelf.hold(r.tx, task))
			if _, left := endsOf(r.tx, 0, task); left {
				t.Fatal("the count of a task that is gone stays")
			}
		}
	})
}

// summed is what is decided by.
func summed(t *crdt.Task) string {
	return fmt.Sprint(t.Attempts(), t.Failures(), t.NotBefore(), t.Error(), t.BacksOff(), t.RuledOut(), t.Outcome(), t.Generation())
}

// reading counts what is read of a view.
type reading struct {
	store.View
	n int
}

func (r *reading) Get(key []byte) ([]byte, bool) {
	r.n++
	return r.View.Get(key)
}

func (r *reading) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return r.counted(r.View.Scan(from, to))
}
func (r *reading) Back(from, to []byte) iter.Seq2[[]byte, []byte] {
	return r.counted(r.View.Back(from, to))
}

func (r *reading) counted(all iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, value := range all {
			if r.n++; !yield(key, value) {
				return
			}
		}
	}
}

// TestAnOldHistoryIsNotRead: what a decision reads of a task does not grow with its failures
// and expiries, before and after a retry, and neither does what one more of them reads.
func TestAnOldHistoryIsNotRead(t *testing.T) {
	r := newRig(t)
	var most []int
	for _, n := range []uint64{100, 3200} {
		task := r.enqueue(crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 1 << 30}})
		for token := uint64(1); token <= n; token++ {
			f := crdt.Failed{Token: token, Error: "e", Counted: token%2 == 0}.Fact(task)
			if token%3 == 0 {
				f = crdt.Expired{Token: token}.Fact(task)
			}
			r.v.shelf.put(r.tx, f, nil)
		}
		for generation := range uint64(3) {
			view := &reading{View: r.tx}
			if _, err := LoadTask(view, 0, task); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadTask(view, 0, task, ReadOptions{Claims: 16, Until: 1 << 32}); err != nil {
				t.Fatal(err)
			}
			most = append(most, view.n)
			r.v.shelf.put(r.tx, crdt.Requeued{Generation: generation + 1, AfterToken: n - 50 + generation}.Fact(task), nil)
		}
	}
	if least := slices.Min(most); slices.Max(most) > least+3*mostEnds {
		t.Errorf("read %d facts", most)
	}
}
