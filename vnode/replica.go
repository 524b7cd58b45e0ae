package vnode

import (
	"iter"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Tree is the tree over the facts of a partition, nil where none is kept that counts all of them.
func Tree(v *Vnode) *antientropy.Tree {
	if !v.shelf.whole {
		return nil
	}
	return v.shelf.tree
}

// Root is the sum over all facts of a partition whose [Tree] counts them, as of what was
// written last; nothing is written for it.
func Root(v *Vnode, view store.View) antientropy.Node {
	v.shelf.recount(view)
	return v.shelf.tree.Root(view)
}

// Counted gives the tree of a partition as a view has it; nil: none counts every fact there.
func Counted(view store.View, p ring.Partition) *antientropy.Tree {
	s := shelf{p: p, tree: antientropy.NewTree(tableTree, p)}
	if s.load(view); !HasKey(view, appendPrefix(nil, tableGrown, p)) {
		return nil
	}
	s.recount(view)
	return s.tree
}

// Settled gives the store with a tree that has all facts written so far.
func Settled(v *Vnode, tx store.Tx) store.View {
	v.shelf.flush(tx)
	return tx
}

// FactsAfter walks the facts after a place, of tasks before to (zero: of all), by task and key. A fact is valid
// during one step. What cannot be read is left out: the audit and the scrubber find it.
func FactsAfter(p ring.Partition, view store.View, place antientropy.Position, to id.ID) iter.Seq[crdt.Fact] {
	return func(yield func(crdt.Fact) bool) {
		for f, err := range EachFact(view, p, place, to) {
			if err == nil && !yield(f) {
				return
			}
		}
	}
}

// EachFact is [FactsAfter] for who must miss none: with what cannot be read comes ErrDamaged.
func EachFact(view store.View, p ring.Partition, place antientropy.Position, to id.ID) iter.Seq2[crdt.Fact, error] {
	return func(yield func(crdt.Fact, error) bool) {
		from, end := appendFact(nil, p, place.Task, place.Key), after(appendPrefix(nil, tableFacts, p))
		if !to.IsZero() {
			end = appendTask(nil, tableFacts, p, to)
		}
		for key, value := range view.Scan(from, end) {
			f, err := intactFact(key, value)
			if err == nil && (antientropy.Position{Task: f.Task, Key: f.Key}).Compare(place) <= 0 {
				continue
			}
			if !yield(f, err) {
				return
			}
		}
	}
}
