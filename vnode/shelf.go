package vnode

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// shelf is where the facts of a partition lie. Every fact that comes or goes
// passes through it, so that the tree over them cannot be forgotten.
//
// Invariant: where whole is set, the tree is that of the facts which are stored, after each
// call: two replicas with the same facts have the same root, or repair would compare them for
// ever (package audit computes it anew; the hunt's LocalHash).
type shelf struct {
	p    ring.Partition
	tree *antientropy.Tree // nil: there is no other replica to compare with
	// whole says that the tree counts every fact.
	whole bool
	// noted says that it is on disk that it does.
	noted bool
	// touched is the stored note of leaves that have changed since the tree was flushed, as
	// it was found at the start: they are counted before anything else is done with the tree.
	// Invariant: after a crash each leaf that is not what the facts say is named in the stored
	// note: it may name too many, never too few. Those it names are computed anew.
	touched []byte
	// listed says that there may be such a note in the store.
	listed bool
	// noneEnded says that the partition has no record of a claim that has ended (tableEnded); false
	// where that is not known.
	noneEnded  bool
	endedDrops int // tasks whose records were dropped
	// stored is told each fact that is put.
	stored  func(ring.Partition, crdt.Fact)
	key     [prefixSize + id.Size + crdt.KeySize]byte
	scratch *scratch // for put and note
}

// keptSpace is how much of that is kept, bytes: most facts are small.
const keptSpace = 64 << 10

// get reads the body under a key; nil when there is none. ErrDamaged: it does not fit its CRC.
func (s *shelf) get(view store.View, task id.ID, k crdt.Key) ([]byte, error) {
	return bodyUnder(view, appendFact(s.key[:0], s.p, task, k))
}

// put stores a fact. old is the body that it replaces; nil: there was none (no body is empty).
func (s *shelf) put(tx store.Tx, f crdt.Fact, old []byte) {
	if s.tree != nil {
		s.recount(tx)
		if old != nil { // before Set, which may reuse its space
			s.tree.Remove(crdt.Fact{Task: f.Task, Key: f.Key, Body: old})
		}
		s.count(tx, f)
		if s.whole && !s.noted {
			s.noted = true
			tx.Set(appendPrefix(nil, tableGrown, s.p), nil)
		}
	}
	switch f.Key.Kind {
	case crdt.KindCompleted:
		if old != nil {
			s.keepRun(tx, f, old)
		}
	case crdt.KindUpdate:
		logged(tx, s.p, f, old)
	case crdt.KindFailed, crdt.KindExpired, crdt.KindRequeued:
		old = bytes.Clone(old) // for ended
	}
	s.scratch.value = f.AppendStored(s.scratch.value[:0])
	tx.Set(appendFact(s.key[:0], s.p, f.Task, f.Key), s.scratch.value)
	if cap(s.scratch.value) > keptSpace {
		s.scratch.value = nil
	}
	switch f.Key.Kind {
	case crdt.KindFailed, crdt.KindExpired, crdt.KindRequeued:
		if ended(tx, s.p, f, old) != nil { // damage is for who reads it, and reads all then
			tx.Delete(appendTask(nil, tableTries, s.p, f.Task))
		}
	case crdt.KindOlder:
		s.cover(tx, f)
	}
	s.stored(s.p, f)
}

// count takes a fact into the tree.
func (s *shelf) count(tx store.Tx, f crdt.Fact) {
	if mutant.LocalHash.On() {
		f.Body = append([]byte{byte(s.tree.Root(tx).Count % 7)}, f.Body...) // the order of arrival
	}
	s.tree.Add(f)
}

// held is what a shelf has of a task: what its view is built from, and what there is to delete.
type held struct {
	task    id.ID
	keys    [][]byte
	facts   []crdt.Fact // but for its updates, by ascending key
	damaged error       // one of them cannot be read
	log     bool        // there are updates, which are not read before they are deleted
	counted bool        // other tables may have something of the task
	stone   bool        // one of them is a tombstone
}

// hold reads all facts of a task but its updates, in one walk where there are none: each task
// passes here on each replica when it is collected.
func (s *shelf) hold(view store.View, task id.ID) *held {
	h := &held{task: task}
	from, end := appendTask(nil, tableFacts, s.p, task), after(appendTask(nil, tableFacts, s.p, task))
	for from != nil {
		start := from
		from = nil
		for key, value := range view.Scan(start, end) {
			if len(key) > prefixSize+id.Size && kindIn(key) == crdt.KindUpdate {
				h.log, h.counted = true, true
				_, from = s.updates(task)
				break
			}
			h.add(bytes.Clone(key), bytes.Clone(value))
		}
	}
	return h
}

// add takes in a fact as it is stored.
func (h *held) add(key, value []byte) {
	h.keys = append(h.keys, key)
	h.stone = h.stone || len(key) > prefixSize+id.Size && kindIn(key) == crdt.KindTombstone
	f, err := StoredFact(key, value)
	if err != nil {
		h.damaged, h.counted = err, true
		return
	}
	h.facts = append(h.facts, f)
	h.counted = h.counted || f.Ends() || f.Key.Kind == crdt.KindOlder
}

// load builds the view of the task, as [LoadTask] does.
func (h *held) load() (*crdt.Task, error) {
	if h.damaged != nil {
		return nil, h.damaged
	}
	v := crdt.NewViewer(h.task)
	for _, f := range h.facts {
		if err := v.Add(f); err != nil {
			return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, h.task, err)
		}
	}
	return v.Task, nil
}

// drop deletes every fact of a task, and what other tables count of them.
func (s *shelf) drop(tx store.Tx, h *held) {
	if h.log {
		s.dropLog(tx, h.task)
	}
	if s.tree != nil {
		s.recount(tx)
		for _, f := range h.facts { // a key that is none of ours was never counted
			s.tree.Remove(f)
		}
	}
	for _, key := range h.keys {
		tx.Delete(key)
	}
	if h.counted {
		drop(tx, appendTask(nil, tableLogs, s.p, h.task))
		drop(tx, appendTask(nil, tableTries, s.p, h.task))
	}
}

// dropLog deletes the updates of a task.
func (s *shelf) dropLog(tx store.Tx, task id.ID) {
	if s.tree != nil {
		s.recount(tx)
	}
	var keys [][]byte
	from, end := s.updates(task)
	for key, value := range tx.Scan(from, end) {
		keys = append(keys, bytes.Clone(key))
		if f, err := StoredFact(key, value); err == nil && s.tree != nil {
			s.tree.Remove(f)
		}
	}
	for _, key := range keys {
		tx.Delete(key)
	}
}

// updates is the range of those of a task.
func (s *shelf) updates(task id.ID) (from, end []byte) {
	prefix := appendTask(nil, tableFacts, s.p, task)
	return append(bytes.Clone(prefix), byte(crdt.KindUpdate)), append(prefix, byte(crdt.KindUpdate+1))
}

// remove deletes one fact, which is all that there is of its task.
func (s *shelf) remove(tx store.Tx, f crdt.Fact) {
	if s.tree != nil {
		s.recount(tx)
		s.tree.Remove(f)
	}
	tx.Delete(appendFact(s.key[:0], s.p, f.Task, f.Key))
}

// maxTouched is how many leaves may have changed before the tree is flushed: at the start
// after a crash each of them is read.
const maxTouched = 32

// note writes which leaves of the tree have changed, or the tree itself where they are many.
func (s *shelf) note(tx store.Tx) {
	switch {
	case s.tree == nil || !s.tree.Unnoted():
	case s.tree.Unflushed() > maxTouched:
		s.flush(tx)
	default:
		s.listed = true
		s.scratch.value = s.tree.Note(s.scratch.value[:0])
		tx.Set(appendPrefix(s.key[:0], tableTouched, s.p), s.scratch.value)
	}
}

// flush writes the tree's changes.
func (s *shelf) flush(tx store.Tx) {
	if s.tree == nil {
		return
	}
	s.recount(tx)
	s.tree.Flush(tx)
	if s.listed {
		s.listed = false
		tx.Delete(appendPrefix(s.key[:0], tableTouched, s.p))
	}
}

// load reads what the start needs to know of the tree.
func (s *shelf) load(view store.View) {
	if note, ok := view.Get(appendPrefix(nil, tableTouched, s.p)); ok {
		s.touched, s.listed = bytes.Clone(note), true
	}
}

// recount counts the leaves that had changed when the node stopped.
func (s *shelf) recount(view store.View) {
	if len(s.touched) == 0 {
		return
	}
	s.tree.Recount(view, s.touched, func(span antientropy.Span) iter.Seq[crdt.Fact] {
		return FactsAfter(s.p, view, antientropy.Position{Task: span.From}, span.To)
	})
	s.touched = nil
}
