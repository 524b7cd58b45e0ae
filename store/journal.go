package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/wal"
)

// journal is the log of a store: it makes durable what is visible. A record of the log has
// all batches that were appended since the record before it, each behind its length, in
// Pebble's form.
//
// The index behind it, Pebble, has no log of its own. It holds a place in the log (placeKey),
// which is older than what is in its tables. After a crash the batches behind that place are
// applied again, in order. Most of them are in the tables already: a batch says what is
// under a key, not how to change it, so that applying all of them once more gives the same.
//
// Invariant: no table has a batch that the log on the disk does not have. The log is synced
// before a table is made ([behind]); otherwise a crash could leave a batch of which later
// records know nothing, with an older one applied over half of it.
//
// Invariant: the log is cut only at a place that a durable table has.
type journal struct {
	fatal func(error) // does not return

	mu       sync.Mutex // guards the next fields
	pending  []byte     // batches that no record has
	appended uint64     // how many batches there are, count
	end      wal.Position

	moved   func()        // told that the log has a new segment
	durable atomic.Uint64 // how many batches are on the disk, count
	size    atomic.Int64  // bytes of batches that were appended

	writing sync.Mutex // guards the next fields: one record is written at a time
	log     *wal.Log
	series  uint64
	spare   []byte
}

const (
	// maxPending is how many bytes of batches wait for a sync at most: beyond that whoever
	// appends syncs.
	maxPending = 8 << 20
	// placeEvery is after how many bytes of batches the index notes the place in the log. It
	// is what a start applies again beyond what is in no table, and about what writes wait
	// that the index gets with it. A store with small memtables does so after a part of one.
	placeEvery = 1 << 20
	placePart  = 16
)

// append adds a batch in Pebble's form and returns its number.
func (j *journal) append(repr []byte) uint64 {
	j.mu.Lock()
	if promise := len(repr) >= headLen && binary.LittleEndian.Uint32(repr[8:]) == 1; !promise || !mutant.PromiseUnlogged.On() {
		j.pending = binary.BigEndian.AppendUint32(j.pending, uint32(len(repr)))
		j.pending = append(j.pending, repr...)
	}
	j.appended++
	n, full := j.appended, len(j.pending) > maxPending
	j.mu.Unlock()
	j.size.Add(int64(len(repr)))
	if full {
		j.sync(n)
	}
	return n
}

// last is the number of the last batch.
func (j *journal) last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.appended
}

// sync returns when the batches up to n are on the disk. All that wait share one write.
func (j *journal) sync(n uint64) {
	if j.durable.Load() >= n {
		return
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.durable.Load() >= n {
		return
	}
	j.mu.Lock()
	body, all := j.pending, j.appended
	j.pending, j.spare = j.spare[:0], nil
	j.mu.Unlock()
	end, err := j.log.Write(body)
	if err != nil && !mutant.CommitUnsure.On() {
		j.fatal(fmt.Errorf("store: sync: %w", err))
	}
	if cap(body) <= maxKept {
		j.spare = body
	}
	j.mu.Lock()
	moved := j.end.Sequence != end.Sequence
	j.end = end
	j.mu.Unlock()
	j.durable.Store(all)
	if moved {
		j.moved()
	}
}

// place is behind the last record that is on the disk, as the index keeps it.
func (j *journal) place() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return encodePlace(j.series, j.end)
}

// placeKey is where the index keeps its place in the log.
const placeKey = "\xff\xffstore.log.place"

func encodePlace(series uint64, p wal.Position) (b []byte) {
	for _, v := range []uint64{series, p.Sequence, uint64(p.Offset), p.Number, p.Sum} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func decodePlace(b []byte) (series uint64, p wal.Position, ok bool) {
	if len(b) != 5*8 {
		return 0, wal.Position{}, false
	}
	u := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return u(0), wal.Position{Sequence: u(1), Offset: int64(u(2)), Number: u(3), Sum: u(4)}, true
}

// batches gives the batches of a record, in Pebble's form. They are valid as long as the
// record is.
func batches(record []byte, give func(repr []byte) error) error {
	for len(record) > 0 {
		if len(record) < 4 {
			return fmt.Errorf("%w: a record of the log ends within the length of a batch", ErrDamaged)
		}
		n := int(binary.BigEndian.Uint32(record))
		if record = record[4:]; n < headLen || n > len(record) {
			return fmt.Errorf("%w: a batch of %d bytes in a record of the log of which %d are left", ErrDamaged, n, len(record))
		}
		if err := give(record[:n]); err != nil {
			return err
		}
		record = record[n:]
	}
	return nil
}

// apply makes a batch of Pebble's visible and gives its number in the log.
func (p *Pebble) apply(w *pebble.Batch) (n uint64) {
	p.order.Lock()
	defer p.order.Unlock()
	p.writeLate(nil) // it is older
	p.late.short.applied(w)
	n = p.log.append(w.Repr())
	p.toIndex(w)
	p.placeSoon()
	return n
}

// placeSoon has the index note its place in the log from time to time. The caller holds order.
func (p *Pebble) placeSoon() {
	if size := p.log.size.Load(); size >= p.placed+min(placeEvery, int64(p.memTable)/placePart) {
		p.placed = size
		p.keepPlace()
	}
}

// keepPlace writes the place in the log into the index, with what waited for it. The caller
// holds order, or nobody else writes yet.
func (p *Pebble) keepPlace() { p.writeLate(p.log.place()) }

// durablePlace is the place in the log that a table has.
func (p *Pebble) durablePlace() (series uint64, at wal.Position, found bool, err error) {
	it, err := p.db.NewIter(&pebble.IterOptions{OnlyReadGuaranteedDurable: true, LowerBound: []byte(placeKey), UpperBound: []byte(placeKey + "\x00")})
	if err != nil {
		return 0, at, false, fmt.Errorf("store: place in the log: %w", err)
	}
	if it.First() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			if series, at, found = decodePlace(value); !found {
				err = fmt.Errorf("%w: the place in the log has %d bytes", ErrDamaged, len(value))
			}
		}
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return series, at, found, err
}

// tender is the goroutine of [Pebble.tend].
type tender struct {
	mu     sync.Mutex    // guards the memtables that tend reads: it holds those that there were when it began
	asked  chan struct{} // holds one token when there is something to tend
	ending chan struct{} // closed at the end; nil: nothing is tended yet
	ended  sync.WaitGroup
}

// tend cuts the log where a table has what is before, and makes the next segment ready, each
// time it is asked to.
func (p *Pebble) tend() {
	for {
		select {
		case <-p.tender.ending:
			return
		case <-p.tender.asked:
		}
		p.tender.mu.Lock()
		_, at, found, err := p.durablePlace()
		p.tender.mu.Unlock()
		if err != nil {
			p.fatal(err)
		}
		if found {
			p.log.writing.Lock()
			err = p.log.log.Cut(at)
			p.log.writing.Unlock()
		}
		if err == nil {
			err = p.log.log.Prepare()
		}
		if err != nil && !errors.Is(err, wal.ErrFull) { // that is told when the segment is needed
			p.fatal(fmt.Errorf("store: log: %w", err))
		}
	}
}

// tendSoon asks for [Pebble.tend].
func (p *Pebble) tendSoon() {
	select {
	case p.tender.asked <- struct{}{}:
	default:
	}
}
