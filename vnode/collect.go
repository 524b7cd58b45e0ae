package vnode

import (
	"bytes"
	"encoding/binary"

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

// Dues gives up to limit finished tasks of a partition that may go, oldest
// first per state and queue, and where to go on; nil at the end. from is nil or
// what the call before gave. cutoff says for a state and queue up to which
// instant (wall ns) they were finished; below 0: none. It costs a seek per
// queue with finished tasks, and reads nothing that stays.
func Dues(view store.View, p ring.Partition, from []byte, cutoff func(crdt.State, string) int64, limit int) (dues []Due, next []byte) {
	prefix := appendPrefix(nil, tableFinished, p)
	if from == nil {
		from = prefix
	}
	for end := after(prefix); from != nil && len(dues) < limit; {
		from = duesOf(view, from, end, cutoff, limit, &dues)
	}
	return dues, from
}

// duesOf takes the due tasks of the first state and queue at or after from, and
// gives where to go on, or nil at the end.
func duesOf(view store.View, from, end []byte, cutoff func(crdt.State, string) int64, limit int, dues *[]Due) []byte {
	var run []byte // state and queue
	last := int64(-1)
	for key := range view.Scan(from, end) {
		at := len(key) - 8 - id.Size
		d := Due{
			Task: id.ID(key[at+8:]), State: crdt.State(key[prefixSize]), Queue: string(key[prefixSize+1 : at-1]),
			At: int64(binary.BigEndian.Uint64(key[at:])),
		}
		switch {
		case run == nil:
			run, last = append(run, key[:at]...), cutoff(d.State, d.Queue)
		case !bytes.Equal(run, key[:at]), len(*dues) == limit:
			return append([]byte(nil), key...)
		}
		if d.At > last {
			return after(run) // the rest of this queue is younger
		}
		*dues = append(*dues, d)
	}
	return nil
}

// Collect deletes a finished task and leaves a tombstone, which says how it
// ended until the wall ns that until gives. It refuses, with false, what is not
// finished as d says any more, and what an unfinished task depends on (design
// 6).
func (v *Vnode) Collect(tx store.Tx, d Due, until func(*crdt.Task) int64) (bool, error) {
	t, err := LoadTask(tx, v.Partition, d.Task)
	if err != nil {
		return false, err
	}
	if t.Enqueued == nil || t.Outcome() != d.State || t.FinishedAt() != d.At || v.Edges.Any(tx, d.Task) {
		return false, nil
	}
	may := until(t)
	was := v.stands(tx, t)
	v.leave(tx, d.Task, &was)
	drop(tx, appendTask(nil, tableFacts, v.Partition, d.Task))
	drop(tx, appendTask(nil, tableEnded, v.Partition, d.Task))
	f := crdt.Tombstone{Outcome: d.State, At: d.At}.Fact(d.Task)
	tx.Set(appendFact(nil, v.Partition, d.Task, f.Key), f.Body)
	tx.Set(appendGrave(nil, v.Partition, may, d.Task), nil)
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

// Forget deletes up to limit tombstones whose time is over and gives their
// number.
func Forget(tx store.Tx, p ring.Partition, now int64, limit int) int {
	prefix := appendPrefix(nil, tableGraves, p)
	var keys [][]byte
	for key := range tx.Scan(prefix, after(prefix)) {
		if len(keys) == limit || int64(binary.BigEndian.Uint64(key[prefixSize:])) > now {
			break
		}
		keys = append(keys, append([]byte(nil), key...))
	}
	for _, key := range keys {
		tx.Delete(key)
		drop(tx, appendTask(nil, tableFacts, p, id.ID(key[prefixSize+8:])))
	}
	return len(keys)
}

// DropOrphans deletes up to limit tasks that have facts but no enqueue, by ID
// up to one, and gives their number: nobody can enqueue them any more.
func DropOrphans(v *Vnode, tx store.Tx, upTo id.ID, limit int) int {
	if v.record.orphans == 0 {
		return 0
	}
	prefix := appendPrefix(nil, tableOrphans, v.Partition)
	var tasks []id.ID
	for key := range tx.Scan(prefix, after(prefix)) {
		task := id.ID(key[prefixSize:])
		if len(tasks) == limit || task.Compare(upTo) > 0 {
			break
		}
		tasks = append(tasks, task)
	}
	for _, task := range tasks {
		drop(tx, appendTask(nil, tableFacts, v.Partition, task))
		tx.Delete(appendTask(nil, tableOrphans, v.Partition, task))
		v.record.orphans--
	}
	if len(tasks) > 0 {
		v.record.write(tx, v.Partition)
	}
	return len(tasks)
}
