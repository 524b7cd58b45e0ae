package crdt

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/norn-dev/norn/id"
)

// Set is the facts of one task, without those that one of [Older] covers. Join makes it a
// join semilattice: the order, the number and the way in which facts arrive leave no trace. Make one with
// [NewSet].
//
// Invariant: facts are ascending by key, each key once, each fact checked.
// Invariant: sum is the sum of their hashes.
type Set struct {
	task  id.ID
	facts []Fact
	sum   Sum
	old   *Older // among the facts; what it covers is not
}

// NewSet makes the empty set of a task.
func NewSet(task id.ID) *Set { return &Set{task: task} }

// Add puts a fact in and keeps its body. clash says that another body was
// there under its key, changed that the set is not what it was before: with a
// clash, that the new body has won. It returns an error and changes nothing
// when the fact is of another task or fails [Fact.Check].
func (s *Set) Add(f Fact) (changed, clash bool, err error) {
	if f.Task != s.task {
		return false, false, fmt.Errorf("%w: a fact of %s in the set of %s", ErrMalformed, f.Task, s.task)
	}
	if err := f.Check(); err != nil {
		return false, false, err
	}
	changed, clash = s.put(f)
	return changed, clash, nil
}

// put adds a checked fact.
func (s *Set) put(f Fact) (changed, clash bool) {
	if s.old.Covers(f.Key) {
		return false, false
	}
	i, found := s.find(f.Key)
	switch {
	case !found:
		s.facts = slices.Insert(s.facts, i, f)
	case bytes.Equal(s.facts[i].Body, f.Body):
		return false, false
	case !Wins(f.Body, s.facts[i].Body):
		return false, true
	default:
		s.sum = s.sum.Sub(HashFact(s.facts[i]))
		s.facts[i] = f
	}
	s.sum = s.sum.Add(HashFact(f))
	if f.Key.Kind == KindOlder {
		s.cover(f)
	}
	return true, found
}

// cover takes out what is counted by a fact that has been put in.
func (s *Set) cover(f Fact) {
	o, err := DecodeOlder(f.Body)
	if err != nil {
		return // checked before
	}
	s.old = &o
	s.facts = slices.DeleteFunc(s.facts, func(f Fact) bool {
		if o.Covers(f.Key) {
			s.sum = s.sum.Sub(HashFact(f))
			return true
		}
		return false
	})
}

func (s *Set) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(s.facts, k, func(f Fact, k Key) int { return f.Key.Compare(k) })
}

// Join puts every fact of another set in. changed says that the set is not
// what it was before; clashes are the keys under which the two had different
// bodies. It returns an error when the other set is of another task.
func (s *Set) Join(other *Set) (changed bool, clashes []Key, err error) {
	if other.task != s.task {
		return false, nil, fmt.Errorf("%w: the set of %s joined to that of %s", ErrMalformed, other.task, s.task)
	}
	for _, f := range other.facts {
		added, clash := s.put(f)
		changed = changed || added
		if clash {
			clashes = append(clashes, f.Key)
		}
	}
	return changed, clashes, nil
}

// Get gives the body under a key.
func (s *Set) Get(k Key) (body []byte, ok bool) {
	if i, found := s.find(k); found {
		return s.facts[i].Body, true
	}
	return nil, false
}

// Facts gives the facts, ascending by key.
func (s *Set) Facts() iter.Seq[Fact] { return slices.Values(s.facts) }

// Len is the number of facts.
func (s *Set) Len() int { return len(s.facts) }

// Sum is the sum of the facts' hashes.
func (s *Set) Sum() Sum { return s.sum }

// Task gives the decoded view. The error is always nil unless the bodies were
// changed behind the set's back.
func (s *Set) Task() (*Task, error) { return View(s.task, s.Facts()) }
