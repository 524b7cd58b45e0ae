package vnode

import (
	"iter"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/store"
)

// reads counts what a view gives.
type reads struct {
	store.Tx
	n *int
}

func (r reads) each(all iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range all {
			if *r.n++; !yield(k, v) {
				return
			}
		}
	}
}

// Scan implements store.View.
func (r reads) Scan(from, to []byte) iter.Seq2[[]byte, []byte] { return r.each(r.Tx.Scan(from, to)) }

// Back implements store.View.
func (r reads) Back(from, to []byte) iter.Seq2[[]byte, []byte] { return r.each(r.Tx.Back(from, to)) }

// TestAClaimCostsTheSameHoweverManyTheTaskHasHad: it was claimed and given back very often.
func TestAClaimCostsTheSameHoweverManyTheTaskHasHad(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
	cost := func() (n int) {
		d, err := r.v.Grant(reads{r.tx, &n}, "q", Ask{Lease: 10, Claims: 16}, r.now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.v.Release(reads{r.tx, &n}, task, d.Claims[len(d.Claims)-1].Token, r.now); err != nil {
			t.Fatal(err)
		}
		if len(d.Claims) > 17 {
			t.Fatalf("a grant tells of %d claims", len(d.Claims))
		}
		return n
	}
	for range 50 {
		cost()
	}
	early := cost()
	for range 2000 {
		cost()
	}
	if late := cost(); late > early {
		t.Errorf("it reads %d records after 50 claims, and %d after 2,050", early, late)
	}
}
