package vnode

import (
	"bytes"
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// A task may have failed very often, and each failure and each expiry is a fact. What the
// older ones come to is counted beside them ([crdt.Ends]), so that whoever looks where the
// task stands reads the newest ones only. The count follows from the facts, on each replica
// for itself; where there is none, or one that does not fit, all facts are read.
const (
	// mostEnds is how many claims that failed or expired are read one by one; of more all but
	// the newest keptEnds are counted.
	mostEnds = 32
	keptEnds = 16
)

// endsOf reads what is counted of the older claims of a task.
func endsOf(view store.View, p ring.Partition, task id.ID) (e crdt.Ends, ok bool) {
	b, _ := view.Get(appendTask(nil, tableTries, p, task))
	return crdt.DecodeEnds(b)
}

// ended keeps the count of a task after a failure, an expiry or a retry was stored; old is the
// body that it replaced, nil: none.
func ended(tx store.Tx, p ring.Partition, f crdt.Fact, old []byte) error {
	e, ok := endsOf(tx, p, f.Task)
	if f.Key.Kind == crdt.KindRequeued && !ok {
		return nil
	}
	last, err := afterToken(tx, p, f.Task)
	switch {
	case err != nil:
		return err
	case ok && last != e.After: // a retry has begun another run
		e = crdt.Ends{}
	case ok && f.Key.A < e.Below && f.Key.Kind != crdt.KindRequeued:
		return endedLate(tx, p, f, old, e)
	}
	all, err := endsFrom(tx, p, f.Task, e.Below)
	if err != nil || len(all) <= mostEnds {
		return err
	}
	if e == (crdt.Ends{}) {
		old, err := olderOf(tx, p, f.Task)
		if err != nil {
			return err
		}
		e = old.Base(last)
	}
	e.After = last
	for _, o := range all[:len(all)-keptEnds] {
		e.Take(o)
	}
	tx.Set(appendTask(nil, tableTries, p, f.Task), e.Encode())
	return nil
}

// olderOf gives what is counted of facts that are gone; nil: none are.
func olderOf(view store.View, p ring.Partition, task id.ID) (*crdt.Older, error) {
	body, err := bodyUnder(view, appendFact(nil, p, task, crdt.Key{Kind: crdt.KindOlder}))
	if err != nil || body == nil {
		return nil, err
	}
	o, err := crdt.DecodeOlder(bytes.Clone(body))
	if err != nil {
		return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
	}
	return &o, nil
}

// endedLate counts a fact that came after newer ones were counted: it may come by another way.
func endedLate(tx store.Tx, p ring.Partition, f crdt.Fact, old []byte, e crdt.Ends) error {
	if f.Key.A <= e.After {
		return nil
	}
	is, was := crdt.End{}, crdt.End{}
	for _, kind := range []crdt.Kind{crdt.KindFailed, crdt.KindExpired} {
		body, err := bodyUnder(tx, appendFact(nil, p, f.Task, crdt.Key{Kind: kind, A: f.Key.A}))
		if err != nil {
			return err
		}
		if err := is.Add(kind, body); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if kind == f.Key.Kind {
			body = old
		}
		if err := was.Add(kind, body); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	e.Replace(was, is)
	tx.Set(appendTask(nil, tableTries, p, f.Task), e.Encode())
	return nil
}

// endsFrom gives how the claims of a task have ended that failed or expired, from a token on.
func endsFrom(view store.View, p ring.Partition, task id.ID, token uint64) (all []crdt.End, err error) {
	for _, kind := range []crdt.Kind{crdt.KindFailed, crdt.KindExpired} {
		first, end := appendFact(nil, p, task, crdt.Key{Kind: kind, A: token}), appendFact(nil, p, task, crdt.Key{Kind: kind + 1})
		for key, value := range view.Scan(first, end) {
			f, err := intactFact(key, value)
			if err == nil {
				all, err = crdt.AddEnd(all, f)
			}
			if err != nil {
				return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
			}
		}
	}
	return all, nil
}

// afterToken is the token up to which claims of a task belong to runs before its newest retry.
func afterToken(view store.View, p ring.Partition, task id.ID) (uint64, error) {
	first := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindRequeued})
	for key, value := range view.Back(first, appendFact(nil, p, task, crdt.Key{Kind: crdt.KindRequeued + 1})) {
		f, err := intactFact(key, value)
		if err != nil {
			return 0, err
		}
		r, err := crdt.DecodeRequeued(f.Body)
		if err != nil {
			return 0, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		return r.AfterToken, nil
	}
	return 0, nil
}

// kindIn is the kind of a fact by its key.
func kindIn(key []byte) crdt.Kind { return crdt.Kind(key[prefixSize+id.Size]) }

// brief builds the view of a task of which older claims are counted, without their facts; ok
// is false where the count is not about the present run.
func brief(view store.View, p ring.Partition, task id.ID, first []byte, e crdt.Ends) (t *crdt.Task, ok bool, err error) {
	v := crdt.NewViewer(task)
	newest := crdt.Fact{}
	for key, value := range view.Back(appendFact(nil, p, task, crdt.Key{Kind: crdt.KindFailed}), appendFact(nil, p, task, crdt.Key{Kind: crdt.KindFailed, A: e.Below})) {
		if newest, err = StoredFact(key, bytes.Clone(value)); err != nil {
			return nil, false, err
		}
		break
	}
	if err := v.Before(e, newest); err != nil {
		return nil, false, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
	}
	upTo := func(kind crdt.Kind) []byte { return appendFact(nil, p, task, crdt.Key{Kind: kind}) }
	for _, run := range [][2][]byte{
		{upTo(crdt.KindCompleted), upTo(crdt.KindFailed)},
		{appendFact(nil, p, task, crdt.Key{Kind: crdt.KindFailed, A: e.Below}), upTo(crdt.KindExpired)},
		{appendFact(nil, p, task, crdt.Key{Kind: crdt.KindExpired, A: e.Below}), after(appendTask(nil, tableFacts, p, task))},
	} {
		if first != nil {
			if value, ok := view.Get(first); ok {
				if err := addStored(&v, first, value); err != nil {
					return nil, false, err
				}
			}
			first = nil
		}
		for key, value := range view.Scan(run[0], run[1]) {
			if err := addStored(&v, key, value); err != nil {
				return nil, false, err
			}
		}
	}
	return v.Task, v.Task.Fits(e), nil
}

// AuditTries compares what is counted of failures and expiries with those that are there, and
// what is made of it with what all facts say. It is for package audit.
func AuditTries(view store.View, p ring.Partition) error {
	prefix := appendPrefix(nil, tableTries, p)
	for key := range view.Scan(prefix, after(prefix)) {
		task := id.ID(key[prefixSize:])
		e, ok := endsOf(view, p, task)
		all, err := endsFrom(view, p, task, 0)
		if err != nil {
			return err
		}
		old, err := olderOf(view, p, task)
		if err != nil {
			return err
		}
		want := old.Base(e.After)
		for _, o := range all {
			if o.Token < e.Below {
				want.Take(o)
			}
		}
		if !ok || e != want {
			return fmt.Errorf("%w: of task %s %+v is counted, there is %+v", ErrDamaged, task, e, want)
		}
		short, err := LoadTask(view, p, task)
		if err != nil {
			return err
		}
		whole, err := loadAll(view, p, task)
		if err != nil {
			return err
		}
		if short.Attempts() != whole.Attempts() || short.Failures() != whole.Failures() || short.NotBefore() != whole.NotBefore() ||
			short.Error() != whole.Error() || short.RuledOut() != whole.RuledOut() || short.Outcome() != whole.Outcome() {
			return fmt.Errorf("%w: task %s has %d attempts and %d failures by what is counted, %d and %d by its facts", ErrDamaged, task,
				short.Attempts(), short.Failures(), whole.Attempts(), whole.Failures())
		}
	}
	return nil
}
