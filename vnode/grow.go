package vnode

import (
	"iter"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Grow begins to keep the tree that replicas compare, for a partition that had
// none to compare with. It counts from now on; what was there before is counted
// by the scrubber, which Grow gives and which the caller steps until it is done,
// and then calls [Grown]. It gives nil when the tree is whole already.
func Grow(v *Vnode, replica antientropy.Replica) *antientropy.Scrubber {
	if v.shelf.whole {
		return nil
	}
	if v.shelf.tree == nil {
		v.shelf.tree = antientropy.NewTree(tableTree, v.Partition)
	}
	s := antientropy.NewScrubber(v.shelf.tree, replica)
	s.Start(antientropy.Path{}, true)
	return s
}

// Grown notes that the tree counts every fact. It is written with the last of
// its nodes, so that a restart in the middle begins again.
func Grown(v *Vnode, tx store.Tx) {
	v.shelf.whole, v.shelf.noted = true, true
	tx.Set(appendPrefix(nil, tableGrown, v.Partition), nil)
}

// Empty tells whether there are no facts in a partition, no claims, which may
// come before the facts, and nothing kept aside of it.
func Empty(view store.View, p ring.Partition) bool {
	for _, table := range []byte{tableFacts, tableActive, tableAside} {
		if HasKey(view, appendPrefix(nil, table, p)) {
			return false
		}
	}
	return true
}

// dropped are the tables of a partition, in the order in which [Drop] empties
// them. The edges stay: tasks that are kept here may depend on what is not.
var dropped = []byte{
	tableActive, tableSuspended, tableEnded, tableReady, tableScheduled, tableWaiting, tableNews, tableReleases,
	tableGraves, tableKeys, tableFinished, tableQueues, tableSizes, tableLogs, tableTries, tableOrphans, tableGrown, tableTouched, tableTree, tableAside, tableAsideFacts, tableFacts,
}

// BeginDrop notes that everything of a partition is to be deleted. From then on
// nothing may be read of it but by [Drop]: there is no order in which parts of it
// could go and the rest make sense.
func BeginDrop(tx store.Tx, p ring.Partition) { tx.Set(appendPrefix(nil, tableDropping, p), nil) }

// Dropping tells whether a partition is being deleted.
func Dropping(view store.View, p ring.Partition) bool {
	_, ok := view.Get(appendPrefix(nil, tableDropping, p))
	return ok
}

// Blank is the vnode of a partition that is being deleted: one without tasks.
func Blank(p ring.Partition, cfg Config, view store.View, now clock.Time) (*Vnode, error) {
	v, err := Open(p, cfg, nothing{}, now)
	if err != nil {
		return nil, err
	}
	prefix := appendPrefix(nil, tableEdges, p)
	for range view.Scan(prefix, after(prefix)) {
		v.record.edges++
	}
	return v, nil
}

// nothing is a store with nothing in it.
type nothing struct{}

func (nothing) Get([]byte) ([]byte, bool)          { return nil, false }
func (nothing) Last([]byte, []byte) ([]byte, bool) { return nil, false }
func (nothing) Scan([]byte, []byte) iter.Seq2[[]byte, []byte] {
	return func(func([]byte, []byte) bool) {}
}

func (nothing) Back([]byte, []byte) iter.Seq2[[]byte, []byte] { return nothing{}.Scan(nil, nil) }

// Drop deletes up to limit records of a partition after [BeginDrop], and tells
// whether nothing is left; then the partition is as if it had never been here. v
// is the [Blank] one.
func Drop(v *Vnode, tx store.Tx, limit int) (done bool) {
	p := v.Partition
	for _, table := range dropped {
		prefix := appendPrefix(nil, table, p)
		var keys [][]byte
		for key := range tx.Scan(prefix, after(prefix)) {
			if len(keys) == limit {
				break
			}
			keys = append(keys, append([]byte(nil), key...))
		}
		for _, key := range keys {
			tx.Delete(key)
		}
		if limit -= len(keys); limit <= 0 {
			return false
		}
	}
	tx.Delete(appendPrefix(nil, tableDropping, p))
	v.record.write(tx, p)
	return true
}
