package vnode

import (
	"iter"
	"testing"

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
	f := crdt.Completed{Token: d.Claims[0].Token, At: 7}.Fact(d.Task.ID)
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
