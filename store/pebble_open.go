package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/wal"
)

// ErrLocked is returned when another process, or another store of this one,
// has the directory open.
var ErrLocked = errors.New("store: data directory is in use by another process")

// ErrDiskFull is the reason of a fatal error when a write found no space.
var ErrDiskFull = errors.New("store: no space left on the disk")

// ErrDamaged is returned when the directory's files cannot be read as a store,
// and is the reason of a fatal error when that is found later: damaged is not
// the same as empty.
var ErrDamaged = errors.New("store: the files are damaged")

// PebbleOptions are what a Pebble store is opened with.
type PebbleOptions struct {
	Dir      string // made when it is missing
	FS       vfs.FS // nil: the operating system's
	Cache    int64  // bytes; 0: DefaultCache
	MemTable uint64 // bytes; 0: DefaultMemTable; less on a small volume
	// Segment is the size of a segment of the log in bytes; 0: half of MemTable, at most
	// [wal.DefaultSegment].
	Segment int64
	// WriteBack are the first bytes of keys that change again and again. Of what is written
	// to such a key between two moments only the last write reaches the index.
	WriteBack string
	// ShortLived are the first bytes of keys of which the same is true, and that are most often
	// deleted soon: of one that is deleted before the index got it nothing reaches the index.
	ShortLived string
	// Files is about how many files are open at once; 0: DefaultFiles.
	Files  int
	Logger *slog.Logger // nil: nothing is logged
	// Fatal is told of a failure after which nothing may be said any more: a
	// failed write or sync, a checksum that does not match. It must not return
	// (should it, the goroutine that met the failure ends all the same); nil
	// exits the process with status 70. It may run on any goroutine, at once
	// on several, and inside of Pebble's locks: it must not use the store.
	Fatal func(error)
	// DiskSlow is told of a write or sync that has been under way for longer
	// than SlowAfter, again and again while it lasts. It must not block. nil:
	// it is logged and counted only.
	DiskSlow func(path string, since time.Duration)
	// SlowAfter is when a write counts as slow; 0: DefaultSlowAfter, negative:
	// never. Checked every two seconds.
	SlowAfter time.Duration

	volume uint64 // bytes
	small  bool   // the volume: what is written has to be in small pieces
}

// OpenPebble opens or makes a store. It returns an error that wraps ErrLocked
// when the directory is in use, ErrDamaged when its files are damaged or some
// are missing.
func OpenPebble(o PebbleOptions) (*Pebble, error) {
	o = o.complete()
	if err := o.FS.MkdirAll(o.Dir, 0o770); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	dir, err := canonical(o.Dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	o.Dir = dir
	o.fit()
	lock, err := pebble.LockDirectory(dir, o.FS)
	if err != nil {
		return nil, lockError(dir, err)
	}
	defer func() { _ = lock.Close() }() // the database keeps a reference of its own
	p := &Pebble{events: &events{o: o}, fatal: o.Fatal, memTable: o.MemTable, least: tableLeast, dir: dir, late: newWriteBack(o.WriteBack, o.ShortLived)}
	p.tender.asked = make(chan struct{}, 1)
	p.log.fatal, p.log.moved = o.Fatal, p.tendSoon
	o.FS, p.health = vfs.WithDiskHealthChecks(o.FS, max(o.SlowAfter, 0), nil, p.events.diskSlow)
	// Nothing is retried: Fatal does not return.
	o.FS = vfs.OnDiskFull(o.FS, func() { o.Fatal(fmt.Errorf("%w: %s", ErrDiskFull, dir)) })
	p.files = o.FS
	p.events.pace.stalled, p.events.pace.compactions = &p.events.stalled, make(map[int]uint64)
	if o.small {
		p.hurry()
	}
	o.FS = behind{o.FS, &p.log, &p.events.pace}
	if err = create(o, p.events, lock); err == nil {
		p.db, p.table, err = open(o, p.events, lock)
	}
	if err != nil {
		_ = p.health.Close()
		return nil, err
	}
	if err = p.replay(logDisk{p.files, dir, o.SlowAfter, p.events.diskSlow}, o.Segment); err == nil {
		err = p.unfinished()
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.late.short.scan(p.db, p.fatal)
	p.tender.ending = make(chan struct{})
	p.tender.ended.Go(p.tend)
	p.events.flushed.Store(new(p.tendSoon))
	p.tendSoon()
	return p, nil
}

// fit has the store take no more of a small volume than is good for it.
func (o *PebbleOptions) fit() {
	u, err := o.FS.GetDiskUsage(o.Dir)
	if err != nil {
		return // not every file system can say
	}
	o.volume = u.TotalBytes
	piece := max(o.volume/pieces, leastPiece)
	o.small = piece < o.MemTable
	o.MemTable = min(o.MemTable, piece)
	o.Segment = min(o.Segment, int64(o.MemTable)/2)
}

// complete fills in what is not given and makes Fatal final.
func (o PebbleOptions) complete() PebbleOptions {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if mutant.FsyncRetried.On() {
		o.FS = retrying{o.FS}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Cache == 0 {
		o.Cache = DefaultCache
	}
	if o.MemTable == 0 {
		o.MemTable = DefaultMemTable
	}
	if o.Segment == 0 {
		o.Segment = min(wal.DefaultSegment, int64(o.MemTable)/2)
	}
	if o.Files == 0 {
		o.Files = DefaultFiles
	}
	if o.SlowAfter == 0 {
		o.SlowAfter = DefaultSlowAfter
	}
	fatal, log := o.Fatal, o.Logger
	if fatal == nil {
		fatal = func(err error) {
			log.Error("store.fatal", "error", err)
			os.Exit(70) // EX_SOFTWARE
		}
	}
	o.Fatal = func(err error) {
		fatal(explain(err))
		// Going on after a failed commit corrupts the store, and a failed read
		// must not look like an absent key.
		runtime.Goexit()
	}
	return o
}

// explain puts the words of this package around an error of the disk.
func explain(err error) error {
	switch {
	case errors.Is(err, ErrDiskFull) || errors.Is(err, syscall.ENOSPC):
		if !errors.Is(err, ErrDiskFull) {
			err = fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
		return fmt.Errorf("%w; free space and start again", err)
	case !errors.Is(err, ErrDamaged) && damaged(err):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func damaged(err error) bool {
	return pebble.IsCorruptionError(err) || record.IsInvalidRecord(err) || errors.Is(err, record.ErrInvalidChunk) || // with where a bit has flipped
		errors.Is(err, pebble.ErrDBNotPristine) || strings.Contains(err.Error(), "object size mismatch")
}

// canonical gives the one name of a directory: Pebble tells directories of
// this process apart by name, and the system's locks do not hold within a
// process.
func canonical(dir string, files vfs.FS) (string, error) {
	if vfs.Root(files) != vfs.Default {
		return dir, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// LockDirectory takes a directory for this process until the lock is closed: for one
// that holds stores, and is made and deleted with what is in it. It returns an error that
// wraps ErrLocked when somebody has it.
func LockDirectory(dir string) (io.Closer, error) {
	name, err := canonical(dir, vfs.Default)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := pebble.LockDirectory(name, vfs.Default)
	if err != nil {
		return nil, lockError(name, err)
	}
	return lock, nil
}

// lockError tells a lock that somebody holds from one that cannot be had.
func lockError(dir string, err error) error {
	var path *fs.PathError
	var number syscall.Errno
	switch {
	case errors.As(err, &path),
		errors.As(err, &number) && number != syscall.EAGAIN && number != syscall.EACCES:
		return fmt.Errorf("store: lock %s: %w", dir, err)
	}
	return fmt.Errorf("%w: %s (%w); stop that process, or use another directory", ErrLocked, dir, err)
}

// create makes a new store, opens and closes it, and makes its name durable.
func create(o PebbleOptions, e *events, lock *pebble.Lock) error {
	desc, err := pebble.Peek(o.Dir, o.FS)
	if err != nil && strings.Contains(err.Error(), "unknown format major version") {
		return fmt.Errorf("store: open %s: it was written by a newer version of norn; start that version: %w", o.Dir, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, o.Dir, err)
	}
	if desc.Exists {
		if err := checkManifest(o.FS, desc.ManifestFilename); err != nil && !errors.Is(err, fs.ErrNotExist) { // without it opening says so
			return fmt.Errorf("store: open %s: %w", o.Dir, err)
		}
		return nil
	}
	if err := untouched(o); err != nil {
		return err
	}
	db, _, err := open(o, e, lock)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncParents(o)
}

// untouched checks that a directory without a store has no files of one.
// Making a new store would delete them as left over.
func untouched(o PebbleOptions) error {
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		// A creation that was cut short leaves a manifest and no more.
		for _, of := range []string{".sst", ".blob", ".log", logEnding} {
			if strings.HasSuffix(name, of) {
				return fmt.Errorf("%w: %s holds %s but no record of what belongs to it", ErrDamaged, o.Dir, name)
			}
		}
	}
	return nil
}

// syncParents makes the names of a new directory and of the ones above it
// durable. Those that cannot be opened are not ours: they were there before.
func syncParents(o PebbleOptions) error {
	dir := o.Dir
	for {
		up := o.FS.PathDir(dir)
		if up == dir || up == "." || up == "" {
			return nil
		}
		f, err := o.FS.OpenDir(up)
		if err != nil {
			return nil //nolint:nilerr // may be searched but not read, then somebody else made it
		}
		err = errors.Join(f.Sync(), f.Close())
		if err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems cannot sync directories
			return fmt.Errorf("store: sync %s: %w", up, err)
		}
		dir = up
	}
}

// open opens the database, and says how tables are made for it.
func open(o PebbleOptions, e *events, lock *pebble.Lock) (*pebble.DB, sstable.WriterOptions, error) {
	opts := settings(o, e)
	defer opts.Cache.Unref()
	opts.Lock = lock
	opts.EnsureDefaults()
	db, err := pebble.Open(o.Dir, opts)
	switch {
	case err == nil:
		e.room.cache, e.room.memTables, e.room.own = opts.Cache, memTables*int64(o.MemTable), o.Cache*3/4
		e.room.hold(db)
		return db, opts.MakeWriterOptions(lowest, db.TableFormat()), nil
	case damaged(err) || errors.Is(err, fs.ErrNotExist):
		return nil, sstable.WriterOptions{}, fmt.Errorf("%w: %s: %w", ErrDamaged, o.Dir, err)
	}
	return nil, sstable.WriterOptions{}, fmt.Errorf("store: open %s: %w", o.Dir, err)
}
