package vnode

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// The history of a task is bounded. Of its failures and expiries the leader keeps the newest,
// and counts the others in one fact, which has the first of them inside ([crdt.Older]). It
// does so once every member of the cohort has what goes, so that nobody counts anything
// else, and once no claim below is open, so that nothing is added there.
const (
	trimStep   = 16   // so many more than it keeps a task must have: each time rewrites the fact
	maxTrimmed = 1024 // claims of which facts go in one call
)

// Trims gives up to limit tasks that may have more of a history than they keep, after one, by
// ID, and the last one looked at; the zero ID: the end was reached.
func Trims(v *Vnode, view store.View, last id.ID, limit int) (tasks []id.ID, next id.ID) {
	prefix := appendPrefix(nil, tableTries, v.Partition)
	from, left := prefix, maxLook
	if !last.IsZero() {
		from = after(appendTask(nil, tableTries, v.Partition, last))
	}
	for key := range view.Scan(from, after(prefix)) {
		next = id.ID(key[prefixSize:])
		e, ok := endsOf(view, v.Partition, next)
		if many := max(e.Attempts, e.Failures)+keptEnds >= crdt.FirstAttempts+crdt.LastAttempts; !ok || many || e.After > 0 {
			tasks = append(tasks, next)
		}
		if left--; left == 0 || len(tasks) == limit {
			return tasks, next
		}
	}
	return tasks, id.ID{}
}

// Trim counts the older failures and expiries of a task of a partition that is led here in
// one fact, and deletes them, as far as they are of before a time, wall ns: who calls it
// knows that everything of before then is at all members. It tells of how many claims.
func Trim(v *Vnode, tx store.Tx, task id.ID, before int64) (claims int, err error) {
	t, err := LoadTask(tx, v.Partition, task)
	if err != nil || v.epoch == 0 || t.Enqueued == nil || t.Collected() {
		return 0, err
	}
	all, err := endsFrom(tx, v.Partition, task, 0)
	if err != nil {
		return 0, err
	}
	n := min(len(all)-v.cfg.History, maxTrimmed)
	if n < trimStep {
		return 0, nil
	}
	below := all[n].Token
	for _, table := range []*claim.Table{v.claims, v.suspended} {
		if e := table.Lookup(task); e != nil && e.Claims[0].Token < below {
			return 0, nil
		}
	}
	o, old := crdt.Older{Ends: crdt.Ends{After: t.AfterToken()}}, []byte(nil)
	if was := t.Older(); was != nil {
		o, old = *was, was.Encode()
		if !was.CountsAfter(t.AfterToken()) {
			o.Ends = crdt.Ends{After: t.AfterToken()}
		}
	}
	early, ok, err := earlier(tx, v.Partition, task, below, before)
	if err != nil || !ok {
		return 0, err
	}
	if free := crdt.MaxEarly - len(o.Early); o.Claims == uint64(len(o.Early)) && free > 0 {
		o.Early = append(slices.Clone(o.Early), early[:min(free, len(early))]...)
	}
	for _, end := range all[:n] {
		o.Take(end)
		o.Claims++
	}
	o.Below = below
	v.shelf.put(tx, o.Fact(task), old)
	v.cfg.OnFact(task)
	return n, nil
}

// earlier gives the first failures and expiries of a task, one of a claim, if all of those
// below a token are of before a time.
func earlier(view store.View, p ring.Partition, task id.ID, below uint64, before int64) (first []crdt.Early, ok bool, err error) {
	for _, kind := range []crdt.Kind{crdt.KindFailed, crdt.KindExpired} {
		for key, value := range view.Scan(appendFact(nil, p, task, crdt.Key{Kind: kind}), appendFact(nil, p, task, crdt.Key{Kind: kind, A: below})) {
			f, err := intactFact(key, value)
			if err != nil {
				return nil, false, err
			}
			at, err := crdt.EndedAt(f)
			if err != nil {
				return nil, false, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
			}
			if at > before {
				return nil, false, nil
			}
			first = crdt.Keep(first, f)
		}
	}
	return first, true, nil
}

// cover deletes what a fact counts that has just been put: failures, expiries, and the claims
// that they have ended.
func (s *shelf) cover(tx store.Tx, f crdt.Fact) {
	o, err := crdt.DecodeOlder(f.Body)
	if err != nil {
		return // checked before
	}
	var keys [][]byte
	for _, kind := range []crdt.Kind{crdt.KindFailed, crdt.KindExpired} {
		for key, value := range tx.Scan(appendFact(nil, s.p, f.Task, crdt.Key{Kind: kind}), appendFact(nil, s.p, f.Task, crdt.Key{Kind: kind, A: o.Below})) {
			if gone, err := StoredFact(key, value); err == nil && s.tree != nil {
				s.tree.Remove(gone)
			}
			keys = append(keys, bytes.Clone(key))
		}
	}
	for key, value := range tx.Scan(appendTask(nil, tableEnded, s.p, f.Task), appendClaim(nil, tableEnded, s.p, f.Task, o.Below)) {
		if len(value) > 1 && (claim.Outcome(value[1]) == claim.Failed || claim.Outcome(value[1]) == claim.Expired) {
			keys = append(keys, bytes.Clone(key))
		}
	}
	for _, key := range keys {
		tx.Delete(key)
	}
	tx.Delete(appendTask(nil, tableTries, s.p, f.Task))
	if ended(tx, s.p, crdt.Fact{Task: f.Task, Key: crdt.Key{Kind: crdt.KindFailed, A: o.Below}}, nil) != nil { // damage is for who reads it
		tx.Delete(appendTask(nil, tableTries, s.p, f.Task))
	}
}
