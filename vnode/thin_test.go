package vnode

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
)

// TestReleasedClaimsDoNotPileUp: a task that is claimed and given back without end leaves no
// more records than are ever shown, and what failed stays; also where the claims were told
// by a leader.
func TestReleasedClaimsDoNotPileUp(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	if _, err := r.v.Enqueue(r.tx, task, &crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 9}}, r.now); err != nil {
		t.Fatal(err)
	}
	records := func() (n int) {
		prefix := appendTask(nil, tableEnded, r.v.Partition, task)
		for range r.tx.Scan(prefix, after(prefix)) {
			n++
		}
		return n
	}
	for n := range uint64(3 * MaxClaims) {
		if err := AcceptRelease(r.v, r.tx, task, 1+n, r.now); err != nil {
			t.Fatal(err)
		}
	}
	if n := records(); n < MaxClaims || n > MaxClaims+8*thinEvery {
		t.Errorf("of %d claims that a leader has told of %d records are left", 3*MaxClaims, n)
	}
	failed := r.grant().Claims[MaxClaims].Token
	if _, _, err := r.v.Fail(r.tx, task, Failure{Token: failed, RetryAt: r.now.Wall, Counted: true}, r.now); err != nil {
		t.Fatal(err)
	}
	thinned, before := false, records()
	for n := 0; n < 8*thinEvery && !thinned; n++ {
		r.now = r.now.Add(time.Millisecond)
		if err := r.v.Tick(r.tx, r.now); err != nil {
			t.Fatal(err)
		}
		d := r.grant()
		if _, err := r.v.Release(r.tx, task, d.Claims[len(d.Claims)-1].Token, r.now); err != nil {
			t.Fatal(err)
		}
		now := records()
		thinned, before = now < before, now
	}
	if !thinned {
		t.Errorf("a leader leaves %d records", before)
	}
	d, err := ReadTask(r.tx, r.v.Partition, task, ReadOptions{NoLog: true})
	if err != nil || len(d.Claims) != MaxClaims || !slices.ContainsFunc(d.Claims, func(c claim.Record) bool { return c.Token == failed && c.Outcome == claim.Failed }) {
		t.Errorf("%d claims are shown, %v", len(d.Claims), err)
	}
	r.audit()
}
