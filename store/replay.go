package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/wal"
)

// replay opens the log, applies what is behind the place that the index has, and writes that
// to tables if it is much.
func (p *Pebble) replay(disk wal.Disk, segment int64) error {
	series, from, found, err := p.durablePlace()
	if err != nil {
		return err
	}
	if !found {
		return p.beginLog(disk, segment)
	}
	cfg := wal.Config{Series: series, Segment: segment}
	notes, err := notesOf(disk, cfg, from)
	if err != nil {
		return err
	}
	count, size := 0, uint64(0)
	p.log.log, err = wal.Open(disk, cfg, from, func(_ uint64, body []byte) error {
		size += uint64(len(body))
		if mutant.BatchesSwapped.On() {
			body = swapped(body)
		}
		return batches(body, func(repr []byte) error {
			count++
			return p.applyAgain(repr, notes.after(count))
		})
	})
	if err != nil {
		return damagedLog(err)
	}
	p.log.series, p.log.end = series, p.log.log.End()
	if size > p.memTable/4 {
		p.keepPlace()
		if err := p.flush(); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	p.events.room.hold(p.db)
	return nil
}

// beginLog makes the log of a store that has none. One record is written at once, so that
// the place that the index has is always within a segment, and its loss is told.
func (p *Pebble) beginLog(disk wal.Disk, segment int64) error {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never an error
	series := binary.BigEndian.Uint64(b[:])
	log, err := wal.Open(disk, wal.Config{Series: series, Segment: segment}, wal.Position{}, func(uint64, []byte) error { return nil })
	if err != nil {
		return damagedLog(err)
	}
	p.log.log, p.log.series = log, series
	if p.log.end, err = log.Write(nil); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	p.keepPlace()
	if err := p.flush(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func damagedLog(err error) error {
	if errors.Is(err, wal.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("store: %w", err)
}

// bulkNote is a note of [Pebble.commitBulk] in the log: from the batch with this number on
// these ranges are filled with tables.
type bulkNote struct {
	batch  int
	ranges []byte
}

type bulkNotes []bulkNote

// notesOf reads the notes behind a place.
func notesOf(disk wal.Disk, cfg wal.Config, from wal.Position) (notes bulkNotes, err error) {
	count := 0
	log, err := wal.Open(disk, cfg, from, func(_ uint64, body []byte) error {
		return batches(body, func(repr []byte) error {
			count++
			if !bytes.Contains(repr, []byte(noteKey)) {
				return nil
			}
			return each(repr, func(kind pebble.InternalKeyKind, key, value []byte) error {
				if kind == pebble.InternalKeyKindSet && string(key) == noteKey {
					notes = append(notes, bulkNote{count, bytes.Clone(value)})
				}
				return nil
			})
		})
	})
	if err != nil {
		return nil, damagedLog(err)
	}
	return notes, log.Close()
}

// after gives the notes that are later than a batch.
func (n bulkNotes) after(batch int) bulkNotes {
	for len(n) > 0 && n[0].batch <= batch {
		n = n[1:]
	}
	return n
}

// cover tells whether a key is in one of the ranges.
func (n bulkNotes) cover(key []byte) bool {
	for _, note := range n {
		covered := false
		err := rangesOf(note.ranges, func(first, last []byte) {
			covered = covered || bytes.Compare(first, key) <= 0 && bytes.Compare(key, last) <= 0
		})
		if err == nil && covered {
			return true
		}
	}
	return false
}

// applyAgain applies a batch of the log. What it does within ranges that tables fill later
// is left out: the tables are there already, and what is applied now would hide them.
func (p *Pebble) applyAgain(repr []byte, later bulkNotes) error {
	w := p.db.NewBatch()
	if mutant.ReplayPartial.On() {
		partial := p.db.NewBatch()
		err := each(repr, func(kind pebble.InternalKeyKind, key, value []byte) error {
			if !partial.Empty() || kind == pebble.InternalKeyKindDelete {
				return nil
			}
			return partial.Set(key, value, nil)
		})
		if err != nil {
			return err
		}
		repr = partial.Repr()
	}
	if len(later) == 0 || mutant.TablesHidden.On() {
		if err := w.SetRepr(bytes.Clone(repr)); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	} else {
		err := each(repr, func(kind pebble.InternalKeyKind, key, value []byte) error {
			switch {
			case later.cover(key):
				return nil
			case kind == pebble.InternalKeyKindDelete:
				return w.Delete(key, nil)
			}
			return w.Set(key, value, nil)
		})
		if err != nil {
			return err
		}
	}
	if w.Empty() {
		return nil
	}
	if err := p.db.Apply(w, pebble.NoSync); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// swapped is a record whose last batch comes first: a mistake, see [mutant.BatchesSwapped].
func swapped(record []byte) []byte {
	var rest, last []byte
	_ = batches(record, func(repr []byte) error {
		rest = append(rest, last...)
		last = append(binary.BigEndian.AppendUint32(nil, uint32(len(repr))), repr...)
		return nil
	})
	return append(last, rest...)
}

// each gives the sets and deletes of a batch.
func each(repr []byte, give func(kind pebble.InternalKeyKind, key, value []byte) error) error {
	var w pebble.Batch
	if err := w.SetRepr(repr); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	r := w.Reader()
	for {
		kind, key, value, ok, err := r.Next()
		switch {
		case err != nil:
			return fmt.Errorf("%w: a batch of the log: %w", ErrDamaged, err)
		case !ok:
			return nil
		case kind == pebble.InternalKeyKindSet, kind == pebble.InternalKeyKindDelete:
			if err := give(kind, key, value); err != nil {
				return err
			}
		case kind != pebble.InternalKeyKindLogData:
			return fmt.Errorf("%w: a batch of the log has a write of kind %d", ErrDamaged, kind)
		}
	}
}
