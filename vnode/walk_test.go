package vnode

import (
	"iter"
	"reflect"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// ending is a view whose reader ends at one of its scans, as one does when what it
// reads is damaged.
type ending struct {
	store.View
	left *int
}

func (v ending) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		if *v.left--; *v.left == 0 {
			panic("the disk is damaged")
		}
		v.View.Scan(lower, upper)(yield)
	}
}

// TestAWalkThatCannotGoOnSaysWhy: where the second of its scans of claims ended it, a
// walk that was left fell over the missing one (simulator, seed 68 of clusters).
func TestAWalkThatCannotGoOnSaysWhy(t *testing.T) {
	r := newRig(t)
	r.enqueue(crdt.Enqueued{})
	ended := false
	for at := 1; !ended; at++ {
		left := at
		func() {
			defer func() {
				if why := recover(); why != nil && why != "the disk is damaged" {
					t.Errorf("at scan %d: %v", at, why)
				}
			}()
			for _, err := range Walk(ending{r.tx, &left}, r.v.Partition, id.ID{}, nil) {
				if err != nil {
					t.Error(err)
				}
			}
			ended = true
		}()
		if ended && at < 4 {
			t.Errorf("%d scans were enough: facts, ended and active claims are read", at-1)
		}
	}
}

// TestALeanWalkHoldsLittle of each task, and says the same of it otherwise.
func TestALeanWalkHoldsLittle(t *testing.T) {
	r := newRig(t)
	large := make([]byte, 100<<10)
	headers := []crdt.Header{{Key: "k", Value: "v"}}
	tasks := map[id.ID]bool{ // and whether something is left out
		r.enqueue(crdt.Enqueued{Payload: large[:100]}):                                      false,
		r.enqueue(crdt.Enqueued{Payload: large, Key: "key", Headers: headers, Priority: 3}): true,
	}
	long, done := r.enqueue(crdt.Enqueued{Payload: []byte("x")}), r.enqueue(crdt.Enqueued{})
	tasks[long], tasks[done] = true, true
	for n := range uint64(50) {
		r.put(crdt.Update{Token: 1 << 32, Seq: n, Data: large[:1000]}.Fact(long))
	}
	r.put(crdt.Completed{Token: 1 << 32, At: 7, Result: large}.Fact(done))
	r.flush()
	full := map[id.ID]*Detail{}
	for d, err := range Walk(r.tx, r.v.Partition, id.ID{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		full[d.Task.ID] = d
	}
	seen := 0
	walk := WalkLean(r.tx, r.v.Partition, id.ID{}, nil)
	for range 2 { // it may be walked again
		for d, err := range walk {
			if err != nil {
				t.Fatal(err)
			}
			seen++
			size := len(d.Task.Enqueued.Payload)
			for _, u := range d.Task.VisibleUpdates() {
				size += len(u.Data)
			}
			if c := d.Task.Completion(); c != nil {
				size += len(c.Result)
			}
			is := full[d.Task.ID]
			if size > leanBytes || d.Lean != tasks[d.Task.ID] || is.Lean {
				t.Errorf("%d bytes of a task, lean: %v, %v", size, d.Lean, is.Lean)
			}
			is.Task.Enqueued.Payload, d.Task.Enqueued.Payload = nil, nil
			if !reflect.DeepEqual(d.Task.Enqueued, is.Task.Enqueued) || d.State != is.State || d.Task.FinishedAt() != is.Task.FinishedAt() {
				t.Errorf("it is %v %v, want %v %v", d.State, d.Task.Enqueued, is.State, is.Task.Enqueued)
			}
		}
	}
	if seen != 2*len(tasks) {
		t.Errorf("%d tasks", seen)
	}
}
