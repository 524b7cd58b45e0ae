package store

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrLocked is returned when another process, or another store of this one,
// has the directory open.
var ErrLocked = errors.New("store: the directory is in use by another process")

// ErrDiskFull is the reason of a fatal error when a write found no space.
var ErrDiskFull = errors.New("store: no space left on the disk")

// ErrDamaged is returned when the directory's files cannot be read as a store:
// damaged is not the same as empty.
var ErrDamaged = errors.New("store: the files are damaged")

// Sizes that fit one node with any backlog into 150 MiB.
const (
	// DefaultCache holds the blocks that were read last, in bytes. What is
	// claimed was mostly enqueued a moment ago or lies in a row on disk, so
	// little is gained beyond.
	DefaultCache = 16 << 20
	// DefaultMemTable is the size of one memtable in bytes. Larger ones write
	// less to disk, because short-lived keys die in them; two can be full
	// while a third is flushed.
	DefaultMemTable = 16 << 20
)

// PebbleOptions are what a Pebble store is opened with.
type PebbleOptions struct {
	Dir      string       // made when it is missing
	FS       vfs.FS       // nil: the operating system's
	Cache    int64        // bytes; 0: DefaultCache
	MemTable uint64       // bytes; 0: DefaultMemTable
	Logger   *slog.Logger // nil: nothing is logged
	// Fatal is told of a failure after which nothing may be said any more: a
	// failed write or sync, a checksum that does not match. It must not
	// return; nil exits the process with status 70.
	Fatal func(error)
}

// Pebble is a [Store] on disk.
type Pebble struct {
	db    *pebble.DB
	fatal func(error)
}

var _ Store = (*Pebble)(nil)

// OpenPebble opens or makes a store. It returns ErrLocked when the directory
// is in use, ErrDamaged when its files are damaged.
func OpenPebble(o PebbleOptions) (*Pebble, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) {
			o.Logger.Error("store.fatal", "error", err)
			os.Exit(70)
		}
	}
	if err := o.FS.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrLocked, o.Dir, err)
	}
	defer func() { _ = lock.Close() }() // the database keeps a reference of its own
	if err := create(o, lock); err != nil {
		return nil, err
	}
	db, err := open(o, lock)
	if err != nil {
		return nil, err
	}
	return &Pebble{db: db, fatal: o.Fatal}, nil
}

// create makes a new store and opens and closes it until its log is written in
// the format that tells damage in the middle from the end (faults.md 0.1: the
// very first log predates it).
func create(o PebbleOptions, lock *pebble.Lock) error {
	desc, err := pebble.Peek(o.Dir, o.FS)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, o.Dir, err)
	}
	if desc.Exists {
		return nil
	}
	db, err := open(o, lock)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func open(o PebbleOptions, lock *pebble.Lock) (*pebble.DB, error) {
	cacheSize, memTable := o.Cache, o.MemTable
	if cacheSize == 0 {
		cacheSize = DefaultCache
	}
	if memTable == 0 {
		memTable = DefaultMemTable
	}
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	log := &pebbleLogger{o.Logger, o.Fatal}
	opts := &pebble.Options{
		FS: vfs.OnDiskFull(o.FS, func() {
			o.Fatal(fmt.Errorf("%w: %s; free space and start again", ErrDiskFull, o.Dir))
		}),
		Lock: lock, Cache: cache, Logger: log,
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       memTable, MemTableStopWritesThreshold: 4,
		L0CompactionThreshold: 2, L0StopWritesThreshold: 1000,
		LBaseMaxBytes: 64 << 20, BytesPerSync: 512 << 10, MaxOpenFiles: 1000,
		CompactionConcurrencyRange: func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/4) },
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { o.Logger.Error("store.background", "error", err) },
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				o.Fatal(fmt.Errorf("%w: %s: %v", ErrDamaged, o.Dir, i))
			},
			DiskSlow: func(i pebble.DiskSlowInfo) { o.Logger.Warn("store.disk-slow", "info", i.String()) },
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
				o.Logger.Warn("store.write-stall", "reason", i.Reason)
			},
		},
	}
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 16 << 10
		// Payloads are the users' to compress: unpacking a block to read one
		// task costs more than it saves.
		opts.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(o.Dir, opts)
	if err != nil {
		if pebble.IsCorruptionError(err) || strings.Contains(err.Error(), "corrupt") || strings.Contains(err.Error(), "invalid chunk") || strings.Contains(err.Error(), "zeroed chunk") {
			return nil, fmt.Errorf("%w: %s: %w; restore the directory or rebuild the node, do not delete single files", ErrDamaged, o.Dir, err)
		}
		return nil, fmt.Errorf("store: open %s: %w", o.Dir, err)
	}
	return db, nil
}

// Get gives the value of a key.
func (p *Pebble) Get(key []byte) ([]byte, bool) { return get(p.db, key, p.fatal) }

// Scan gives the pairs of a range in ascending order.
func (p *Pebble) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return scan(p.db, lower, upper, p.fatal)
}

// Last gives the greatest key of a range.
func (p *Pebble) Last(lower, upper []byte) (key []byte, ok bool) {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		p.fatal(fmt.Errorf("store: last: %w", err))
		return nil, false
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
	w := p.db.NewBatchWithSize(b.Size() + 16*b.Len() + 64)
	for op := range b.All() {
		if op.Delete {
			_ = w.Delete(op.Key, nil) // into memory: cannot fail
			continue
		}
		_ = w.Set(op.Key, op.Value, nil)
	}
	if err := w.Commit(pebble.NoSync); err != nil {
		p.fatal(fmt.Errorf("store: apply: %w", err))
		return
	}
	_ = w.Close()
}

// Sync makes everything applied durable. An error is fatal: what a failed
// fsync has thrown away, a second one would report as written.
func (p *Pebble) Sync() {
	if err := p.db.LogData(nil, pebble.Sync); err != nil {
		p.fatal(fmt.Errorf("store: sync: %w", err))
	}
}

// Snapshot gives the store as it is now.
func (p *Pebble) Snapshot() Snapshot {
	return &pebbleSnapshot{p.db.NewSnapshot(), p.fatal}
}

// Close ends the store.
func (p *Pebble) Close() error {
	if err := p.db.Close(); err != nil {
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
	return scan(s.snapshot, lower, upper, s.fatal)
}

func (s *pebbleSnapshot) Close() { _ = s.snapshot.Close() }

func get(r pebble.Reader, key []byte, fatal func(error)) ([]byte, bool) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false
	}
	if err != nil {
		fatal(fmt.Errorf("store: read: %w", err))
		return nil, false
	}
	// A copy: holding the closer would tie the value to the caller's care.
	value = append(make([]byte, 0, len(value)), value...)
	_ = closer.Close()
	return value, true
}

func scan(r pebble.Reader, lower, upper []byte, fatal func(error)) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if upper != nil && bytes.Compare(lower, upper) >= 0 {
			return // Pebble takes an empty bound for none
		}
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			fatal(fmt.Errorf("store: scan: %w", err))
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				break // reported by Close
			}
			if !yield(it.Key(), value) {
				break
			}
		}
		if err := it.Close(); err != nil {
			fatal(fmt.Errorf("store: scan: %w", err))
		}
	}
}

// pebbleLogger passes on what Pebble says. Its Fatalf never returns: a logger
// that lets Pebble go on after a failed commit corrupts the store.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l *pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("store.info", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("store.error", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	l.fatal(fmt.Errorf("store: "+format, args...))
	runtime.Goexit() // a Fatal that returns (tests) must not let Pebble go on
}
