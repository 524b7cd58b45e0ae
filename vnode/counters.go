package vnode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/tally"
)

// Counts has the number of tasks per state; the index is the state.
type Counts = tally.Counts

// ErrDamaged is returned when stored bytes cannot be read. The node stops:
// damaged is not the same as absent.
var ErrDamaged = errors.New("vnode: damaged record")

const queueVersion = 1

// appendQueueRecord appends the stored form of a queue's counters and the
// low-water rank of its ready index.
func appendQueueRecord(dst []byte, c *Counts, low claim.Rank, hasLow bool) []byte {
	dst = append(dst, queueVersion)
	for _, n := range c[1:] {
		dst = binary.AppendUvarint(dst, n)
	}
	if hasLow {
		dst = append(dst, low[:]...)
	}
	return dst
}

func decodeQueueRecord(b []byte) (c Counts, low claim.Rank, hasLow bool, err error) {
	if len(b) == 0 || b[0] != queueVersion {
		return c, low, false, fmt.Errorf("%w: queue record", ErrDamaged)
	}
	b = b[1:]
	for i := range c[1:] {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return c, low, false, fmt.Errorf("%w: queue counters", ErrDamaged)
		}
		c[i+1], b = n, b[size:]
	}
	switch len(b) {
	case 0:
	case claim.RankSize:
		low, hasLow = claim.Rank(b), true
	default:
		return c, low, false, fmt.Errorf("%w: low-water rank", ErrDamaged)
	}
	return c, low, hasLow, nil
}

const partitionVersion = 2

// partitionRecord is what a partition remembers beside its facts and indexes.
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
