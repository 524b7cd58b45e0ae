package store

import (
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
)

// walk is an iterator that several walks use, one after the other: in a store with many tables to open
// them is most of what a short walk costs. It sees the store as it was at the first walk.
type walk struct {
	p    *Pebble
	it   *pebble.Iterator // nil: none was needed yet
	busy bool             // a walk is going on
}

// Scan gives the pairs of a range in ascending order. A walk within another one has an iterator of
// its own, and so has one over what may wait for the index.
func (w *walk) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if w.busy || len(lower) == 0 || upper == nil || none(lower, upper) || w.p.late.keeps(lower, upper) {
			w.p.Scan(lower, upper)(yield)
			return
		}
		w.busy = true
		defer func() { w.busy = false }()
		if w.it == nil {
			var err error
			if w.it, err = (wholes{w.p}).NewIter(bounds(lower, upper)); err != nil {
				w.p.fatal(fmt.Errorf("store: scan: %w", err))
			}
		} else {
			w.it.SetBounds(lower, upper)
		}
		for ok := w.it.SeekGE(lower); ok; ok = w.it.Next() {
			value, err := w.it.ValueAndErr()
			if err != nil {
				w.p.fatal(fmt.Errorf("store: scan: %w", err))
			}
			if !yield(w.it.Key(), value) {
				return
			}
		}
		if err := w.it.Error(); err != nil { // an iterator that met an error looks like one at its end
			w.p.fatal(fmt.Errorf("store: scan: %w", err))
		}
	}
}

// close ends the iterator.
func (w *walk) close() {
	if w.it == nil {
		return
	}
	if err := w.it.Close(); err != nil {
		w.p.fatal(fmt.Errorf("store: scan: %w", err))
	}
	w.it = nil
}

// Together has the walks until done share what they open, as between two batches the base stays as it
// is: only this overlay writes to it.
func (o *Overlay) Together() (done func()) {
	base, ok := o.base.(*Pebble)
	if !ok || o.shared != nil {
		return func() {}
	}
	o.shared = &walk{p: base}
	return func() {
		o.shared.close()
		o.shared = nil
	}
}

// below is a walk over what the base has.
func (o *Overlay) below(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	if o.shared != nil {
		return o.shared.Scan(lower, upper)
	}
	return o.base.Scan(lower, upper)
}
