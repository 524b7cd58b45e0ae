package crdt

import (
	"cmp"
	"slices"
)

// Attempt is one try of a task that has ended, as the fact says that ended it.
type Attempt struct {
	Number  uint64 // from 1 over the life of the task
	Token   uint64
	By      Kind  // of the fact: failed, expired or completed
	Run           // who had the claim
	Ready   int64 // wall ns from which it could be claimed; 0: not known
	End     int64 // wall ns at which it ended, which is before its lease did
	Error   string
	RetryAt int64 // wall ns; of a failure
	Counted bool  // it used up an attempt, or completed the task
}

// How many attempts of a task stay, of many: the first and the last ones.
const (
	FirstAttempts = MaxEarly
	LastAttempts  = 47
)

// Attempts gathers the attempts of a task from its facts, which come ascending by key. The
// zero value has none.
type Attempts struct {
	all     []Attempt
	ends    map[uint64]int // token -> place in all
	retries []Requeued
}

// Take takes what a fact says; most say nothing. Errors as [DecodeEnqueued].
func (s *Attempts) Take(f Fact) error {
	a := Attempt{Token: f.Key.A, By: f.Key.Kind}
	switch f.Key.Kind {
	case KindCompleted:
		c, err := DecodeCompleted(f.Body)
		if err != nil {
			return err
		}
		a.Run, _ = RunOf(c.Further)
		a.End, a.Counted = c.At, true
	case KindFailed:
		e, err := DecodeFailed(f.Body)
		if err != nil {
			return err
		}
		a.Run, _ = RunOf(e.Further)
		a.End, a.Error, a.Counted, a.RetryAt = e.At, e.Error, e.Counted, e.RetryAt
	case KindExpired:
		e, err := DecodeExpired(f.Body)
		if err != nil {
			return err
		}
		a.Run, _ = RunOf(e.Further)
		a.End, a.Counted = e.At, true
	case KindRequeued:
		r, err := DecodeRequeued(f.Body)
		s.retries = append(s.retries, r)
		return err
	default:
		return nil
	}
	if a.Token != 0 { // else it was completed without a claim
		s.add(a)
	}
	return nil
}

func (s *Attempts) add(a Attempt) {
	at, twice := s.ends[a.Token]
	switch {
	case s.ends == nil:
		s.ends = map[uint64]int{a.Token: 0}
		s.all = append(s.all, a)
	case !twice:
		s.ends[a.Token] = len(s.all)
		s.all = append(s.all, a)
	case s.all[at].Start == 0: // completed wins, then failed: facts come in this order
		s.all[at].known(a.Run)
	}
}

// known takes over who had the claim; who has completed the task is known already.
func (a *Attempt) known(r Run) {
	if r.Completer = a.Completer; r.Completer == r.Principal {
		r.Completer = ""
	}
	a.Run = r
}

// Of gives the attempts of a task, oldest first: the first three and the last 47. recall tells
// of a claim of whose run its fact says nothing.
func (s *Attempts) Of(t *Task, recall func(token uint64) (Run, error)) ([]Attempt, error) {
	old, early := t.Older(), uint64(0)
	if old != nil {
		early = uint64(len(old.Early))
		for _, e := range old.Early {
			if err := s.Take(Fact{Task: t.ID, Key: e.Key, Body: e.Body}); err != nil {
				return nil, err
			}
		}
	}
	all := s.all
	slices.SortFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Token, b.Token) })
	for i := range all {
		a := &all[i]
		if a.Number = uint64(i + 1); old != nil && a.Token >= old.Below {
			a.Number += old.Claims - early
		}
		if a.Start == 0 { // the fact is of a build that did not say
			run, err := recall(a.Token)
			if err != nil {
				return nil, err
			}
			a.known(run)
		}
	}
	s.readiness(t, all)
	if len(all) > FirstAttempts+LastAttempts {
		all = slices.Delete(all, FirstAttempts, len(all)-LastAttempts)
	}
	return all, nil
}

// readiness says of each attempt from when on its task waited for it.
func (s *Attempts) readiness(t *Task, all []Attempt) {
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
		ready = max(ready, a.End, a.RetryAt)
	}
}

// Keep adds a failure or an expiry to early facts, of which the first stay, one of a claim.
// Those of one kind come after another.
func Keep(first []Early, f Fact) []Early {
	at := 0
	for at < len(first) && first[at].Key.A < f.Key.A {
		at++
	}
	if at == MaxEarly || at < len(first) && first[at].Key.A == f.Key.A {
		return first
	}
	first = slices.Insert(first, at, Early{f.Key, slices.Clone(f.Body)})
	return first[:min(len(first), MaxEarly)]
}

// EndedAt is when a failure or an expiry was written, wall ns. Errors as [DecodeEnqueued].
func EndedAt(f Fact) (int64, error) {
	if f.Key.Kind == KindFailed {
		e, err := DecodeFailed(f.Body)
		return e.At, err
	}
	e, err := DecodeExpired(f.Body)
	return e.At, err
}
