package store

import (
	"bytes"

	"github.com/norn-dev/norn/internal/mutant"
)

// writeBack holds the latest writes to keys that change again and again: counters of queues,
// claims that are held, nodes of the tree. In the index each version of such a key would be
// an entry of the memtable, in the order of all others; most are replaced or deleted before
// anybody reads them there. Here they are entries of a hash table, and the index gets what is
// left of them when it notes its place in the log.
//
// The log has every write, in order, so that nothing is lost with the memory. Reads see these
// writes before those of the index; whoever needs an order (a walk, a snapshot) has them
// written to the index first.
//
// Invariant: when the index notes its place in the log, it has every write up to that place.
// The rest and the place are one batch ([Pebble.keepPlace]), so that no table has one of them
// without the other, or a place that is too late.
//
// Its fields are guarded by the order of [Pebble].
type writeBack struct {
	tables [256]bool // by the first byte of a key
	latest *Overlay  // it is never read through: there is nothing below it
	rest   Batch     // of a batch that is being applied: the writes to other keys
	short  *shortLived
}

// newWriteBack holds writes to keys that begin with one of the bytes of first, or of short, those
// that are soon deleted.
func newWriteBack(first, short string) *writeBack {
	w := &writeBack{latest: NewOverlay(nil), short: newShortLived(short)}
	for _, b := range []byte(first + short) {
		w.tables[b] = true
	}
	return w
}

// takes tells whether the write to a key waits here.
func (w *writeBack) takes(key []byte) bool { return len(key) > 0 && w.tables[key[0]] }

// split keeps the writes of a batch that wait here, and returns the others. They are valid
// until the next call.
func (w *writeBack) split(b *Batch) *Batch {
	w.rest.Reset()
	for op := range b.All() {
		switch {
		case !w.takes(op.Key) && op.Delete:
			w.rest.Delete(op.Key)
		case !w.takes(op.Key):
			w.rest.Set(op.Key, op.Value)
		case op.Delete:
			w.latest.Delete(op.Key)
		default:
			w.latest.Set(op.Key, op.Value)
		}
	}
	return &w.rest
}

// get gives what the latest write to a key says: a copy of its value, or that the key was
// deleted. waits is false where no write to it waits here.
func (w *writeBack) get(key []byte) (value []byte, found, waits bool) {
	at, _, waits := w.latest.keys.find(w.latest.batch, key)
	if !waits {
		return nil, false, false
	}
	op := w.latest.batch.op(int(w.latest.keys.last[at]))
	return bytes.Clone(op.Value), !op.Delete, true
}

// between tells whether a write to a key of a range may wait here.
func (w *writeBack) between(lower, upper []byte) bool {
	return w.latest.Pending() > 0 && w.keeps(lower, upper)
}

// keeps tells whether writes to some keys of a range wait here.
func (w *writeBack) keeps(lower, upper []byte) bool {
	from, to := 0, len(w.tables)-1
	if len(lower) > 0 {
		from = int(lower[0])
	}
	if len(upper) > 0 {
		to = int(upper[0])
	}
	for first := from; first <= to; first++ {
		if w.tables[first] {
			return true
		}
	}
	return false
}

// trim gives up the buffers that are kept for later writes.
func (w *writeBack) trim() {
	w.rest = Batch{}
	w.latest.Rest()
}

// settle has the index hold every write that waits, so that a walk over a range sees them.
func (p *Pebble) settle(lower, upper []byte) {
	p.order.Lock()
	defer p.order.Unlock()
	if p.late.between(lower, upper) {
		p.writeLate(nil)
	}
}

// writeLate writes what waits to the index, and a place in the log if one is given, as one
// batch. The caller holds order.
func (p *Pebble) writeLate(place []byte) {
	if place == nil && p.late.latest.Pending() == 0 {
		return
	}
	b := &Batch{}
	if place == nil || !mutant.PlaceAlone.On() {
		b = p.late.latest.Take()
		defer p.late.latest.Release(b)
		p.late.short.filter(b)
	}
	w := p.batch(b, false)
	defer func() { _ = w.Close() }() // gives its memory back: cannot fail
	if place != nil {
		_ = w.Set([]byte(placeKey), place, nil)
	}
	p.toIndex(w)
	if place != nil && p.late.short.outdated() {
		p.late.short.scan(p.db, p.fatal)
	}
}
