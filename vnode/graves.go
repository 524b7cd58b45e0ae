package vnode

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// A grave is the index entry of a tombstone, by the time at which its task was
// collected, which is the same on every replica. Beside it stands when the
// tombstone came to be here ([arrival]).

// dig enters a tombstone that has just been put here.
func dig(v *Vnode, tx store.Tx, stone crdt.Tombstone, task id.ID, now clock.Time) {
	grave := graveOf(v.Partition, stone, task)
	tx.Set(grave, arrival(v, now.Mono))
	if bytes.Compare(grave, v.lows.graves) < 0 {
		v.lows.graves = nil
	}
}

// graveOf is the key of a tombstone's grave.
func graveOf(p ring.Partition, stone crdt.Tombstone, task id.ID) []byte {
	return appendTimed(nil, tableGraves, p, max(stone.Collected, 0), task)
}

// GravesCursor says where a search for old tombstones goes on. The zero value
// begins.
type GravesCursor struct{ key []byte }

// Graves gives up to limit tombstones whose tasks were collected up to an
// instant (wall ns), oldest first, and moves the cursor on; done says that the
// end was reached. Of those that came here in this process it gives only those
// that were here at the mono ns before, and it passes a bounded number of others.
func Graves(v *Vnode, view store.View, c *GravesCursor, upTo, before int64, limit int) (tasks []id.ID, done bool) {
	prefix := appendPrefix(nil, tableGraves, v.Partition)
	from, first := prefix, c.key == nil
	switch {
	case c.key != nil:
		from = append(bytes.Clone(c.key), 0)
	case v.lows.graves != nil:
		from = v.lows.graves
	}
	left := maxLook
	for key, came := range view.Scan(from, after(prefix)) {
		if first {
			v.lows.graves, first = bytes.Clone(key), false
		}
		if int64(binary.BigEndian.Uint64(key[prefixSize:])) > upTo {
			return tasks, true
		}
		c.key = append(c.key[:0], key...)
		if arrivedAfter(v, came, before) {
			if left--; left == 0 {
				return tasks, false
			}
			continue
		}
		if tasks = append(tasks, id.ID(key[prefixSize+8:])); len(tasks) == limit {
			return tasks, false
		}
	}
	return tasks, true
}

// Forget deletes the tombstone of a task that was collected up to an instant
// (wall ns), and tells whether it has: it leaves everything else alone. Whoever
// calls it knows that no other replica has anything of the task but a tombstone.
// It returns ErrDamaged when the tombstone cannot be read.
func Forget(v *Vnode, tx store.Tx, task id.ID, upTo int64) (bool, error) {
	f := crdt.Fact{Task: task, Key: crdt.Key{Kind: crdt.KindTombstone}}
	body, err := v.shelf.get(tx, task, f.Key)
	if err != nil || body == nil {
		return false, err
	}
	f.Body = bytes.Clone(body)
	stone, err := crdt.DecodeTombstone(f.Body)
	if err != nil {
		return false, fmt.Errorf("%w: tombstone of %s: %w", ErrDamaged, task, err)
	}
	if stone.Collected > upTo {
		return false, nil
	}
	v.shelf.remove(tx, f) // beside a tombstone there is nothing
	tx.Delete(graveOf(v.Partition, stone, task))
	return true, nil
}
