package vnode

import (
	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// shelf is where the facts of a partition lie. Every fact that comes or goes
// passes through it, so that the tree over them cannot be forgotten.
type shelf struct {
	p    ring.Partition
	tree *antientropy.Tree // nil: there is no other replica to compare with
	// whole says that the tree counts every fact.
	whole bool
	// noted says that it is on disk that it does.
	noted bool
	// stored is told each fact that is put.
	stored func(ring.Partition, crdt.Fact)
	key    [prefixSize + id.Size + crdt.KeySize]byte
}

// get reads the body under a key; nil when there is none.
func (s *shelf) get(view store.View, task id.ID, k crdt.Key) []byte {
	body, _ := view.Get(appendFact(s.key[:0], s.p, task, k))
	return body
}

// put stores a fact. old is the body that it replaces; nil: there was none (no
// body is empty).
func (s *shelf) put(tx store.Tx, f crdt.Fact, old []byte) {
	if s.tree != nil {
		if old != nil { // before Set, which may reuse its space
			s.tree.Remove(crdt.Fact{Task: f.Task, Key: f.Key, Body: old})
		}
		s.count(tx, f)
		if s.whole && !s.noted {
			s.noted = true
			tx.Set(appendPrefix(nil, tableGrown, s.p), nil)
		}
	}
	if f.Key.Kind == crdt.KindUpdate {
		logged(tx, s.p, f, old)
	}
	tx.Set(appendFact(s.key[:0], s.p, f.Task, f.Key), f.Body)
	s.stored(s.p, f)
}

// count takes a fact into the tree.
func (s *shelf) count(tx store.Tx, f crdt.Fact) {
	if mutant.LocalHash.On() {
		f.Body = append([]byte{byte(s.tree.Root(tx).Count % 7)}, f.Body...) // the order of arrival
	}
	s.tree.Add(f)
}

// drop deletes every fact of a task.
func (s *shelf) drop(tx store.Tx, task id.ID) {
	prefix := appendTask(nil, tableFacts, s.p, task)
	if s.tree != nil {
		for key, body := range tx.Scan(prefix, after(prefix)) {
			// A key that is none of ours was never counted.
			if k, err := crdt.DecodeKey(key[len(prefix):]); err == nil {
				s.tree.Remove(crdt.Fact{Task: task, Key: k, Body: body})
			}
		}
	}
	drop(tx, prefix)
	drop(tx, appendTask(nil, tableLogs, s.p, task))
}

// flush writes the tree's changes.
func (s *shelf) flush(tx store.Tx) {
	if s.tree != nil {
		s.tree.Flush(tx)
	}
}
