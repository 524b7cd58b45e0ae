package store

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/wal"
)

// logEnding is that of the names of segments of the log.
const logEnding = ".wal"

// fillStep is how much of a new segment is written at once, in bytes: syncs of the log that
// is in use wait behind it.
const fillStep = 128 << 10

// logDisk is the directory of a store as that of its log, through the same watches.
type logDisk struct {
	files     vfs.FS
	dir       string
	slowAfter time.Duration // of a sync; 0 or less: nobody is told
	slow      func(vfs.DiskSlowInfo)
}

var _ wal.Disk = logDisk{}

func (d logDisk) List() (names []string, err error) {
	all, err := d.files.List(d.dir)
	for _, name := range all {
		if strings.HasSuffix(name, logEnding) {
			names = append(names, name)
		}
	}
	return names, err //nolint:wrapcheck // it names the directory
}

// Open opens a segment. The watch over slow writes is over files that are made alone, so
// this one has a watch of its own.
func (d logDisk) Open(name string) (wal.File, error) {
	path := d.files.PathJoin(d.dir, name)
	f, err := d.files.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	return &logFile{File: f, watch: func() (ended func()) { return d.watch(path) }}, err //nolint:wrapcheck // it names the file
}

// watch tells of a write or a sync that has been under way for too long, again and again until it ends.
func (d logDisk) watch(path string) (ended func()) {
	if d.slowAfter <= 0 {
		return func() {}
	}
	began := time.Now()
	var again *time.Timer
	var mu sync.Mutex // guards again
	mu.Lock()
	defer mu.Unlock()
	again = time.AfterFunc(d.slowAfter, func() {
		d.slow(vfs.DiskSlowInfo{Path: path, OpType: vfs.OpTypeSyncData, Duration: time.Since(began)})
		mu.Lock()
		defer mu.Unlock()
		if again != nil {
			again.Reset(d.slowAfter)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		again.Stop()
		again = nil
	}
}

// Create writes zeros: a sync of blocks that were only reserved changes metadata, too.
func (d logDisk) Create(name string, size int64) (_ wal.File, err error) {
	path := d.files.PathJoin(d.dir, name)
	f, err := d.files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), d.files.Remove(path))
		}
	}()
	zeros := make([]byte, min(size, fillStep))
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err = f.Write(zeros[:min(int64(len(zeros)), size-at)]); err == nil {
			err = f.SyncData()
		}
		if err != nil {
			return nil, err
		}
	}
	if err = f.Sync(); err != nil {
		return nil, err
	}
	within, err := d.files.OpenDir(d.dir)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(within.Sync(), within.Close()); err != nil {
		return nil, err
	}
	return &logFile{File: f}, nil
}

func (d logDisk) Remove(name string) error {
	return d.files.Remove(d.files.PathJoin(d.dir, name)) //nolint:wrapcheck // it names the file
}

// logFile is a segment. It is written past the page cache where the file system can do that:
// a record is on the disk when its write returns, perhaps in a cache of it, and the sync has no
// pages left to look for (BenchmarkSync). The durability is that of the sync all the same.
type logFile struct {
	vfs.File
	watch  func() (ended func()) // over a write or a sync; nil: the file system has it
	mode   writeMode
	buffer []byte // aligned
}

type writeMode uint8

const (
	modeUnknown writeMode = iota // nothing was written
	modeDirect
	modeCached
)

// logBuffer is the largest buffer for direct writes, in bytes.
const logBuffer = 256 << 10

func (f *logFile) Size() (int64, error) {
	s, err := f.Stat()
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the file
	}
	return s.Size(), nil
}

// WriteAt writes to the segment. The log reads a segment before it writes to it, and never
// after: direct reads would have to be aligned, too.
func (f *logFile) WriteAt(b []byte, at int64) (n int, err error) {
	if f.watch != nil {
		defer f.watch()()
	}
	if f.mode == modeUnknown {
		if f.mode = modeCached; setDirect(f.File, true) {
			f.mode = modeDirect
		}
	}
	for f.mode == modeDirect && n < len(b) {
		piece := b[n:min(n+logBuffer, len(b))]
		if cap(f.buffer) < len(piece) {
			f.buffer = aligned(min(logBuffer, max(2*len(piece), 4*alignment)))
		}
		f.buffer = append(f.buffer[:0], piece...)
		wrote, err := f.File.WriteAt(f.buffer, at+int64(n))
		switch {
		case errors.Is(err, syscall.EINVAL): // the sectors are larger, or the end of the segment is in one
			f.mode = modeCached
			setDirect(f.File, false)
		case err != nil:
			return n + wrote, err //nolint:wrapcheck // it names the file
		default:
			n += wrote
		}
	}
	if n == len(b) {
		return n, nil
	}
	wrote, err := f.File.WriteAt(b[n:], at+int64(n))
	return n + wrote, err //nolint:wrapcheck // it names the file
}

// Sync makes durable what was written.
func (f *logFile) Sync() error {
	if f.watch != nil {
		defer f.watch()()
	}
	return f.SyncData()
}

// behind is the file system of the index: before a table is made the log has all that may be
// in it. See [journal].
type behind struct {
	vfs.FS
	log  *journal
	pace *pace
}

// Create makes a file.
func (b behind) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && !mutant.TableBeforeLog.On() {
		b.log.sync(b.log.last())
	}
	f, err := b.FS.Create(name, category)
	if err != nil || !paces(category) {
		return f, err
	}
	return b.pace.file(f, category), nil
}

// Unwrap gives the file system below.
func (b behind) Unwrap() vfs.FS { return b.FS }
