package disk

import (
	"errors"
	"iter"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// Disk is the virtual disk of a node. What is applied is visible at once and
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
type Disk struct {
	*memstore.Mem
	Applied uint64 // batches since the process began
	durable uint64 // how many of those are durable
	written uint64 // and how many of these the store knows to be
	Bad     string // the key of a record that has rotted; "": none has
}

// ErrRotten is returned when a record of a disk is not what was written.
var ErrRotten = errors.New("sim: checksum of a record does not match")

// New makes an empty disk.
func New() *Disk { return &Disk{Mem: memstore.New()} }

// Copied is a new disk with everything that is in a view.
func Copied(view store.View) *Disk {
	d := New()
	var b store.Batch
	for key, value := range view.Scan(nil, nil) {
		b.Set(key, value)
	}
	d.Write(&b)
	d.Secure(d.Applied)
	return d
}

// Write applies a batch: visible at once, durable after [Disk.Secure].
func (d *Disk) Write(b *store.Batch) {
	d.Apply(b)
	d.Applied++
}

// Secure makes the first batches durable, up to a mark of applied.
func (d *Disk) Secure(mark uint64) { d.durable = max(d.durable, mark) }

// AtRisk is the number of batches that a crash may lose.
func (d *Disk) AtRisk() int { return int(d.Applied - d.durable) }

// Fail loses all but the first keep batches of those that are not durable.
func (d *Disk) Fail(keep int) {
	d.Mem = d.Crash(int(d.durable-d.written) + keep)
	d.Applied, d.durable, d.written = 0, 0, 0
}

// Safe reads what no crash takes away.
func (d *Disk) Safe() store.View {
	d.Mem.Harden(int(d.durable - d.written))
	d.written = d.durable
	return d.Mem.Synced()
}

// Get gives the value of a key.
func (d *Disk) Get(key []byte) ([]byte, bool) {
	if d.Bad != "" && string(key) == d.Bad {
		panic(ErrRotten)
	}
	return d.Mem.Get(key)
}

// Scan gives the pairs of a range in ascending order.
func (d *Disk) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return guarded(d.Mem.Scan(lower, upper), d.Bad)
}

// Back gives the pairs of a range in descending order.
func (d *Disk) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return guarded(d.Mem.Back(lower, upper), d.Bad)
}

// Snapshot gives the store as it is now.
func (d *Disk) Snapshot() store.Snapshot {
	if d.Bad == "" {
		return d.Mem.Snapshot()
	}
	return rotten{d.Mem.Snapshot(), d.Bad}
}

// rotten is a snapshot with a record that cannot be read.
type rotten struct {
	store.Snapshot
	bad string
}

func (r rotten) Get(key []byte) ([]byte, bool) {
	if string(key) == r.bad {
		panic(ErrRotten)
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
				panic(ErrRotten)
			}
			if !yield(key, value) {
				return
			}
		}
	}
}
