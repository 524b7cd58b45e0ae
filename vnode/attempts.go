package vnode

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Attempt is one try of a task that has ended, as the fact says that ended it.
type Attempt struct {
	Number  uint64 // from 1 over the life of the task
	Token   uint64
	By      crdt.Kind // of the fact: failed, expired or completed
	Worker  string    // empty: it gave no name, or is not known
	Ready   int64     // wall ns from which it could be claimed; 0: not known
	Start   int64     // wall ns; 0: not known
	End     int64     // wall ns at which it ended, which is before its lease did
	Error   string
	Counted bool // it used up an attempt, or completed the task

	retryAt int64
}

// How many attempts of a task are given: the first and the last ones.
const (
	firstAttempts = crdt.MaxEarly
	lastAttempts  = 47
)

// runOf is what the fact of its end says of a claim.
func runOf(r *claim.Record) crdt.Run { return crdt.Run{Worker: r.Worker, Start: r.Start} }

// attemptsOf gives how the attempts of a task have ended, oldest first: the first three and
// the last 47. It returns ErrDamaged when something stored cannot be read.
func attemptsOf(view store.View, p ring.Partition, t *crdt.Task) ([]Attempt, error) {
	tries, old := tries{ends: map[uint64]int{}}, t.Older()
	if old != nil {
		for _, e := range old.Early {
			if err := tries.take(crdt.Fact{Task: t.ID, Key: e.Key, Body: e.Body}); err != nil {
				return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
			}
		}
	}
	first, end := appendFact(nil, p, t.ID, crdt.Key{Kind: crdt.KindCompleted}), appendFact(nil, p, t.ID, crdt.Key{Kind: crdt.KindRequeued + 1})
	for key, value := range view.Scan(first, end) {
		f, err := intactFact(key, value)
		if err == nil {
			err = tries.take(f)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
		}
	}
	all := tries.all
	slices.SortFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Token, b.Token) })
	for i := range all {
		all[i].Number = uint64(i + 1)
		if old != nil && all[i].Token >= old.Below {
			all[i].Number += old.Claims - uint64(len(old.Early))
		}
		if all[i].Start == 0 { // the fact is of a build that did not say
			if err := all[i].recall(view, p, t.ID); err != nil {
				return nil, err
			}
		}
	}
	tries.readiness(t, all)
	if len(all) > firstAttempts+lastAttempts {
		all = slices.Delete(all, firstAttempts, len(all)-lastAttempts)
	}
	return all, nil
}

// tries gathers the attempts of a task.
type tries struct {
	all     []Attempt
	ends    map[uint64]int // token -> place in all
	retries []crdt.Requeued
}

func (s *tries) take(f crdt.Fact) error {
	a := Attempt{Token: f.Key.A, By: f.Key.Kind}
	var run crdt.Run
	switch f.Key.Kind {
	case crdt.KindCompleted:
		c, err := crdt.DecodeCompleted(f.Body)
		if err != nil {
			return err
		}
		run, _ = crdt.RunOf(c.Further)
		a.End, a.Counted = c.At, true
	case crdt.KindFailed:
		e, err := crdt.DecodeFailed(f.Body)
		if err != nil {
			return err
		}
		run, _ = crdt.RunOf(e.Further)
		a.End, a.Error, a.Counted, a.retryAt = e.At, e.Error, e.Counted, e.RetryAt
	case crdt.KindExpired:
		e, err := crdt.DecodeExpired(f.Body)
		if err != nil {
			return err
		}
		run, _ = crdt.RunOf(e.Further)
		a.End, a.Counted = e.At, true
	case crdt.KindRequeued:
		r, err := crdt.DecodeRequeued(f.Body)
		s.retries = append(s.retries, r)
		return err
	default:
		return nil
	}
	a.Worker, a.Start = run.Worker, run.Start
	at, twice := s.ends[a.Token]
	switch {
	case a.Token == 0: // completed without a claim
		return nil
	case !twice:
		s.ends[a.Token] = len(s.all)
		s.all = append(s.all, a)
	case s.all[at].Start == 0: // completed wins, then failed: facts come in this order
		s.all[at].Worker, s.all[at].Start = a.Worker, a.Start
	}
	return nil
}

// recall takes from the claim, where it is stored here, what the fact does not say.
func (a *Attempt) recall(view store.View, p ring.Partition, task id.ID) error {
	for _, table := range []byte{tableEnded, tableActive} {
		b, ok := view.Get(appendClaim(nil, table, p, task, a.Token))
		if !ok {
			continue
		}
		r, err := claim.DecodeRecord(a.Token, b)
		if err != nil {
			return fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		a.Worker, a.Start = r.Worker, r.Start
		return nil
	}
	return nil
}

// readiness says of each attempt from when on its task waited for it.
func (s *tries) readiness(t *crdt.Task, all []Attempt) {
	ready := max(t.Admission(), t.UnblockedAt())
	if t.Enqueued != nil {
		ready = max(ready, t.Enqueued.NotBefore)
	}
	for i := range all {
		a := &all[i]
		for _, r := range s.retries {
			if r.AfterToken < a.Token && (i == 0 || all[i-1].Token <= r.AfterToken) {
				ready = max(ready, r.At)
			}
		}
		if gap := i > 0 && a.Number != all[i-1].Number+1; a.Start != 0 && !gap {
			a.Ready = min(ready, a.Start)
		}
		ready = max(ready, a.End, a.retryAt)
	}
}
