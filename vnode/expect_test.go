package vnode

import (
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/recent"
)

// expectReads counts what is read.
type expectReads struct {
	store.Tx
	gets, keys int
}

func (r *expectReads) Get(key []byte) ([]byte, bool) {
	r.gets++
	return r.Tx.Get(key)
}

func (r *expectReads) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for key, value := range r.Tx.Scan(lower, upper) {
			if r.keys++; !yield(key, value) {
				return
			}
		}
	}
}

// restored merges tasks as a restore does, and gives how many had nothing to be merged and how many were known otherwise.
func (r *rig) restored(tx store.Tx, tasks [][]crdt.Fact) (same, known int) {
	r.t.Helper()
	there := Expect(r.v, tx, len(tasks), func(i int) []crdt.Fact { return tasks[i] }, true)
	defer there.Done()
	for i, facts := range tasks {
		if there.Same(i) {
			same++
			continue
		}
		if !Unknown(r.v, tx, facts[0].Task) {
			known++
		}
		if _, err := Merge(r.v, tx, facts, r.now); err != nil {
			r.t.Fatal(err)
		}
	}
	return same, known
}

// waiting makes tasks of an hour ago that wait, each by its facts.
func (r *rig) waiting(n int) (tasks [][]crdt.Fact) {
	for i := range n {
		e := crdt.Enqueued{Queue: "q", Payload: []byte{byte(i), byte(i >> 8)}}
		tasks = append(tasks, []crdt.Fact{e.Fact(r.ids.Next(r.now.Wall - int64(time.Hour) + int64(i)*1e6))})
	}
	return tasks
}

// TestARepeatedRestoreIsReadOnce: a request to restore that is repeated looked for each of its tasks three times, so that it
// took longer than the first one. It is one walk, in which what is there and the same is found, and nothing else is looked for.
func TestARepeatedRestoreIsReadOnce(t *testing.T) {
	const many = 500
	r := newRig(t)
	r.v.recent = recent.New(1, r.ids.Next(r.now.Wall)) // they are below its floor, as old ones are
	tasks := r.waiting(many)
	r.restored(r.tx, tasks[:many/2])
	r.flush()
	for _, c := range []struct {
		tasks       [][]crdt.Fact
		same, known int
		why         string
	}{
		{tasks[:many/2], many / 2, 0, "all of it"},
		{tasks, many / 2, 0, "half of it"},
		{tasks, many, 0, "all of it again"},
		{tasks[10:11], 1, 0, "one within the others"},
	} {
		tx := &expectReads{Tx: r.tx}
		same, known := r.restored(tx, c.tasks)
		if same != c.same || known != c.known {
			t.Errorf("%s: %d are the same and %d known, not %d and %d", c.why, same, known, c.same, c.known)
		}
		if tx.gets > 20 || tx.keys > len(c.tasks)+20 {
			t.Errorf("%s: %d keys looked for and %d walked for %d tasks", c.why, tx.gets, tx.keys, len(c.tasks))
		}
		r.flush()
	}
	tx := &expectReads{Tx: r.tx}
	if same, known := r.restored(tx, [][]crdt.Fact{tasks[0], tasks[many-1]}); same+known != 2 || tx.keys > 2*strangers+10 {
		t.Errorf("two tasks with many between them: %d and %d are there, %d keys were walked", same, known, tx.keys)
	}
	r.audit()
}

// TestExpectedIsWhatMergeFinds: whatever is there of tasks, and of others between them: those that are the same change nothing,
// and of those that are not looked for there is nothing.
func TestExpectedIsWhatMergeFinds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 7))
	seen := [3]int{}
	for range 300 {
		r := newRig(t)
		if rnd.IntN(2) == 0 {
			r.v.recent = recent.New(1, r.ids.Next(r.now.Wall))
		}
		put := func(facts ...crdt.Fact) {
			if _, err := Merge(r.v, r.tx, facts, r.now); err != nil {
				t.Fatal(err)
			}
		}
		var come [][]crdt.Fact
		for i, facts := range r.waiting(1 + rnd.IntN(200)) {
			task := facts[0].Task
			done := crdt.Completed{Token: 7, At: r.now.Wall}.Fact(task)
			switch rnd.IntN(8) {
			case 0: // nothing of it is there
			case 1:
				facts = append(facts, done)
				fallthrough
			case 2, 3:
				put(facts...)
			case 4: // less than comes
				put(facts...)
				facts = append(facts, done)
			case 5: // more
				put(append(facts, done)...)
			case 6: // something else
				other := crdt.Enqueued{Queue: "q", Payload: []byte("another")}
				put(other.Fact(task))
			case 7: // no fact, but a claim that has ended
				r.tx.Set(appendClaim(nil, tableEnded, 0, task, 9), []byte{1})
				r.v.recent.Add(task)
			}
			if i == 0 || rnd.IntN(3) > 0 {
				come = append(come, facts)
			}
		}
		if rnd.IntN(2) == 0 {
			r.flush()
		}
		there := Expect(r.v, r.tx, len(come), func(i int) []crdt.Fact { return come[i] }, true)
		for i, facts := range come {
			task := facts[0].Task
			switch {
			case there.Same(i):
				seen[0]++
				if m, err := Merge(r.v, r.tx, facts, r.now); err != nil || m.Known != len(facts) || m.Stored+m.Clashes+m.Refused > 0 {
					t.Fatalf("the same: %+v, %v", m, err)
				}
			case !r.v.recent.Maybe(task):
				seen[1]++
				for _, table := range []byte{tableFacts, tableEnded, tableActive} {
					if HasKey(r.tx, appendTask(nil, table, 0, task)) {
						t.Fatalf("task %d of %d is not looked for, and is in table %d", i, len(come), table)
					}
				}
			default:
				seen[2]++
			}
		}
		there.Done()
	}
	if min(seen[0], seen[1], seen[2]) < 300 {
		t.Errorf("%d were the same, %d not there, %d something else", seen[0], seen[1], seen[2])
	}
}
