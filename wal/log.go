package wal

import (
	"errors"
	"fmt"
	"sync"
)

const (
	// DefaultSegment is the size of a segment, in bytes.
	DefaultSegment = 8 << 20
	// minSegment is the smallest that is of use.
	minSegment = 2 * sector
	// maxBuffer is the largest buffer that is kept for the next record, in bytes.
	maxBuffer = 1 << 20
	// spares is how many segments without use are kept for later.
	spares = 2
)

var (
	// ErrFull says that the disk has no room for another segment. Nothing was written.
	ErrFull = errors.New("wal: no room for another segment")
	// ErrTooLarge says that a record is larger than [MaxRecord]. Nothing was written.
	ErrTooLarge = errors.New("wal: the record is too large")
	// ErrDamaged says that the log cannot be read as it was written: see [DamageError].
	ErrDamaged = errors.New("wal: damaged")
)

// Config is what a log is opened with.
type Config struct {
	// Series names the log. It is drawn at random when the log is made, and whoever keeps the
	// checkpoint keeps it too.
	Series uint64
	// Segment is the size of a segment in bytes; 0 is [DefaultSegment]. It may be another one
	// each time. A record that is larger gets a segment of its size.
	Segment int64
}

// Position is the place behind a record. A checkpoint keeps one: everything before it is in
// the checkpoint. The zero Position is the beginning of a log.
type Position struct {
	Sequence uint64 // of the segment; 0: none was written
	Offset   int64  // where the record ends in it
	Number   uint64 // of the record
	Sum      uint64 // of the record
}

// Log is an open log. [Log.Write] and [Log.Cut] are called from one goroutine,
// [Log.Prepare] and [Log.Size] from any. Make one with [Open].
type Log struct {
	disk   Disk
	series uint64
	size   int64 // of a new segment
	end    Position
	at     int64 // where the next record begins in the last segment
	buffer []byte
	err    error // of a write or sync

	mu   sync.Mutex // guards the fields below
	live []*segment // in the order of their sequence; the last one is written
	free []*segment
	made int // segments, for their names
}

// segment is a file of the log, with its sequence while it is live.
type segment struct {
	name     string
	file     File
	size     int64
	sequence uint64
}

// End is the position behind the last record.
func (l *Log) End() Position { return l.end }

// Write adds a record whose body is these parts, and returns the position behind it when it
// is durable. After an error other than [ErrFull] and [ErrTooLarge] it is unknown whether the
// record is on the disk, and every later call returns that error.
func (l *Log) Write(body ...[]byte) (Position, error) {
	if l.err != nil {
		return Position{}, l.err
	}
	need := int64(recordHeadSize)
	for _, part := range body {
		need += int64(len(part))
	}
	if need > MaxRecord {
		return Position{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, need, MaxRecord)
	}
	s, err := l.room(need)
	if err != nil {
		return Position{}, err
	}
	b := l.buffer[:0]
	from, at := l.at, l.at
	if at == headSize {
		from, b = 0, head{l.series, s.sequence, l.end.Number + 1, l.end.Sum}.append(b)
	}
	b, sum := appendRecord(b, l.series, l.end.Number+1, l.end.Sum, body...)
	b = append(b, make([]byte, min(next(at+need), s.size)-(at+need))...)
	if l.buffer = b; cap(b) > maxBuffer {
		l.buffer = nil // a rare large record must not hold its memory for ever
	}
	if err := write(s.file, b, from); err != nil {
		l.err = fmt.Errorf("wal: segment %s: %w", s.name, err)
		return Position{}, l.err
	}
	l.end = Position{s.sequence, at + need, l.end.Number + 1, sum}
	l.at = next(l.end.Offset)
	return l.end, nil
}

func write(f File, b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return err //nolint:wrapcheck // the caller does
	}
	return f.Sync() //nolint:wrapcheck // likewise
}

// room gives the segment in which a record of so many bytes fits at [Log.at].
func (l *Log) room(need int64) (*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.live); n > 0 && l.at+need <= l.live[n-1].size {
		return l.live[n-1], nil
	}
	s, err := l.take(headSize + need)
	if err != nil {
		return nil, err
	}
	s.sequence = 1
	if n := len(l.live); n > 0 {
		s.sequence = l.live[n-1].sequence + 1
	}
	l.live = append(l.live, s)
	l.at = headSize
	return s, nil
}

// take gives a segment that is not in use, of this size at least.
func (l *Log) take(size int64) (*segment, error) {
	for i, s := range l.free {
		if s.size >= size {
			l.free = append(l.free[:i], l.free[i+1:]...)
			return s, nil
		}
	}
	return create(l.disk, l.name(), max(l.size, next(size)))
}

// name is that of the segment that is made next.
func (l *Log) name() string {
	l.made++
	return fmt.Sprintf("%06d%s", l.made, ending)
}

func create(disk Disk, name string, size int64) (*segment, error) {
	f, err := disk.Create(name, size)
	switch {
	case err != nil && noRoom(err):
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	case err != nil:
		return nil, fmt.Errorf("wal: a new segment: %w", err)
	}
	return &segment{name: name, file: f, size: size}, nil
}

// Prepare makes the segment that comes next, where there is none to be used again: zeros are
// written meanwhile, and not while a record waits for them. It may be called beside Write.
func (l *Log) Prepare() error {
	l.mu.Lock()
	if len(l.free) > 0 {
		l.mu.Unlock()
		return nil
	}
	name := l.name()
	l.mu.Unlock()
	s, err := create(l.disk, name, l.size)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, s)
	return nil
}

// Cut gives up what lies before a position that a durable checkpoint has. The records behind
// it stay.
func (l *Log) Cut(before Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.live) > 1 && l.live[0].sequence < before.Sequence {
		l.free = append(l.free, l.live[0])
		l.live = l.live[1:]
	}
	var errs []error
	for len(l.free) > spares {
		s := l.free[0]
		l.free = l.free[1:]
		errs = append(errs, s.file.Close(), l.disk.Remove(s.name))
	}
	return errors.Join(errs...)
}

// Size is how many bytes the log has on the disk, and how many of them are in use.
func (l *Log) Size() (all, used int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.live {
		used += s.size
	}
	for _, s := range l.free {
		all += s.size
	}
	return all + used, used
}

// Close closes the files. What was written is durable already.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range append(l.live, l.free...) {
		errs = append(errs, s.file.Close())
	}
	l.live, l.free = nil, nil
	return errors.Join(errs...)
}
