package vnode

import (
	"fmt"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// runOf is what the fact of its end says of a claim.
func runOf(r *claim.Record) crdt.Run {
	return crdt.Run{Worker: r.Worker, Start: r.Start, Principal: r.Principal}
}

// attemptsOf gives how the attempts of a task have ended, see [crdt.Attempts]. It returns
// ErrDamaged when something stored cannot be read.
func attemptsOf(view store.View, p ring.Partition, t *crdt.Task) (all []crdt.Attempt, err error) {
	var tries crdt.Attempts
	first, end := appendFact(nil, p, t.ID, crdt.Key{Kind: crdt.KindCompleted}), appendFact(nil, p, t.ID, crdt.Key{Kind: crdt.KindRequeued + 1})
	for key, value := range view.Scan(first, end) {
		f, err := intactFact(key, value)
		if err == nil {
			err = tries.Take(f)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
		}
	}
	all, err = tries.Of(t, func(token uint64) (run crdt.Run, err error) {
		for _, table := range []byte{tableEnded, tableActive} {
			if b, ok := view.Get(appendClaim(nil, table, p, t.ID, token)); ok && err == nil && run == (crdt.Run{}) {
				r, bad := claim.DecodeRecord(token, b)
				run, err = runOf(&r), bad
			}
		}
		return run, err
	})
	if err != nil {
		err = fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
	}
	return all, err
}
