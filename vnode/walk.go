package vnode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Walk gives the tasks of a partition after one ID, in ID order, with their
// claims. Facts and claims are read in one pass each, side by side. Of a task
// whose spec keep refuses nothing is copied, and no more than its ID is given
// (Enqueued is nil), so that the caller can bound its steps. An error
// (ErrDamaged) ends the walk.
func Walk(view store.View, p ring.Partition, last id.ID, keep func(*crdt.Enqueued) bool) iter.Seq2[*Detail, error] {
	return walkFrom(walk{view: view, p: p, keep: keep}, last)
}

// leanBytes is how much of what may be large [WalkLean] gives with a task.
const leanBytes = 4 << 10

// WalkLean is a walk that leaves out of a task what may be large, its payload, results,
// updates and further fields, where they are over 4 KiB together: so many partitions can be walked side
// by side, each with a task in memory. What is left out changes nothing but itself.
func WalkLean(view store.View, p ring.Partition, last id.ID, keep func(*crdt.Enqueued) bool) iter.Seq2[*Detail, error] {
	return walkFrom(walk{view: view, p: p, keep: keep, lean: true}, last)
}

// walkFrom walks as a walk says that has not begun.
func walkFrom(as walk, last id.ID) iter.Seq2[*Detail, error] {
	return func(yield func(*Detail, error) bool) {
		w, view, p := as, as.view, as.p
		facts := appendPrefix(nil, tableFacts, p)
		from := facts
		if last != (id.ID{}) {
			from = after(appendTask(nil, tableFacts, p, last))
		}
		defer w.close()
		for from != nil {
			var next []byte // where to go on, when what lies between is passed over
			for key, value := range view.Scan(from, after(facts)) {
				task := id.ID(key[prefixSize:])
				if task != w.task {
					if !w.emit(yield) {
						return
					}
					w.begin(task)
				}
				if err := w.take(key, value); err != nil {
					yield(nil, err)
					return
				}
				if next = w.beyond(); next != nil {
					break
				}
			}
			from = next
		}
		w.emit(yield)
	}
}

// passing is how many facts a walk steps over before it looks for the end of those that
// it leaves out instead: that costs as much as some steps.
const passing = 64

// beyond gives the key behind the facts that are left out, once there are many; nil: go on.
func (w *walk) beyond() []byte {
	if w.over < passing {
		return nil
	}
	w.over = 0
	if w.skip {
		return after(appendTask(nil, tableFacts, w.p, w.task))
	}
	return appendFact(nil, w.p, w.task, crdt.Key{Kind: crdt.KindCompleted}) // updates are left out
}

// walk gathers one task at a time.
type walk struct {
	view   store.View
	p      ring.Partition
	keep   func(*crdt.Enqueued) bool
	task   id.ID
	facts  []crdt.Fact
	skip   bool
	lean   bool
	over   int  // facts of the task that were left out in a row
	size   int  // of what may be large
	cut    bool // some of that was left out
	ended  *claimWalk
	active *claimWalk
}

func (w *walk) begin(task id.ID) {
	w.task, w.facts, w.skip = task, w.facts[:0], false
	w.over, w.size, w.cut = 0, 0, false
}

// take adds a fact. The enqueue fact has the smallest key, so a task is kept
// or passed over before the rest of it is looked at.
func (w *walk) take(key, value []byte) error {
	if w.skip {
		w.over++
		return nil
	}
	f, err := intactFact(key, value)
	if err != nil {
		return err
	}
	if f.Key.Kind == crdt.KindEnqueued && w.keep != nil {
		e, err := crdt.DecodeEnqueued(f.Body)
		if err != nil {
			return fmt.Errorf("%w: task %s: %w", ErrDamaged, w.task, err)
		}
		if !w.keep(&e) {
			w.skip = true
			return nil
		}
	}
	if w.lean {
		if f.Body, err = w.trim(f.Key.Kind, f.Body); err != nil {
			return fmt.Errorf("%w: task %s: %w", ErrDamaged, w.task, err)
		}
		if f.Body == nil {
			return nil
		}
	}
	w.facts = append(w.facts, crdt.Fact{Task: w.task, Key: f.Key, Body: append([]byte(nil), f.Body...)}) // the CRC was looked at
	return nil
}

// trim leaves out of a fact what may be large, once there is more of that than a lean
// walk gives; nil: all of it.
func (w *walk) trim(k crdt.Kind, value []byte) ([]byte, error) {
	if k != crdt.KindUpdate {
		w.over = 0
	}
	if k != crdt.KindEnqueued && k != crdt.KindUpdate && k != crdt.KindCompleted {
		return value, nil
	}
	if w.size += len(value); w.size <= leanBytes {
		return value, nil
	}
	w.cut = true
	switch k {
	case crdt.KindEnqueued:
		e, err := crdt.DecodeEnqueued(value)
		e.Payload, e.Further = nil, nil
		return e.Encode(), err
	case crdt.KindCompleted:
		c, err := crdt.DecodeCompleted(value)
		run, has := crdt.RunOf(c.Further)
		if c.Result, c.Further = nil, nil; has {
			c.Further = crdt.AppendRun(nil, nil, run)
		}
		return c.Encode(), err
	}
	w.over++
	return nil, nil
}

// emit gives the gathered task to the caller, who may end the walk.
func (w *walk) emit(yield func(*Detail, error) bool) bool {
	if w.skip {
		return yield(&Detail{Task: crdt.NewTask(w.task, nil)}, nil)
	}
	if len(w.facts) == 0 {
		return true
	}
	v := crdt.NewViewer(w.task)
	for _, f := range w.facts {
		if err := v.Add(f); err != nil {
			yield(nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, w.task, err))
			return false
		}
	}
	d := &Detail{Task: v.Task, Lean: w.cut}
	var err error
	d.Log = d.Task.VisibleUpdates()
	if w.ended == nil { // the first task says where the claims begin
		w.ended = newClaimWalk(w.view, tableEnded, w.p, w.task)
		w.active = newClaimWalk(w.view, tableActive, w.p, w.task)
	}
	if d.Claims, err = w.ended.of(w.task, nil); err == nil {
		ended := len(d.Claims)
		d.Claims, err = w.active.of(w.task, d.Claims)
		d.State = stateOf(w.view, d.Task, w.p, len(d.Claims) > ended)
		d.recall(0)
	}
	if err != nil {
		yield(nil, err)
		return false
	}
	return yield(d, nil)
}

func (w *walk) close() {
	for _, c := range []*claimWalk{w.ended, w.active} {
		if c != nil { // the second is not there where reading its begin was the end of all
			c.stop()
		}
	}
}

// claimWalk reads the claims of one table in step with the tasks.
type claimWalk struct {
	next  func() ([]byte, []byte, bool)
	stop  func()
	key   []byte
	value []byte
	ok    bool
}

func newClaimWalk(view store.View, table byte, p ring.Partition, from id.ID) *claimWalk {
	c := &claimWalk{}
	c.next, c.stop = iter.Pull2(view.Scan(appendTask(nil, table, p, from), after(appendPrefix(nil, table, p))))
	c.key, c.value, c.ok = c.next()
	return c
}

// of appends the claims of a task; tasks come in ascending order.
func (c *claimWalk) of(task id.ID, to []claim.Record) ([]claim.Record, error) {
	for c.ok && bytes.Compare(c.key[prefixSize:prefixSize+id.Size], task[:]) <= 0 {
		if id.ID(c.key[prefixSize:]) == task {
			r, err := claim.DecodeRecord(binary.BigEndian.Uint64(c.key[len(c.key)-8:]), c.value)
			if err != nil {
				return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
			}
			if to = append(to, r); len(to) == 2*MaxClaims { // ended ones, for nobody holds so many
				to = append(to[:0], to[MaxClaims:]...)
			}
		}
		c.key, c.value, c.ok = c.next()
	}
	return to, nil
}
