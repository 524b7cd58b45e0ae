package vnode

import (
	"iter"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/store"
)

// counted counts the reads of a view.
type counted struct {
	store.Reader
	reads int
}

func (c *counted) Get(key []byte) ([]byte, bool) {
	c.reads++
	return c.Reader.Get(key)
}

func (c *counted) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	c.reads++
	return c.Reader.Scan(from, to)
}

// TestACompletionFromAnotherReplicaReadsNothing: what ends a claim that is known
// here costs a follower no more than its leader, and says the same.
func TestACompletionFromAnotherReplicaReadsNothing(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.enqueue(crdt.Enqueued{})
	}
	d := r.grant()
	r.audit()
	view := &counted{Reader: r.mem}
	r.tx = store.NewOverlay(view)
	f := completion(d.Task.ID, &d.Claims[0], 7)
	m, err := Merge(r.v, r.tx, []crdt.Fact{f}, r.now)
	if err != nil || m.Stored != 1 || view.reads != 0 {
		t.Fatalf("%+v, %v, %d reads", m, err, view.reads)
	}
	r.audit()
	if m, err = Merge(r.v, r.tx, []crdt.Fact{f}, r.now); err != nil || m.Stored != 0 || m.Known != 1 {
		t.Fatalf("again: %+v, %v", m, err)
	}
	if n := r.v.Count("q"); n[crdt.StateCompleted] != 1 || n[crdt.StateReady] != 2 || n[crdt.StateClaimed] != 0 {
		t.Fatalf("counters %v", *n)
	}
	bad := f
	bad.Body = nil
	if _, err := Merge(r.v, r.tx, []crdt.Fact{bad}, r.now); err == nil {
		t.Fatal("a completion without a body was taken")
	}
	if len(r.heard) == 0 {
		t.Fatal("nobody heard of the completion")
	}
	r.audit()
}

// TestAnEnqueueThatComesLastEndsClaims: a member has accepted a claim, and then heard that
// its task was given up, before it gets to know the task, from a client that sends it once
// more. The claim ends as with any other way to know it: the task counted as claimed when
// it was completed after that, and the counters were wrong for good.
func TestAnEnqueueThatComesLastEndsClaims(t *testing.T) {
	for _, want := range []crdt.State{crdt.StateDead, crdt.StateCompleted} {
		r := follower(t)
		task := r.ids.Next(r.now.Wall)
		r.accept(task, token1, Lacking)
		r.merge(crdt.Expired{Token: token1, At: r.now.Wall}.Fact(task), crdt.Dead{At: r.now.Wall}.Fact(task))
		spec := crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 1}}
		if _, err := r.v.Enqueue(r.tx, task, &spec, r.now); err != nil {
			t.Fatal(err)
		}
		if want == crdt.StateCompleted {
			if _, err := r.v.Add(r.tx, crdt.Completed{Token: token1, At: r.now.Wall}.Fact(task), r.now); err != nil {
				t.Fatal(err)
			}
		}
		var counts Counts
		if counts[want] = 1; *r.v.Count("q") != counts {
			t.Errorf("the queue counts %v, its only task is %s", *r.v.Count("q"), want)
		}
		r.audit()
		r.now = r.now.Add(time.Minute)
		r.tick()
		r.audit()
	}
}
