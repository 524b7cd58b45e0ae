package vnode

import (
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/record"
	"github.com/norn-dev/norn/vnode/tally"
)

// Counts has the number of tasks per state; the index is the state.
type Counts = tally.Counts

// ErrDamaged is returned when stored bytes cannot be read.
var ErrDamaged = record.ErrDamaged

const partitionVersion = 2

// partitionRecord is what a partition remembers beside its facts and indexes.
//
// Invariant: each number is what a walk over the partition finds (package audit): a mark above
// a scheduled task hides it for ever; a counter of dependents that is too low leaves some
// untold.
type partitionRecord struct {
	// moved is the (wall ns, task) up to which the scheduled index was emptied
	// into the ready index: nothing is scheduled below, so that looking for what
	// is due never walks over what was.
	moved [28]byte
	// orphans counts tasks that have facts but no enqueue yet.
	orphans uint64
	// edges counts the dependents registered here: while there are none, a task
	// that finishes has nobody to tell and needs no look.
	edges uint64
}

func (r *partitionRecord) appendTo(dst []byte) []byte {
	dst = append(append(dst, partitionVersion), r.moved[:]...)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, r.orphans), r.edges)
}

func (r *partitionRecord) write(tx store.Tx, p ring.Partition) {
	tx.Set(appendPrefix(nil, tablePartition, p), r.appendTo(nil))
}

func decodePartitionRecord(b []byte) (partitionRecord, error) {
	if len(b) != 45 || b[0] != partitionVersion {
		return partitionRecord{}, fmt.Errorf("%w: partition record", ErrDamaged)
	}
	return partitionRecord{
		moved: [28]byte(b[1:]), orphans: binary.BigEndian.Uint64(b[29:]), edges: binary.BigEndian.Uint64(b[37:]),
	}, nil
}

// Noted is what a partition has on record: up to which (wall ns, task) nothing is scheduled, how many
// tasks have facts and no enqueue, and how many dependents are registered. It is for package audit.
func Noted(view store.View, p ring.Partition) (moved [28]byte, orphans, edges uint64, err error) {
	b, ok := view.Get(appendPrefix(nil, tablePartition, p))
	if !ok {
		return moved, 0, 0, nil
	}
	r, err := decodePartitionRecord(b)
	return r.moved, r.orphans, r.edges, err
}
