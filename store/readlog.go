package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/wal"
)

// LogRecord is a record of the log of a store.
type LogRecord struct {
	Number  uint64
	Bytes   int // of its body
	Batches int
	Sets    int // keys that are set
	Deletes int // keys that are deleted
}

// LogInfo is where a log begins for a start, and where it ends.
type LogInfo struct {
	From  wal.Position // what is before is in tables
	End   wal.Position
	Files int   // segments, spare ones too
	Bytes int64 // of the segments
	Old   int64 // bytes in the log of Pebble, that of a store of the version before
}

// ReadLog gives the records of the log of a store that a start applies again, in order, and
// changes nothing. Nobody may have the store open (ErrLocked). The error is ErrDamaged where
// the log or the index cannot be read; a store of the version before has no log of its own,
// and gives no record.
func ReadLog(dir string, give func(LogRecord) error) (info LogInfo, err error) {
	lock, err := LockDirectory(dir)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	disk := logDisk{files: vfs.Default, dir: dir}
	if err := info.count(disk); err != nil {
		return info, err
	}
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true, Lock: lock.(*pebble.Lock), Logger: quietLogger{}})
	switch {
	case err != nil && damaged(err):
		return info, fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	case err != nil:
		return info, fmt.Errorf("store: %s: %w", dir, err)
	}
	series, from, found, err := (&Pebble{db: db}).durablePlace()
	if err = errors.Join(err, db.Close()); err != nil || !found {
		return info, err
	}
	log, err := wal.Open(disk, wal.Config{Series: series}, from, func(number uint64, body []byte) error {
		r := LogRecord{Number: number, Bytes: len(body)}
		err := batches(body, func(repr []byte) error {
			r.Batches++
			return each(repr, func(kind pebble.InternalKeyKind, _, _ []byte) error {
				if kind == pebble.InternalKeyKindSet {
					r.Sets++
				} else {
					r.Deletes++
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		return give(r)
	})
	if err != nil {
		return info, damagedLog(err)
	}
	info.From, info.End = from, log.End()
	if err := log.Close(); err != nil {
		return info, fmt.Errorf("store: %w", err)
	}
	return info, nil
}

// count sums the files of the log.
func (i *LogInfo) count(d logDisk) error {
	names, err := d.files.List(d.dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		own := strings.HasSuffix(name, logEnding)
		if !own && !strings.HasSuffix(name, ".log") {
			continue
		}
		info, err := d.files.Stat(filepath.Join(d.dir, name))
		switch {
		case err != nil:
			return fmt.Errorf("store: %w", err)
		case own:
			i.Files++
			i.Bytes += info.Size()
		default:
			i.Old += info.Size()
		}
	}
	return nil
}

// quietLogger says nothing.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)              {}
func (quietLogger) Errorf(string, ...any)             {}
func (quietLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
