package vnode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// place says in which index a task stands, or where it goes. Where it goes
// follows from its facts and claims, and between scheduled and ready from the
// clock; where it stands is where its entry is, whatever the clock says by now.
//
// Invariant: between two calls of the vnode each task with an enqueue stands where its place
// says, its entry and its counter changed in one batch ([Vnode.leave], [Vnode.enter]); package
// audit computes both anew.
type place struct {
	state  crdt.State // StateUnknown: in none
	queue  string
	rank   claim.Rank
	size   int    // what it holds, bytes: see [crdt.Enqueued.Size]
	at     int64  // scheduled: due; finished: when
	came   int64  // finished: when that came here, mono ns
	body   []byte // with fresh: the enqueue fact
	crc    uint32 // of it
	linked bool   // it has dependencies
	fresh  bool   // surely never claimed and without other facts; false is always safe
}

// rankOf is the task's rank; the task has an enqueue fact.
func rankOf(t *crdt.Task) claim.Rank {
	return claim.NewRank(t.Enqueued.Priority, admissionOrder(t.ID, t.Enqueued.Admission), t.ID)
}

func admissionOrder(task id.ID, admission int64) [8]byte {
	if admission == 0 {
		return task.Order()
	}
	return id.OrderOf(admission, task.Kind())
}

// briefOf is what the claim table remembers of the task.
func briefOf(t *crdt.Task) claim.Brief {
	return claim.Brief{
		Queue: t.Enqueued.Queue, Kind: proto.KindOf(t.Enqueued.Further), Rank: rankOf(t),
		Attempts: uint32(t.Attempts()), MaxAttempts: t.Enqueued.Retry.MaxAttempts,
		Linked: len(t.Enqueued.Dependencies) > 0, Size: t.Enqueued.Size(),
	}
}

// stands tells in which index the task is.
func (v *Vnode) stands(view store.View, t *crdt.Task) place {
	p := v.goes(t, clock.Time{Wall: math.MinInt64})
	if p.state == crdt.StateScheduled && !scheduled(view, v.Partition, p.at, t.ID) {
		p.state, p.at = crdt.StateReady, 0
	}
	return p
}

// goes tells in which index the task belongs by now.
func (v *Vnode) goes(t *crdt.Task, now clock.Time) place {
	if t.Enqueued == nil {
		return place{}
	}
	p := place{queue: t.Enqueued.Queue, rank: rankOf(t), size: t.Enqueued.Size(), linked: len(t.Enqueued.Dependencies) > 0}
	if s := t.Outcome(); s != crdt.StateUnknown {
		p.state, p.at, p.came = s, t.FinishedAt(), now.Mono
		return p
	}
	if v.claims.Lookup(t.ID) != nil {
		p.state = crdt.StateClaimed
		return p
	}
	if t.Waiting() {
		p.state = crdt.StateWaiting
		return p
	}
	p.state, p.at = wake(t.NotBefore(), now)
	return p
}

// wake tells whether a task with this earliest start is ready or scheduled.
func wake(notBefore int64, now clock.Time) (crdt.State, int64) {
	if notBefore == 0 || notBefore <= now.Wall {
		return crdt.StateReady, 0
	}
	return crdt.StateScheduled, notBefore
}

// scheduled tells whether a task stands in the scheduled index.
func scheduled(view store.View, p ring.Partition, at int64, task id.ID) bool {
	_, ok := view.Get(appendTimed(nil, tableScheduled, p, at, task))
	return ok
}

// tally changes the counters by a task, which the next flush writes.
func (v *Vnode) tally(q *queue, p *place, by int) {
	q.counts[p.state] += uint64(by) // wraps around for -1
	q.group.Change(p.state, by, q.resize(by*p.size))
	if !q.dirty {
		q.dirty = true
		v.dirty = append(v.dirty, q)
	}
}

// leave deletes the task's index entry and takes it off its counter.
func (v *Vnode) leave(tx store.Tx, task id.ID, p *place) {
	if p.state == crdt.StateUnknown {
		return
	}
	q := v.queue(p.queue)
	v.tally(q, p, -1)
	switch p.state {
	case crdt.StateReady:
		tx.Delete(appendReady(v.keyspace[:0], v.Partition, p.queue, &p.rank))
		q.head.Remove(&p.rank)
		v.fill(tx, q)
	case crdt.StateScheduled:
		tx.Delete(appendTimed(v.keyspace[:0], tableScheduled, v.Partition, p.at, task))
	case crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled:
		tx.Delete(appendFinished(v.keyspace[:0], v.Partition, p.state, p.queue, p.at, task))
	}
}

// enter writes the task's index entry and counts it.
func (v *Vnode) enter(tx store.Tx, task id.ID, p *place) {
	if p.state == crdt.StateUnknown {
		return
	}
	q := v.queue(p.queue)
	v.tally(q, p, 1)
	switch p.state {
	case crdt.StateReady:
		fresh := [1]byte{}
		if p.fresh {
			fresh[0] = 1
		}
		tx.Set(appendReady(v.keyspace[:0], v.Partition, p.queue, &p.rank), fresh[:])
		q.head.Insert(claim.Ready{Rank: p.rank, Fresh: p.fresh, Body: p.body, CRC: p.crc})
		v.fill(tx, q)
	case crdt.StateScheduled:
		tx.Set(appendTimed(v.keyspace[:0], tableScheduled, v.Partition, p.at, task), nil)
		v.nextDue = min(v.nextDue, p.at)
		if v.record.above(p.at, task) { // the clock went back
			v.record.write(tx, v.Partition)
		}
	case crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled:
		key := appendFinished(v.keyspace[:0], v.Partition, p.state, p.queue, p.at, task)
		tx.Set(key, arrival(v, p.came))
		v.lows.entered(key)
		v.cfg.OnFinish(v.Partition, task, p.linked)
	}
}

// above lowers the mark below which nothing is scheduled, where a new entry
// (at, task) asks for it, and tells whether it did.
func (r *partitionRecord) above(at int64, task id.ID) bool {
	var k [28]byte
	binary.BigEndian.PutUint64(k[:], uint64(at))
	copy(k[8:], task[:])
	if bytes.Compare(k[:], r.moved[:]) > 0 {
		return false
	}
	r.moved = [28]byte{}
	binary.BigEndian.PutUint64(r.moved[:], uint64(at)) // the zero task is below any
	return true
}

// findDue looks up the first scheduled entry, starting at the watermark so
// that what was moved before is not walked over.
func (v *Vnode) findDue(view store.View) {
	v.nextDue = math.MaxInt64
	prefix := appendPrefix(nil, tableScheduled, v.Partition)
	from := append(appendPrefix(nil, tableScheduled, v.Partition), v.record.moved[:]...)
	for key := range view.Scan(from, after(prefix)) {
		v.nextDue = int64(binary.BigEndian.Uint64(key[prefixSize:]))
		return
	}
}

// maxMoves bounds the due tasks moved in one tick, so that a million tasks due
// at one instant do not hold up everything else.
const maxMoves = 1000

// moveDue moves due tasks from the scheduled to the ready index.
func (v *Vnode) moveDue(tx store.Tx, now clock.Time) error {
	if v.nextDue > now.Wall {
		return nil
	}
	prefix := appendPrefix(nil, tableScheduled, v.Partition)
	from := append(appendPrefix(nil, tableScheduled, v.Partition), v.record.moved[:]...)
	var due []id.ID
	var last [28]byte
	for key := range tx.Scan(from, after(prefix)) {
		at := int64(binary.BigEndian.Uint64(key[prefixSize:]))
		if at > now.Wall || len(due) == maxMoves {
			break
		}
		due = append(due, id.ID(key[prefixSize+8:]))
		last = [28]byte(key[prefixSize:])
	}
	moves := make([]place, len(due))
	for i, task := range due {
		t, err := LoadTask(tx, v.Partition, task)
		if err != nil {
			return err
		}
		moves[i] = v.stands(tx, t)
		if moves[i].state != crdt.StateScheduled {
			return fmt.Errorf("%w: %s is in the scheduled index but is %s", ErrDamaged, task, moves[i].state)
		}
	}
	if len(due) > 0 {
		for i, task := range due {
			v.leave(tx, task, &moves[i])
		}
		v.record.moved = last
		v.record.write(tx, v.Partition)
		for i, task := range due {
			moves[i].state = crdt.StateReady
			v.enter(tx, task, &moves[i])
		}
	}
	v.findDue(tx)
	return nil
}
