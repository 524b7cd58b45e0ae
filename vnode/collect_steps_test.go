package vnode

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// walkedView is a view that counts the walks over it, and what they give.
type walkedView struct {
	store.View
	walks, steps int
}

func (c *walkedView) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	c.walks++
	return func(yield func([]byte, []byte) bool) {
		for k, v := range c.View.Scan(lower, upper) {
			if c.steps++; !yield(k, v) {
				return
			}
		}
	}
}

// TestALookForWhatMayGoIsBounded: however many queues there are, with finished tasks or
// without, and however many tasks that stay. All that may go are found, each once.
func TestALookForWhatMayGoIsBounded(t *testing.T) {
	const empty, some, late = 3 * maxLook, 3 * maxLook / seekCost, 3 * maxLook
	r := newRig(t)
	add := func(queue string, done bool) (task id.ID) {
		task = r.ids.Next(r.now.Wall)
		facts := []crdt.Fact{crdt.Enqueued{Queue: queue}.Fact(task)}
		if done {
			facts = append(facts, crdt.Completed{Token: 1 << 32, At: 7}.Fact(task))
		}
		r.merge(facts...)
		return task
	}
	left := map[id.ID]bool{}
	for n := range empty {
		add(fmt.Sprintf("a%d", n), false)
	}
	for n := range some {
		left[add(fmt.Sprintf("b%d", n), true)] = true
	}
	left[add("c", true)] = true
	before := r.now.Mono + 1<<arrivalStep
	r.now = r.now.Add(time.Minute)
	for range late { // they have come since
		add("c", true)
	}
	left[add("d", true)] = true
	asked := 0
	cutoff := func(s crdt.State, _ string) int64 {
		if asked++; s == crdt.StateDead {
			return -1
		}
		return 7
	}
	c, view := DuesCursor{}, &walkedView{View: r.tx}
	for calls := 0; ; calls++ {
		asked, view.walks, view.steps = 0, 0, 0
		dues, done := Dues(r.v, view, &c, cutoff, before, 64)
		if asked > 3*maxLook || view.walks > maxLook/seekCost+3 || view.steps > maxLook+64+view.walks {
			t.Fatalf("call %d asks for %d queues, seeks %d times and reads %d records", calls, asked, view.walks, view.steps)
		}
		for _, d := range dues {
			if !left[d.Task] {
				t.Fatalf("%+v is given twice, or is to stay", d)
			}
			delete(left, d.Task)
		}
		if done {
			break
		}
		if calls > 1000 {
			t.Fatal("it never ends")
		}
	}
	if len(left) != 1 { // what came to d is as late as its end
		t.Errorf("%d tasks were not found", len(left))
	}
}

// TestALookForGravesIsBounded, however many tombstones came since what was compared.
func TestALookForGravesIsBounded(t *testing.T) {
	const late, at = 2*maxLook + 10, 7
	r := newRig(t)
	bury := func() id.ID {
		task := r.ids.Next(r.now.Wall)
		r.merge(crdt.Tombstone{Outcome: crdt.StateCompleted, At: at, Collected: at}.Fact(task))
		return task
	}
	want := bury()
	before := r.now.Mono + 1<<arrivalStep
	r.now = r.now.Add(time.Minute)
	for range late {
		bury()
	}
	var got []id.ID
	c, view := GravesCursor{}, &walkedView{View: r.tx}
	for calls, done := 0, false; !done; calls++ {
		view.steps = 0
		var some []id.ID
		some, done = Graves(r.v, view, &c, at, before, 64)
		if got = append(got, some...); view.steps > maxLook+64 || calls > 10 {
			t.Fatalf("call %d reads %d records", calls, view.steps)
		}
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("found %v, not %v", got, want)
	}
}
