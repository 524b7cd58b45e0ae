package vnode

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Due is a finished task whose retention is over.
type Due struct {
	Task  id.ID
	State crdt.State
	Queue string
	At    int64 // finished, wall ns
}

// lows are keys below which nothing is left, so that looking for what may go
// never walks over what went before. They live in memory: after a restart the
// first look is a longer one.
type lows struct {
	finished map[string][]byte // by state and queue
	graves   []byte
}

// entered lowers the marks for a new entry below them.
func (l *lows) entered(key []byte) {
	run := key[:len(key)-8-id.Size]
	if low, ok := l.finished[string(run)]; ok && bytes.Compare(key, low) < 0 {
		delete(l.finished, string(run))
	}
}

// drop forgets the marks of a queue.
func (l *lows) drop(p ring.Partition, queue string) {
	for _, state := range []crdt.State{crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled} {
		delete(l.finished, string(appendFinishedRun(nil, p, state, queue)))
	}
}

// DuesCursor says where a search for due tasks goes on. The zero value begins.
type DuesCursor struct {
	queue string
	key   []byte // the last one seen of that queue
}

// DuesAfter is where a search goes on after a task that it gave.
func DuesAfter(v *Vnode, d Due) DuesCursor {
	return DuesCursor{d.Queue, appendFinished(nil, v.Partition, d.State, d.Queue, d.At, d.Task)}
}

const (
	// maxLook bounds one look for what may go: in queues, and in records that stay. A
	// queue with finished tasks is a seek, which takes as long as seekCost of the others.
	maxLook  = 4096
	seekCost = 16
)

// Dues gives up to limit finished tasks of a partition that may go, by queue
// and state, oldest first, and moves the cursor on; done says that the end was
// reached. cutoff says for a state and queue up to which instant (wall ns) they
// were finished; below 0: none. Of those whose end came here in this process it gives
// only those that were here at the mono ns before. It costs a seek per queue with finished tasks,
// and reads nothing that stays but what the caller has not collected. However many
// queues there are, one call looks at a bounded number of them.
func Dues(v *Vnode, view store.View, c *DuesCursor, cutoff func(crdt.State, string) int64, before int64, limit int) (dues []Due, done bool) {
	names, left := v.names(), maxLook
	first, _ := slices.BinarySearch(names, c.queue)
	for _, name := range names[first:] {
		if left <= 0 {
			c.queue, c.key = name, nil
			return dues, false
		}
		left--
		for _, state := range []crdt.State{crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled} {
			last := cutoff(state, name)
			if v.queues[name].counts[state] == 0 || last < 0 {
				continue
			}
			left -= seekCost
			if duesOf(v, view, c, state, name, last, before, limit, &left, &dues) {
				return dues, false
			}
		}
		c.key = nil
	}
	return dues, true
}

// duesOf tells whether that is enough for one call.
func duesOf(v *Vnode, view store.View, c *DuesCursor, state crdt.State, name string, last, before int64, limit int, left *int, dues *[]Due) (enough bool) {
	run := appendFinishedRun(nil, v.Partition, state, name)
	from, first := run, true
	if low := v.lows.finished[string(run)]; low != nil {
		from = low
	}
	if bytes.Compare(c.key, from) >= 0 && c.queue == name {
		from, first = append(append([]byte(nil), c.key...), 0), false
	}
	for key, came := range view.Scan(from, after(run)) {
		if first {
			if v.lows.finished == nil {
				v.lows.finished = make(map[string][]byte)
			}
			v.lows.finished[string(run)], first = append([]byte(nil), key...), false
		}
		at := len(run)
		d := Due{Task: id.ID(key[at+8:]), State: state, Queue: name, At: int64(binary.BigEndian.Uint64(key[at:]))}
		if d.At > last {
			return false // the rest is younger
		}
		c.queue, c.key = name, append(c.key[:0], key...)
		if arrivedAfter(v, came, before) {
			if *left--; *left <= 0 {
				return true
			}
			continue
		}
		*dues = append(*dues, d)
		if len(*dues) == limit {
			return true
		}
	}
	return false
}

// Collect deletes a finished task and leaves a tombstone, which says how it
// ended and that it was collected at the wall ns that collected gives. It
// refuses, with false, what is not finished as d says any more, what an
// unfinished task depends on (design 6), and what has a claim that may come back:
// there may have been a retry that is not known here.
func (v *Vnode) Collect(tx store.Tx, d Due, now clock.Time, collected func(*crdt.Task) int64) (bool, error) {
	held := v.shelf.hold(tx, d.Task)
	t, err := held.load()
	if err != nil {
		return false, err
	}
	if t.Enqueued == nil || t.Outcome() != d.State || t.FinishedAt() != d.At || v.suspended.Lookup(d.Task) != nil || v.Edges.Any(tx, d.Task) {
		return false, nil
	}
	if len(t.Enqueued.Dependencies) > 0 {
		if _, linked := tx.Get(appendTask(nil, tableReleases, v.Partition, d.Task)); linked { // nothing here says any more what it depended on
			v.cfg.OnUnlink(d.Task, t.Enqueued.Dependencies)
		}
	}
	stone := crdt.Tombstone{Outcome: d.State, At: d.At, Collected: collected(t)}
	was := v.stands(tx, t)
	v.leave(tx, d.Task, &was)
	v.shelf.drop(tx, held)
	v.shelf.dropEnded(tx, d.Task)
	v.shelf.put(tx, stone.Fact(d.Task), nil)
	dig(v, tx, stone, d.Task, now)
	return true, nil
}

// drop deletes every key with a prefix. The keys are few: those of one task.
func drop(tx store.Tx, prefix []byte) {
	var keys [][]byte
	for key := range tx.Scan(prefix, after(prefix)) {
		keys = append(keys, append([]byte(nil), key...))
	}
	for _, key := range keys {
		tx.Delete(key)
	}
}

// Orphans gives up to limit tasks that have facts but no enqueue, by ID up to
// one; those that keep says.
func Orphans(v *Vnode, view store.View, upTo id.ID, keep func(id.ID) bool, limit int) (tasks []id.ID) {
	if v.record.orphans == 0 {
		return nil
	}
	prefix := appendPrefix(nil, tableOrphans, v.Partition)
	for key := range view.Scan(prefix, after(prefix)) {
		task := id.ID(key[prefixSize:])
		if len(tasks) == limit || task.Compare(upTo) > 0 {
			break
		}
		if keep(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// DropOrphan deletes the facts of a task that has no enqueue, and tells whether
// it has: it leaves everything else alone. Whoever calls it knows that nobody has
// enqueued the task, or can any more.
func DropOrphan(v *Vnode, tx store.Tx, task id.ID) bool {
	if !v.record.settled(tx, v.Partition, task) {
		return false
	}
	v.endClaims(tx, task, 0, false)
	v.shelf.dropEnded(tx, task)
	v.shelf.drop(tx, v.shelf.hold(tx, task))
	return true
}
