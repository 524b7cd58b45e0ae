package sim

import (
	"errors"
	"iter"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// disk is the virtual disk of a node. What is applied is visible at once and
// durable only after a sync that began later; a crash keeps what is durable and
// any number of the batches after it, each whole.
//
// The store under it is never told to sync: its crash keeps as many batches as
// it is asked to, and how many of them are durable is counted here, and told to it
// when somebody looks. So a sync can cover what was applied before it began, and
// nothing after that.
//
// A record that has rotted ends the process that reads it, as the checksums of
// the real store do.
type disk struct {
	*memstore.Mem
	applied uint64 // batches since the process began
	durable uint64 // how many of those are durable
	written uint64 // and how many of these the store knows to be
	bad     string // the key of a record that has rotted; "": none has
}

// errRotten is returned when a record of a disk is not what was written.
var errRotten = errors.New("sim: checksum of a record does not match")

func newDisk() *disk { return &disk{Mem: memstore.New()} }

// copied is a new disk with everything that is in a view.
func copied(view store.View) *disk {
	d := newDisk()
	var b store.Batch
	for key, value := range view.Scan(nil, nil) {
		b.Set(key, value)
	}
	d.apply(&b)
	d.harden(d.applied)
	return d
}

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
	d.Mem = d.Crash(int(d.durable-d.written) + keep)
	d.applied, d.durable, d.written = 0, 0, 0
}

// kept reads what no crash takes away.
func (d *disk) kept() store.View {
	d.Mem.Harden(int(d.durable - d.written))
	d.written = d.durable
	return d.Mem.Synced()
}

// Get gives the value of a key.
func (d *disk) Get(key []byte) ([]byte, bool) {
	if d.bad != "" && string(key) == d.bad {
		panic(errRotten)
	}
	return d.Mem.Get(key)
}

// Scan gives the pairs of a range in ascending order.
func (d *disk) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return guarded(d.Mem.Scan(lower, upper), d.bad)
}

// Back gives the pairs of a range in descending order.
func (d *disk) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return guarded(d.Mem.Back(lower, upper), d.bad)
}

// Snapshot gives the store as it is now.
func (d *disk) Snapshot() store.Snapshot {
	if d.bad == "" {
		return d.Mem.Snapshot()
	}
	return rotten{d.Mem.Snapshot(), d.bad}
}

// rotten is a snapshot with a record that cannot be read.
type rotten struct {
	store.Snapshot
	bad string
}

func (r rotten) Get(key []byte) ([]byte, bool) {
	if string(key) == r.bad {
		panic(errRotten)
	}
	return r.Snapshot.Get(key)
}

func (r rotten) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return guarded(r.Snapshot.Scan(lower, upper), r.bad)
}

func (r rotten) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return guarded(r.Snapshot.Back(lower, upper), r.bad)
}

func guarded(pairs iter.Seq2[[]byte, []byte], bad string) iter.Seq2[[]byte, []byte] {
	if bad == "" {
		return pairs
	}
	return func(yield func([]byte, []byte) bool) {
		for key, value := range pairs {
			if string(key) == bad {
				panic(errRotten)
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// caught turns the end of a process that has read a rotten record into an error.
func (d *disk) caught(err *error) {
	if d.bad == "" {
		return
	}
	switch r := recover(); r {
	case nil:
	case errRotten:
		*err = errRotten
	default:
		panic(r)
	}
}

// ends is the end of a process that has read a rotten record.
func ends(n *node) {
	switch r := recover(); r {
	case nil:
	case errRotten:
		n.s.fleet.fatal(n, errRotten)
	default:
		panic(r)
	}
}
