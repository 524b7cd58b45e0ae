package vnode

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// ErrConflict is returned when an ID is taken by a task with another spec.
var ErrConflict = errors.New("vnode: the ID is taken by another task")

// Enqueued tells what became of an enqueue.
type Enqueued struct {
	Existed bool     // the same task was there before
	Digest  [16]byte // of the stored spec, where the error is ErrConflict
}

// Enqueue stores the enqueue fact of a task. The same spec again changes
// nothing; another spec under the same ID returns ErrConflict with the stored
// spec's digest (design 3).
func (v *Vnode) Enqueue(tx store.Tx, task id.ID, spec *crdt.Enqueued, now clock.Time) (Enqueued, error) {
	fact := spec.Fact(task)
	key := appendFact(nil, v.Partition, task, fact.Key)
	maybe := v.recent.Maybe(task)
	var stored []byte
	if maybe {
		var err error
		if stored, err = bodyUnder(tx, key); err != nil {
			return Enqueued{}, err
		}
	}
	if stored != nil {
		old, err := crdt.DecodeEnqueued(stored)
		if err != nil {
			return Enqueued{}, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		if !crdt.SameSpec(old, *spec) {
			return Enqueued{Existed: true, Digest: old.SpecDigest()}, ErrConflict
		}
		return Enqueued{Existed: true}, nil
	}
	if maybe && Collected(tx, v.Partition, task) {
		return Enqueued{Existed: true}, nil // it has been, and is gone
	}
	// A claim on it may have come, and gone, before it.
	fresh := !maybe || !HasKey(tx, appendTask(v.keyspace[:0], tableEnded, v.Partition, task))
	return Enqueued{}, begin(v, tx, fact, spec, fresh, now)
}

// begin stores the enqueue of a task that has none here; fresh says that it
// surely was never under a claim.
func begin(v *Vnode, tx store.Tx, fact crdt.Fact, spec *crdt.Enqueued, fresh bool, now clock.Time) error {
	task := fact.Task
	v.shelf.put(tx, fact, nil)
	v.recent.Add(task)
	others := v.record.settled(tx, v.Partition, task)
	if others || v.claims.Lookup(task) != nil {
		t := crdt.NewTask(task, spec)
		if others {
			var err error
			if t, err = LoadTask(tx, v.Partition, task); err != nil {
				return err
			}
			if t.Finished() { // it was given up: without its enqueue nobody could tell
				v.endClaims(tx, task, 0, t.Undoable())
			}
		}
		v.claims.Describe(task, briefOf(t))
		p := v.goes(t, now)
		v.enter(tx, task, &p)
		return nil
	}
	g := crdt.Glance{Admission: spec.Admission, Priority: spec.Priority, Size: spec.Size(), NotBefore: spec.NotBefore, Dependencies: len(spec.Dependencies)}
	first(v, tx, fact, spec.Queue, &g, fresh, now)
	return nil
}

// first enters a task of which nothing else is known.
func first(v *Vnode, tx store.Tx, fact crdt.Fact, queue string, g *crdt.Glance, fresh bool, now clock.Time) {
	p := place{queue: queue, size: g.Size, fresh: fresh && g.Dependencies == 0}
	if len(fact.Body) <= maxBody {
		p.body, p.crc = fact.Body, fact.CRC
	}
	p.rank = claim.NewRank(g.Priority, admissionOrder(fact.Task, g.Admission), fact.Task)
	if p.state, p.at = wake(g.NotBefore, now); g.Dependencies > 0 {
		p.state = crdt.StateWaiting
	}
	v.enter(tx, fact.Task, &p)
}

// Added tells what became of a fact.
type Added struct {
	Existed bool // the same fact was there before
	// Clash says that another one was there under the same key; the same of the two wins everywhere.
	Clash     bool
	Collected crdt.State // how the task ended of which a tombstone is all that is left: then nothing was stored
}

// Add stores a fact that any node may write (update, completed, cancelled),
// whatever is known about its task so far, and moves the task where its facts
// now say. A fact before its enqueue is kept. A finished task loses its claims.
func (v *Vnode) Add(tx store.Tx, f crdt.Fact, now clock.Time) (Added, error) {
	key := appendFact(nil, v.Partition, f.Task, f.Key)
	var added Added
	if f.Key.Kind == crdt.KindCompleted && v.finishClaimed(tx, f, now) {
		v.cfg.OnFact(f.Task)
		return added, nil
	}
	old, err := bodyUnder(tx, key)
	if err != nil {
		return added, err
	}
	if old != nil {
		if bytes.Equal(old, f.Body) {
			return Added{Existed: true}, nil
		}
		// A retry through another node differs in its time only.
		added.Existed = crdt.SameContent(f.Key.Kind, f.Body, old)
		added.Clash = !added.Existed
		if !crdt.Wins(f.Body, old) {
			return added, nil
		}
		old = bytes.Clone(old) // the view gives its space to the next read
	}
	defer v.cfg.OnFact(f.Task)
	if e := v.claims.Lookup(f.Task); f.Key.Kind == crdt.KindUpdate && e != nil && e.Known() {
		v.shelf.put(tx, f, old) // a claimed task stays where it is
		return added, nil
	}
	before, err := LoadTask(tx, v.Partition, f.Task)
	if err != nil {
		return added, err
	}
	if before.Collected() {
		return Added{Collected: before.Outcome()}, nil // nothing collected comes back
	}
	if before.Enqueued == nil {
		v.shelf.put(tx, f, old)
		v.record.adopt(tx, v.Partition, f.Task)
		v.recent.Add(f.Task)
		if f.Key.Kind != crdt.KindUpdate {
			v.endClaims(tx, f.Task, f.Key.A, false)
			v.cfg.OnFinish(v.Partition, f.Task, false)
		}
		return added, nil
	}
	was := v.stands(tx, before)
	v.leave(tx, f.Task, &was)
	v.shelf.put(tx, f, old)
	return added, v.settle(tx, f.Task, f.Key.A, now)
}

// adopt remembers that a task has facts without an enqueue.
func (r *partitionRecord) adopt(tx store.Tx, p ring.Partition, task id.ID) {
	key := appendTask(nil, tableOrphans, p, task)
	if _, ok := tx.Get(key); ok {
		return
	}
	tx.Set(key, nil)
	r.orphans++
	r.write(tx, p)
}

// settle puts a task that is in no index where its facts say. A task that is
// finished loses its claims first; token is the one that finished it. One that is
// not any more gets those back that were suspended.
func (v *Vnode) settle(tx store.Tx, task id.ID, token uint64, now clock.Time) error {
	t, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return err
	}
	if t.Finished() {
		v.endClaims(tx, task, token, t.Undoable())
	} else if v.suspended.Lookup(task) != nil {
		if err := revive(v, tx, t, now); err != nil {
			return err
		}
	}
	p := v.goes(t, now)
	v.enter(tx, task, &p)
	return nil
}

// finishClaimed completes a task that is under a claim without reading it:
// claimed means enqueued and not finished, so there is no completion yet.
func (v *Vnode) finishClaimed(tx store.Tx, f crdt.Fact, now clock.Time) bool {
	e := v.claims.Lookup(f.Task)
	if e == nil || !e.Known() {
		return false
	}
	c, err := crdt.DecodeCompleted(f.Body)
	if err != nil {
		return false
	}
	p := place{state: crdt.StateClaimed, queue: e.Brief.Queue, rank: e.Brief.Rank, size: e.Brief.Size, linked: e.Brief.Linked}
	v.leave(tx, f.Task, &p)
	v.shelf.put(tx, f, nil)
	v.endClaims(tx, f.Task, f.Key.A, false)
	p.state, p.at, p.came = crdt.StateCompleted, c.At, now.Mono
	v.enter(tx, f.Task, &p)
	return true
}

// endClaims ends every claim of a finished task; the one with the token that
// finished it counts as completed. undoable says that they may come back.
func (v *Vnode) endClaims(tx store.Tx, task id.ID, token uint64, undoable bool) {
	if !undoable {
		endSuspended(v, tx, task, math.MaxUint64, token)
	}
	for e := v.claims.Lookup(task); e != nil; e = v.claims.Lookup(task) {
		outcome := claim.Ended
		if e.Claims[0].Token == token {
			outcome = claim.Completed
		}
		if undoable {
			suspend(v, tx, task, e.Claims[0].Token)
			continue
		}
		v.endClaim(tx, task, e.Claims[0].Token, outcome)
	}
}

// endClaim moves one claim from the active to the ended records, where its completion does not say
// it all; one that is suspended has ended for good.
func (v *Vnode) endClaim(tx store.Tx, task id.ID, token uint64, outcome claim.Outcome) {
	r, ok := v.claims.End(task, token)
	suspended := !ok // and has a record
	if suspended {
		if r, ok = forgetSuspended(v, tx, task, token); !ok {
			return
		}
	}
	v.fills()
	r.Outcome = outcome
	if outcome == claim.Released {
		v.releases.note(task, token)
	}
	v.cfg.OnEnd(task, &r)
	tx.Delete(appendClaim(v.keyspace[:0], tableActive, v.Partition, task, token))
	if outcome == claim.Completed && !suspended {
		if is, ok := byCompletion(v, tx, task, token); ok && runOf(&is) == runOf(&r) || mutant.RunUnsaid.On() {
			return
		}
	}
	setClaim(v, tx, tableEnded, task, &r)
	if outcome == claim.Released {
		thin(v, tx, task, token)
	}
}

// Unknown tells whether Known is false, of most tasks that are new without a read.
func Unknown(v *Vnode, view store.View, task id.ID) bool {
	return !v.recent.Maybe(task) || !Known(view, v.Partition, task)
}

// Known tells whether any fact of the task is stored here.
func Known(view store.View, p ring.Partition, task id.ID) bool {
	return HasKey(view, appendTask(nil, tableFacts, p, task))
}
