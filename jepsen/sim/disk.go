package sim

import (
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// disk is the virtual disk of a node. What is applied is visible at once and
// durable only after a sync that began later; a crash keeps what is durable and
// any number of the batches after it, each whole.
//
// The store under it is never told to sync: its crash keeps as many batches as
// it is asked to, and how many of them are durable is counted here. So a sync
// can cover what was applied before it began, and nothing after that.
type disk struct {
	*memstore.Mem
	applied uint64 // batches since the process began
	durable uint64 // how many of those are durable
}

func newDisk() *disk { return &disk{Mem: memstore.New()} }

func (d *disk) apply(b *store.Batch) {
	d.Apply(b)
	d.applied++
}

// harden makes the first batches durable, up to a mark of applied.
func (d *disk) harden(mark uint64) { d.durable = max(d.durable, mark) }

// unsynced is the number of batches that a crash may lose.
func (d *disk) unsynced() int { return int(d.applied - d.durable) }

// crash loses all but the first keep batches of those that are not durable.
func (d *disk) crash(keep int) {
	d.Mem = d.Crash(int(d.durable) + keep)
	d.applied, d.durable = 0, 0
}
