package store

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble is a [Store] on disk.
type Pebble struct {
	db     *pebble.DB
	fatal  func(error) // does not return
	events *events
	health io.Closer // ends the watch over slow writes
	// memTable is the size of a memtable, bytes.
	memTable uint64
	dir      string

	order  sync.Mutex // guards placed, rested and late; the log and the index have batches in one order
	placed int64      // size of the journal when the index last noted its place
	rested int64      // size of the journal at the last [Pebble.Rest] that flushed
	late   *writeBack
	log    journal
	tender tender

	files  vfs.FS                // with the watches over it
	table  sstable.WriterOptions // of tables that are made here
	least  int                   // bytes of one
	drafts int                   // of tables, so far
	buffer []byte                // of the one that is being written
	// whole keeps others from reading a batch of which a part is there: its tables,
	// and not yet the rest.
	whole sync.RWMutex
}

var _ Store = (*Pebble)(nil)

// Get gives the value of a key.
func (p *Pebble) Get(key []byte) ([]byte, bool) {
	p.whole.RLock()
	defer p.whole.RUnlock()
	if p.late.takes(key) {
		p.order.Lock()
		value, found, waits := p.late.get(key)
		p.order.Unlock()
		if waits {
			return value, found
		}
	}
	return get(p.db, key, p.fatal)
}

// Scan gives the pairs of a range in ascending order.
func (p *Pebble) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return scan(wholes{p}, lower, upper, false, p.fatal)
}

// Back gives the pairs of a range in descending order.
func (p *Pebble) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return scan(wholes{p}, lower, upper, true, p.fatal)
}

// Last gives the greatest key of a range.
func (p *Pebble) Last(lower, upper []byte) (key []byte, ok bool) {
	if none(lower, upper) {
		return nil, false
	}
	it, err := wholes{p}.NewIter(bounds(lower, upper))
	if err != nil {
		p.fatal(fmt.Errorf("store: last: %w", err))
	}
	if ok = it.Last(); ok {
		key = append(key, it.Key()...)
	}
	if err := it.Close(); err != nil {
		p.fatal(fmt.Errorf("store: last: %w", err))
	}
	return key, ok
}

// Apply makes the batch visible.
func (p *Pebble) Apply(b *Batch) {
	if b.Len() == 0 {
		return
	}
	if b.bulk {
		if wait, done := p.commitBulk(b); done {
			wait()
			return
		}
	}
	p.write(b)
}

// Commit makes the batch visible and begins to make it durable, with everything
// applied before. Commits that come while the log is being synced share the
// next sync of it.
func (p *Pebble) Commit(b *Batch) (wait func()) {
	if b.Len() == 0 {
		return p.Sync // Pebble takes an empty batch for done
	}
	if b.bulk {
		if wait, done := p.commitBulk(b); done {
			return wait
		}
	}
	n := p.write(b)
	return func() { p.log.sync(n) }
}

// commit applies a batch of Pebble's and begins to make it durable.
func (p *Pebble) commit(w *pebble.Batch) (wait func()) {
	n := p.apply(w)
	return func() { p.log.sync(n) }
}

// write makes a batch visible and gives its number in the log.
func (p *Pebble) write(b *Batch) (n uint64) {
	if !p.lends(b) {
		w := p.batch(b, false)
		defer func() { _ = w.Close() }() // gives its memory back: cannot fail
		return p.apply(w)
	}
	p.order.Lock()
	defer p.order.Unlock()
	n = p.log.append(b.repr())
	if rest := p.late.split(b); rest.Len() > 0 {
		w := p.batch(rest, true)
		p.toIndex(w)
		if w.Empty() { // it was very large after all: it is read until it is flushed
			rest.data = slices.Clone(rest.data)
		}
		_ = w.Close() // gives its memory back: cannot fail
	}
	p.placeSoon()
	return n
}

// batch is Pebble's form of a batch. It may be lent the buffer: Pebble has copied
// it into its memtable when the write is applied.
func (p *Pebble) batch(b *Batch, lent bool) (w *pebble.Batch) {
	if lent {
		w = p.db.NewBatch(pebble.WithMaxRetainedSizeBytes(1)) // it must not keep what is ours
		if err := w.SetRepr(b.repr()); err != nil {
			p.fatal(fmt.Errorf("store: batch: %w", err))
		}
		return w
	}
	w = p.db.NewBatchWithSize(b.Size() + perWrite*b.Len() + headLen)
	for op := range b.All() {
		if op.Delete {
			_ = w.Delete(op.Key, nil) // into memory: cannot fail
			continue
		}
		_ = w.Set(op.Key, op.Value, nil)
	}
	return w
}

const perWrite = 1 + 2*5 // what a write takes in Pebble's form beside key and value, at most: kind and two lengths

// lends tells whether Pebble may have the buffer of a batch. Of a very large one,
// of half a memtable, it would be kept until that is flushed; and what was dropped
// is logged.
func (p *Pebble) lends(b *Batch) bool {
	const perNode = 200 // what a write takes in a memtable beside key and value, at most
	return 2*uint64(b.Size()+perNode*b.Len()+headLen) < p.memTable-min(p.memTable, 64<<10) && len(b.data) < 2*b.Size()+headLen
}

// Sync makes everything applied durable: one write and one fdatasync of the log, shared by
// all who wait for it. An error is fatal: what a failed fsync has thrown away, a second one
// would report as written.
func (p *Pebble) Sync() { p.log.sync(p.log.last()) }

// Snapshot gives the store as it is now.
func (p *Pebble) Snapshot() Snapshot {
	p.whole.RLock()
	defer p.whole.RUnlock()
	p.order.Lock()
	defer p.order.Unlock()
	p.writeLate(nil)
	return &pebbleSnapshot{p.db.NewSnapshot(), p.fatal}
}

// Close makes everything applied durable and ends the store. Iterators and snapshots must
// be closed before.
func (p *Pebble) Close() error {
	p.Sync()
	return p.close()
}

// close ends the store with what is durable.
func (p *Pebble) close() error {
	p.events.room.release()
	p.hurry()
	p.events.flushed.Store(nil)
	if p.tender.ending != nil {
		close(p.tender.ending)
		p.tender.ended.Wait()
	}
	err := p.db.Close()
	if p.log.log != nil {
		err = errors.Join(err, p.log.log.Close())
	}
	if err = errors.Join(err, p.health.Close()); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

type pebbleSnapshot struct {
	snapshot *pebble.Snapshot
	fatal    func(error)
}

func (s *pebbleSnapshot) Get(key []byte) ([]byte, bool) { return get(s.snapshot, key, s.fatal) }

func (s *pebbleSnapshot) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return scan(s.snapshot, lower, upper, false, s.fatal)
}

func (s *pebbleSnapshot) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return scan(s.snapshot, lower, upper, true, s.fatal)
}

func (s *pebbleSnapshot) Close() { _ = s.snapshot.Close() } // memory only: cannot fail

func get(r pebble.Reader, key []byte, fatal func(error)) ([]byte, bool) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false
	}
	if err != nil {
		fatal(fmt.Errorf("store: read: %w", err))
	}
	// A copy: holding the closer would tie the value to the caller's care.
	value = append(make([]byte, 0, len(value)), value...)
	if err := closer.Close(); err != nil {
		fatal(fmt.Errorf("store: read: %w", err))
	}
	return value, true
}

// none tells a range that is empty by its bounds.
func none(lower, upper []byte) bool {
	return upper != nil && string(lower) >= string(upper) || string(lower) >= ownKeys
}

// ownKeys is how the keys begin that a store has for itself. No walk shows them.
const ownKeys = "\xff\xffstore."

// bounds are the options of an iterator. Pebble's seeks do not expect an empty
// key for a lower bound; no bound is the same.
func bounds(lower, upper []byte) *pebble.IterOptions {
	if len(lower) == 0 {
		lower = nil
	}
	if upper == nil || string(upper) > ownKeys {
		upper = []byte(ownKeys)
	}
	return &pebble.IterOptions{LowerBound: lower, UpperBound: upper}
}

// iterable is what can be walked.
type iterable interface {
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
}

// wholes walks a store as it is between batches.
type wholes struct{ *Pebble }

// NewIter begins a walk, which sees nothing that is written later.
func (p wholes) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	p.whole.RLock()
	defer p.whole.RUnlock()
	p.settle(o.LowerBound, o.UpperBound)
	return p.db.NewIter(o) //nolint:wrapcheck // the caller does
}

func scan(r iterable, lower, upper []byte, back bool, fatal func(error)) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if none(lower, upper) {
			return
		}
		it, err := r.NewIter(bounds(lower, upper))
		if err != nil {
			fatal(fmt.Errorf("store: scan: %w", err))
		}
		closed := false
		end := func() {
			closed = true
			if err := it.Close(); err != nil {
				fatal(fmt.Errorf("store: scan: %w", err))
			}
		}
		defer func() {
			if !closed { // the loop's body panicked or ended its goroutine
				_ = it.Close()
			}
		}()
		begin, step := it.First, it.Next
		if back {
			begin, step = it.Last, it.Prev
		}
		for ok := begin(); ok; ok = step() {
			value, err := it.ValueAndErr()
			if err != nil {
				fatal(fmt.Errorf("store: scan: %w", err))
			}
			if !yield(it.Key(), value) {
				break
			}
		}
		end() // an iterator that met an error looks like one at its end
	}
}
