package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxBackground is the number of flushes and compactions that may fail in a
// row. Pebble repeats them at once and for ever, which helps against a passing
// fault only; they lose nothing, the log still has it.
const maxBackground = 16

// events counts and logs what Pebble reports.
type events struct {
	o    PebbleOptions
	room room
	pace pace
	// flushed is told that a table was made; nil: nobody.
	flushed atomic.Pointer[func()]

	background atomic.Uint64 // failed flushes and compactions
	inARow     atomic.Int64
	slow       atomic.Uint64
	stalls     atomic.Uint64
	stalled    atomic.Bool
}

func (e *events) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: e.backgroundError,
		FlushBegin: func(i pebble.FlushInfo) {
			e.room.release()
			e.pace.flushBegins(i.InputBytes, i.InputBytes >= uint64(e.o.MemTable)/2)
		},
		CompactionBegin: func(i pebble.CompactionInfo) {
			e.pace.compactionBegins(i)
		},
		FlushEnd: func(i pebble.FlushInfo) {
			e.ended(i.Err)
			if f := e.flushed.Load(); f != nil {
				(*f)()
			}
		},
		CompactionEnd: func(i pebble.CompactionInfo) {
			e.pace.compactionEnds(i)
			e.ended(i.Err)
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			e.o.Fatal(fmt.Errorf("%w: %s: %s: %w", ErrDamaged, e.o.Dir, i.Path, i.Details))
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			e.stalls.Add(1)
			e.stalled.Store(true)
			e.o.Logger.Info("store.write_stall", "dir", e.o.Dir, "reason", i.Reason)
		},
		WriteStallEnd: func() { e.stalled.Store(false) },
	}
}

func (e *events) backgroundError(err error) {
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	e.background.Add(1)
	e.o.Logger.Error("store.background", "dir", e.o.Dir, "error", err)
	if n := e.inARow.Add(1); n >= maxBackground {
		e.o.Fatal(fmt.Errorf("store: %s: %d flushes or compactions failed in a row: %w", e.o.Dir, n, err))
	}
}

func (e *events) ended(err error) {
	if err == nil {
		e.inARow.Store(0)
	}
}

func (e *events) diskSlow(i vfs.DiskSlowInfo) {
	e.slow.Add(1)
	e.o.Logger.Warn("store.disk_slow", "path", i.Path, "operation", i.OpType.String(), "since", i.Duration)
	if e.o.DiskSlow != nil {
		e.o.DiskSlow(i.Path, i.Duration)
	}
}

// pebbleLogger passes on what Pebble says. Its Fatalf never returns: a logger
// that lets Pebble go on after a failed commit corrupts the store.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error) // does not return
}

func (l *pebbleLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("store.info", "message", fmt.Sprintf(format, args...))
	}
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("store.error", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	failure := &pebbleFailure{message: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			failure.cause = err
		}
	}
	l.fatal(failure)
}

// pebbleFailure is what Pebble gave to Fatalf, with the error among its
// arguments as the cause.
type pebbleFailure struct {
	message string
	cause   error
}

func (f *pebbleFailure) Error() string { return "store: " + f.message }
func (f *pebbleFailure) Unwrap() error { return f.cause }
