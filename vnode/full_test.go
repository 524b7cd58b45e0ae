package vnode

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
)

// TestClaimsOfAPartitionFitAVote: with more claims than fit one message nobody could lead
// the partition any more. At the limit nothing is granted nor offered, and with the first
// claim that ends it goes on.
func TestClaimsOfAPartitionFitAVote(t *testing.T) {
	h := Held{Task: id.ID{1}, Record: claim.Record{Token: math.MaxUint64, Worker: strings.Repeat("w", 256), Lease: clock.MaxLease}}
	if n := MaxClaimed * (len(AppendHeld(nil, []Held{h})) - 1); n > 90<<20 {
		t.Errorf("the claims of a partition take up to %d bytes in a vote", n)
	}
	r := newRig(t)
	offers := map[string]bool{}
	r.v.cfg.OnHead = func(_ ring.Partition, queue string, min *claim.Rank) { offers[queue] = min != nil }
	r.v.cfg.MaxClaims = 2
	add := func(queue string) {
		if _, err := r.v.Enqueue(r.tx, r.ids.Next(r.now.Wall), &crdt.Enqueued{Queue: queue, Retry: crdt.Retry{MaxAttempts: 2}}, r.now); err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range []string{"q", "q", "q", "other"} {
		add(queue)
	}
	first := r.grant()
	if !offers["q"] || !offers["other"] {
		t.Fatalf("below the limit: %v", offers)
	}
	r.grant()
	if _, err := r.v.Grant(r.tx, "q", Ask{Worker: "w", Lease: time.Minute}, r.now); !errors.Is(err, ErrNothing) || offers["q"] || offers["other"] {
		t.Fatalf("at the limit: %v, %v", err, offers)
	}
	add("new")
	if offers["new"] {
		t.Error("a new queue is offered at the limit")
	}
	if _, err := r.v.Release(r.tx, first.Task.ID, first.Claims[0].Token, r.now); err != nil {
		t.Fatal(err)
	}
	if !offers["q"] || !offers["other"] || !offers["new"] {
		t.Errorf("below it again: %v", offers)
	}
	r.grant()
	r.audit()
}
