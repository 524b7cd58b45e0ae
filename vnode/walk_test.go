package vnode

import (
	"iter"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

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
	further := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), large)
	headers := []crdt.Header{{Key: "k", Value: "v"}}
	tasks := map[id.ID]bool{ // and whether something is left out
		r.enqueue(crdt.Enqueued{Payload: large[:100]}):                                      false,
		r.enqueue(crdt.Enqueued{Payload: large, Key: "key", Headers: headers, Priority: 3}): true,
		r.enqueue(crdt.Enqueued{Further: further}):                                          true,
	}
	long, done := r.enqueue(crdt.Enqueued{Payload: []byte("x")}), r.enqueue(crdt.Enqueued{})
	tasks[long], tasks[done] = true, true
	for n := range uint64(50) {
		r.put(crdt.Update{Token: 1 << 32, Seq: n, Data: large[:1000]}.Fact(long))
	}
	r.put(crdt.Completed{Token: 1 << 32, At: 7, Result: large, Further: further}.Fact(done))
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
			size := len(d.Task.Enqueued.Payload) + len(d.Task.Enqueued.Further)
			for _, u := range d.Task.VisibleUpdates() {
				size += len(u.Data)
			}
			if c := d.Task.Completion(); c != nil {
				size += len(c.Result) + len(c.Further)
			}
			is := full[d.Task.ID]
			if size > leanBytes || d.Lean != tasks[d.Task.ID] || is.Lean {
				t.Errorf("%d bytes of a task, lean: %v, %v", size, d.Lean, is.Lean)
			}
			is.Task.Enqueued.Payload, d.Task.Enqueued.Payload = nil, nil
			is.Task.Enqueued.Further, d.Task.Enqueued.Further = nil, nil
			if !reflect.DeepEqual(d.Task.Enqueued, is.Task.Enqueued) || d.State != is.State || d.Task.FinishedAt() != is.Task.FinishedAt() {
				t.Errorf("it is %v %v, want %v %v", d.State, d.Task.Enqueued, is.State, is.Task.Enqueued)
			}
		}
	}
	if seen != 2*len(tasks) {
		t.Errorf("%d tasks", seen)
	}
}

// TestALogIsReadInPages: however it is cut, what comes is what is visible.
func TestALogIsReadInPages(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	r.put(crdt.Update{Token: 9, Data: []byte("of another one")}.Fact(r.enqueue(crdt.Enqueued{})))
	for _, u := range [][2]uint64{{3, 0}, {3, 1}, {3, 2}, {4, 1}, {5, 0}, {5, 1}, {5, 3}, {5, 4}, {6, 0}} { // 4:0 and 5:2 are missing
		r.put(crdt.Update{Token: u[0], Seq: u[1], Data: []byte{byte(u[0]), byte(u[1])}}.Fact(task))
	}
	r.put(crdt.Completed{Token: 6, Seq: 1}.Fact(task))
	r.flush()
	d, err := ReadTask(r.tx, r.v.Partition, task, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := d.Task.VisibleUpdates()
	if len(want) != 6 {
		t.Fatalf("visible are %v", want)
	}
	for _, page := range [][2]int{{1, 1000}, {2, 1000}, {3, 1000}, {1000, 1000}, {1000, 1}, {1000, 3}} {
		var got []crdt.Update
		for from, more := (LogAfter{}), true; more; {
			var all []crdt.Update
			if all, more, err = Log(r.tx, r.v.Partition, task, from, page[0], page[1]); err != nil || len(all) == 0 || len(all) > page[0] {
				t.Fatalf("after %v come %v, %v", from, all, err)
			}
			got = append(got, all...)
			from = LogAfter{true, got[len(got)-1].Token, got[len(got)-1].Seq}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("in pages of %v: %v", page, got)
		}
	}
	for from, n := range map[LogAfter]int{
		{true, 6, 0}: 0, {true, 5, 2}: 1, {true, 5, 1}: 1, {true, 4, 7}: 3, {true, 1, 1<<64 - 1}: 6, {true, 1<<64 - 1, 1<<64 - 1}: 0,
	} {
		if all, more, err := Log(r.tx, r.v.Partition, task, from, 1000, 1000); err != nil || more || len(all) != n {
			t.Errorf("after %v come %v, more: %v, %v", from, all, more, err)
		}
	}
}
