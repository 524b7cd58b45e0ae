package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/norn-dev/norn/internal/mutant"
)

// DamageError says where a log is damaged. It is [ErrDamaged].
type DamageError struct {
	Segment string // name of the file; empty: it is missing
	Offset  int64
	Number  uint64 // of the record that cannot be read
	Why     string
}

// Error says which record cannot be read, where it is, and how that is known.
func (e *DamageError) Error() string {
	if e.Segment == "" {
		return fmt.Sprintf("wal: damaged: record %d: %s", e.Number, e.Why)
	}
	return fmt.Sprintf("wal: damaged: record %d, in segment %s at byte %d: %s", e.Number, e.Segment, e.Offset, e.Why)
}

// Is tells that it is [ErrDamaged].
func (e *DamageError) Is(err error) bool { return err == ErrDamaged }

// Open opens the log of a disk and gives its records behind a position, in order, with their
// numbers; a body is valid until give returns. A disk without segments is an empty log. The
// log of another series on the disk is used as free space.
//
// Nothing is given unless all that was written can be: the error is [ErrDamaged] then. An
// error of give ends Open.
func Open(disk Disk, cfg Config, from Position, give func(number uint64, body []byte) error) (*Log, error) {
	r := recovery{log: &Log{disk: disk, series: cfg.Series, size: max(minSegment, cmp.Or(cfg.Segment, DefaultSegment))}, from: from}
	if err := r.run(give); err != nil {
		return nil, errors.Join(err, r.log.Close())
	}
	return r.log, nil
}

// recovery finds the end of a log.
type recovery struct {
	log   *Log
	from  Position
	heads map[*segment]head // of the live ones
	bytes []byte            // of the segment that was read last
	of    *segment
	last  uint64 // number of the last record of the chain, once it was walked
}

func (r *recovery) run(give func(uint64, []byte) error) error {
	if err := r.look(); err != nil {
		return err
	}
	if err := r.sequence(); err != nil {
		return err
	}
	l := r.log
	if err := r.walk(nil); err != nil {
		return err
	}
	if err := r.beyond(); err != nil {
		return err
	}
	r.last = l.end.Number
	// The last record may be there without having been synced.
	for _, s := range l.live[max(0, len(l.live)-2):] {
		if err := s.file.Sync(); err != nil {
			return fmt.Errorf("wal: segment %s: %w", s.name, err)
		}
	}
	return r.walk(give)
}

// look opens all segments, and tells those of this log from free ones.
func (r *recovery) look() error {
	l := r.log
	names, err := l.disk.List()
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	slices.Sort(names)
	r.heads = make(map[*segment]head)
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(name, "%d"+ending, &n); err == nil {
			l.made = max(l.made, n)
		}
		s := &segment{name: name}
		l.free = append(l.free, s)
		if s.file, err = l.disk.Open(name); err == nil {
			s.size, err = s.file.Size()
		}
		if err != nil {
			l.free = l.free[:len(l.free)-1]
			return fmt.Errorf("wal: %w", err)
		}
		b := make([]byte, min(headSize, s.size))
		if err := read(s, b); err != nil {
			return err
		}
		if h, ok := headOf(b); ok && h.series == l.series && h.sequence >= max(1, r.from.Sequence) {
			s.sequence, r.heads[s] = h.sequence, h
			l.live, l.free = append(l.live, s), l.free[:len(l.free)-1]
		}
	}
	slices.SortFunc(l.live, func(a, b *segment) int { return cmp.Compare(a.sequence, b.sequence) })
	return nil
}

// sequence checks that no segment is missing from the position on.
func (r *recovery) sequence() error {
	want := max(1, r.from.Sequence)
	for _, s := range r.log.live {
		if s.sequence != want {
			return &DamageError{Number: r.from.Number + 1, Why: fmt.Sprintf("segment %d of the log is missing, and %d is there", want, s.sequence)}
		}
		want++
	}
	if len(r.log.live) == 0 && r.from.Sequence > 0 {
		return &DamageError{Number: r.from.Number + 1, Why: fmt.Sprintf("segment %d of the log, which the checkpoint names, is missing", r.from.Sequence)}
	}
	return nil
}

// walk follows the chain of records from the position on, and leaves the log at its end.
func (r *recovery) walk(give func(uint64, []byte) error) error {
	l := r.log
	l.end, l.at = r.from, next(r.from.Offset)
	for i, s := range l.live {
		if i > 0 || r.from.Sequence == 0 {
			if h := r.heads[s]; h.first != l.end.Number+1 || h.before != l.end.Sum && !mutant.ChainSkipped.On() {
				return &DamageError{s.name, 0, l.end.Number + 1, fmt.Sprintf("the segment begins with record %d, and the last one before it that can be read is %d", h.first, l.end.Number)}
			}
			l.at = headSize
		}
		if err := r.read(s); err != nil {
			return err
		}
		for {
			got, end, ok := recordAt(r.bytes, l.at, l.series)
			if !ok || got.number != l.end.Number+1 || got.before != l.end.Sum && !mutant.ChainSkipped.On() {
				break
			}
			if mutant.TailTooFar.On() && give != nil && got.number == r.last {
				break
			}
			if give != nil {
				if err := give(got.number, got.body); err != nil {
					return err
				}
			}
			l.end, l.at = Position{s.sequence, end, got.number, got.sum}, next(end)
		}
	}
	return nil
}

// beyond looks for a record behind the end of the chain: there is one if what ends the chain
// is damage, and none if it is a torn write.
func (r *recovery) beyond() error {
	l := r.log
	search := func(s *segment, at int64) error {
		if err := r.read(s); err != nil {
			return err
		}
		for ; at < s.size; at = next(at + 1) {
			if got, _, ok := recordAt(r.bytes, at, l.series); ok && got.number > l.end.Number {
				return &DamageError{s.name, at, l.end.Number + 1, fmt.Sprintf("it cannot be read, and record %d is there", got.number)}
			}
		}
		return nil
	}
	for _, s := range l.free {
		if err := search(s, headSize); err != nil {
			return err
		}
	}
	if n := len(l.live); n > 0 {
		return search(l.live[n-1], l.at)
	}
	return nil
}

// read reads a segment, once in a row.
func (r *recovery) read(s *segment) error {
	if r.of == s {
		return nil
	}
	r.of, r.bytes = s, slices.Grow(r.bytes[:0], int(s.size))[:s.size]
	return read(s, r.bytes)
}

func read(s *segment, b []byte) error {
	if n, err := s.file.ReadAt(b, 0); err != nil && (n < len(b) || !errors.Is(err, io.EOF)) {
		return fmt.Errorf("wal: segment %s: %w", s.name, err)
	}
	return nil
}
