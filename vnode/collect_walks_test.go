package vnode

import (
	"bytes"
	"errors"
	"iter"
	"testing"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// walkedTx counts the walks over a transaction.
type walkedTx struct {
	store.Tx
	walks int
}

func (c *walkedTx) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	c.walks++
	return c.Tx.Scan(lower, upper)
}

func (c *walkedTx) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	c.walks++
	return c.Tx.Back(lower, upper)
}

// walks counts those of one call.
func (r *rig) walks(call func(tx store.Tx) (bool, error)) int {
	r.t.Helper()
	tx := &walkedTx{Tx: r.tx}
	if done, err := call(tx); !done || err != nil {
		r.t.Fatal(done, err)
	}
	return tx.walks
}

// TestACollectedTaskCostsFewWalks: where each task was walked over seven times on each replica, and
// four times more with its tombstone, servers that had run for a quarter of an hour needed half as
// much again for a task.
func TestACollectedTaskCostsFewWalks(t *testing.T) {
	r := newRig(t)
	ended := func() id.ID {
		task := r.ids.Next(r.now.Wall)
		r.merge(crdt.Enqueued{Queue: "q"}.Fact(task), crdt.Completed{Token: 1 << 32, At: 7}.Fact(task))
		return task
	}
	task, other, first := ended(), ended(), ended()
	r.walks(func(tx store.Tx) (bool, error) { // it looks whether there are any records of claims
		return r.v.Collect(tx, Due{Task: first, State: crdt.StateCompleted, Queue: "q", At: 7}, r.now, func(*crdt.Task) int64 { return 8 })
	})
	if n := r.walks(func(tx store.Tx) (bool, error) {
		return r.v.Collect(tx, Due{Task: task, State: crdt.StateCompleted, Queue: "q", At: 7}, r.now, func(*crdt.Task) int64 { return 8 })
	}); n > 1 {
		t.Errorf("collected in %d walks", n)
	}
	if n := r.walks(func(tx store.Tx) (bool, error) {
		m, err := Merge(r.v, tx, []crdt.Fact{crdt.Tombstone{Outcome: crdt.StateCompleted, At: 7, Collected: 8}.Fact(other)}, r.now)
		return m.Stored == 1, err
	}); n > 1 {
		t.Errorf("buried in %d walks", n)
	}
	for _, task := range []id.ID{task, other} {
		if n := r.walks(func(tx store.Tx) (bool, error) { return Forget(r.v, tx, task, 8) }); n > 0 {
			t.Errorf("forgotten in %d walks", n)
		}
	}
	r.flush()
	r.audit()
}

// TestACollectedTaskLeavesItsTombstone and nothing else, whatever other tables count of it.
func TestACollectedTaskLeavesItsTombstone(t *testing.T) {
	token := uint64(1 << 32)
	for name, facts := range map[string]func(id.ID) []crdt.Fact{
		"a log": func(task id.ID) []crdt.Fact { return []crdt.Fact{crdt.Update{Token: token, Seq: 0}.Fact(task)} },
		"failures": func(task id.ID) (all []crdt.Fact) {
			for n := range uint64(2 * mostEnds) {
				all = append(all, crdt.Failed{Token: token + n, At: 3}.Fact(task))
			}
			return all
		},
	} {
		for _, buried := range []bool{false, true} {
			r := newRig(t)
			task := r.ids.Next(r.now.Wall)
			r.merge(crdt.Enqueued{Queue: "q"}.Fact(task))
			r.merge(facts(task)...)
			if n := r.keysOf(task); n < 3 {
				t.Fatalf("%s: %d keys", name, n)
			}
			r.merge(crdt.Completed{Token: 2 * token, At: 7}.Fact(task))
			if stone := (crdt.Tombstone{Outcome: crdt.StateCompleted, At: 7, Collected: 8}); buried {
				r.merge(stone.Fact(task))
			} else if gone, err := r.v.Collect(r.tx, Due{Task: task, State: crdt.StateCompleted, Queue: "q", At: 7}, r.now, func(*crdt.Task) int64 { return 8 }); !gone || err != nil {
				t.Fatal(gone, err)
			}
			if n := r.keysOf(task); n != 2 { // the fact, and its entry among tombstones
				t.Errorf("%s, buried %v: %d keys", name, buried, n)
			}
		}
	}
}

// TestKeysThatAreNoFactsGoWithTheirTask: nobody can read them, and nobody else would delete them.
func TestKeysThatAreNoFactsGoWithTheirTask(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	for _, tail := range []string{"", "\x01", "\x02", "\x03", "\xff"} { // with kinds of facts, and no more
		r.tx.Set(append(appendTask(nil, tableFacts, 0, task), tail...), []byte("?"))
	}
	held := r.v.shelf.hold(r.tx, task)
	if _, err := held.load(); !errors.Is(err, ErrDamaged) {
		t.Errorf("a view of them: %v", err)
	}
	r.v.shelf.drop(r.tx, held)
	if n := r.keysOf(task); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// keysOf counts the keys that name a task.
func (r *rig) keysOf(task id.ID) (n int) {
	r.flush()
	for key := range r.mem.Scan(nil, nil) {
		if bytes.Contains(key, task[:]) {
			n++
		}
	}
	return n
}

// TestARecordOfAClaimGoesWithItsTask also where the partition had none for long.
func TestARecordOfAClaimGoesWithItsTask(t *testing.T) {
	for _, completed := range []bool{false, true} {
		r := newRig(t)
		collect := func(task id.ID) {
			r.merge(crdt.Completed{Token: 1 << 32, At: 7}.Fact(task))
			if done, err := r.v.Collect(r.tx, Due{Task: task, State: crdt.StateCompleted, Queue: "q", At: 7}, r.now, func(*crdt.Task) int64 { return 8 }); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		first, task := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
		r.merge(crdt.Enqueued{Queue: "q"}.Fact(first))
		collect(first) // the partition has no record
		r.merge(crdt.Enqueued{Queue: "q"}.Fact(task))
		if record := (&claim.Record{Token: 1 << 31, Outcome: claim.Released}); completed {
			run := crdt.Completed{Token: 1 << 31, At: 6, Further: crdt.AppendRun(nil, nil, crdt.Run{Worker: "w", Start: 5})}
			r.v.shelf.keepRun(r.tx, crdt.Completed{Token: 1 << 31, At: 7}.Fact(task), run.Fact(task).Body)
		} else {
			setClaim(r.v, r.tx, tableEnded, task, record)
		}
		if !HasKey(r.tx, appendTask(nil, tableEnded, 0, task)) {
			t.Fatal("no record was written")
		}
		collect(task)
		if HasKey(r.tx, appendPrefix(nil, tableEnded, 0)) {
			t.Errorf("the record of a claim stays without its task (written for a completion: %v)", completed)
		}
	}
}
