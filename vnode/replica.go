package vnode

import (
	"iter"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Tree is the tree over the facts of a partition, nil where none is kept that
// counts all of them.
func Tree(v *Vnode) *antientropy.Tree {
	if !v.shelf.whole {
		return nil
	}
	return v.shelf.tree
}

// Settled gives the store with a tree that has all facts written so far.
func Settled(v *Vnode, tx store.Tx) store.View {
	v.shelf.flush(tx)
	return tx
}

// FactsAfter walks the facts of a partition after a place, of tasks before to
// (of all tasks when to is zero), by task and key. A fact is valid during one
// step. What cannot be read is left out: the audit and the scrubber find it.
func FactsAfter(v *Vnode, view store.View, place antientropy.Position, to id.ID) iter.Seq[crdt.Fact] {
	return func(yield func(crdt.Fact) bool) {
		from, end := appendFact(nil, v.Partition, place.Task, place.Key), after(appendPrefix(nil, tableFacts, v.Partition))
		if place.Key == (crdt.Key{}) {
			from = appendTask(nil, tableFacts, v.Partition, place.Task)
		}
		if !to.IsZero() {
			end = appendTask(nil, tableFacts, v.Partition, to)
		}
		for key, value := range view.Scan(from, end) {
			f, err := intactFact(key, value)
			if err != nil || (antientropy.Position{Task: f.Task, Key: f.Key}).Compare(place) <= 0 {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}
