package vnode

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/record"
	"github.com/norn-dev/norn/vnode/tally"
)

// stocked enqueues tasks with 105 bytes each to a queue.
func (r *rig) stocked(queue string, n int) (last id.ID) {
	r.t.Helper()
	for range n {
		last = r.ids.Next(r.now.Wall)
		spec := crdt.Enqueued{Queue: queue, Payload: make([]byte, 100), Headers: []crdt.Header{{Key: "abc", Value: "de"}}, Retry: crdt.Retry{MaxAttempts: 2, Initial: time.Second, Max: time.Minute, Multiplier: 2000}}
		if _, err := r.v.Enqueue(r.tx, last, &spec, r.now); err != nil {
			r.t.Fatal(err)
		}
	}
	return last
}

// TestBytesOfAQueue: what its tasks hold, whatever they have come to, also after a restart; of a name without
// a first part nobody counts.
func TestBytesOfAQueue(t *testing.T) {
	r := newRig(t)
	r.stocked("acme/q", 3)
	r.stocked("q", 3)
	want := func(n uint64) {
		t.Helper()
		r.audit()
		if got := Bytes(r.v, "acme/q"); got != n || Bytes(r.v, "q") != 0 || Bytes(r.v, "acme/p") != 0 {
			t.Errorf("%d bytes, there are %d; %d of the other", got, n, Bytes(r.v, "q"))
		}
	}
	want(315)
	grant := func() *Detail {
		t.Helper()
		d, err := r.v.Grant(r.tx, "acme/q", Ask{Worker: "w", Lease: 10 * time.Second}, r.now)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := grant()
	if _, err := r.v.Add(r.tx, crdt.Completed{Token: d.Claims[0].Token, At: r.now.Wall}.Fact(d.Task.ID), r.now); err != nil {
		t.Fatal(err)
	}
	grant()
	want(315)
	r.open()
	want(315)
	due := Due{Task: d.Task.ID, State: crdt.StateCompleted, Queue: "acme/q", At: r.now.Wall}
	if gone, err := r.v.Collect(r.tx, due, r.now, func(*crdt.Task) int64 { return r.now.Wall }); !gone || err != nil {
		t.Fatal(gone, err)
	}
	want(210)
}

// TestBytesOfABuildThatDidNotCount: of what it has changed nothing is known, and there are never fewer than none.
func TestBytesOfABuildThatDidNotCount(t *testing.T) {
	r := newRig(t)
	first := r.stocked("acme/q", 1)
	r.stocked("acme/q", 2)
	r.flush()
	var b store.Batch
	b.Set(appendQueue(nil, tableSizes, 0, "acme/q"), record.AppendSize(nil, 700, &Counts{crdt.StateReady: 2}))
	r.mem.Apply(&b)
	count := tally.New()
	v, err := Open(0, Config{Partitions: 1, Buffer: 5 * time.Second, HeadSize: 3, Tally: count}, r.mem, r.now)
	if err != nil || Bytes(v, "acme/q") != 0 || count.Bytes("acme/") != 0 {
		t.Fatalf("%d bytes, %d of the first part, %v", Bytes(v, "acme/q"), count.Bytes("acme/"), err)
	}
	r.open()
	if _, err := r.v.Add(r.tx, crdt.Cancelled{At: r.now.Wall}.Fact(first), r.now); err != nil {
		t.Fatal(err)
	}
	r.audit()
	if got := Bytes(r.v, "acme/q"); got != 105 {
		t.Errorf("one that was moved is counted, and it has %d bytes", got)
	}
	r.stocked("acme/q", 1)
	r.audit()
	r.open()
	if got := Bytes(r.v, "acme/q"); got != 210 {
		t.Errorf("with one more it has %d bytes", got)
	}
}
