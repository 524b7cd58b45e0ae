package vnode

import (
	"iter"
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
