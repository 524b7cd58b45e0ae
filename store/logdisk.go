package store

import (
	"errors"
	"strings"
	"sync"
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
	return logFile{f, func() (ended func()) { return d.watch(path) }}, err //nolint:wrapcheck // it names the file
}

// watch tells of a sync that has been under way for too long, again and again until it ends.
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
	return logFile{f, nil}, nil
}

func (d logDisk) Remove(name string) error {
	return d.files.Remove(d.files.PathJoin(d.dir, name)) //nolint:wrapcheck // it names the file
}

// logFile is a segment.
type logFile struct {
	vfs.File
	watch func() (ended func()) // over a sync; nil: the file system has it
}

func (f logFile) Size() (int64, error) {
	s, err := f.Stat()
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the file
	}
	return s.Size(), nil
}

func (f logFile) Sync() error {
	if f.watch != nil {
		defer f.watch()()
	}
	return f.SyncData()
}

// behind is the file system of the index: before a table is made the log has all that may be
// in it. See [journal].
type behind struct {
	vfs.FS
	log *journal
}

// Create makes a file.
func (b behind) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && !mutant.TableBeforeLog.On() {
		b.log.sync(b.log.last())
	}
	return b.FS.Create(name, category)
}

// Unwrap gives the file system below.
func (b behind) Unwrap() vfs.FS { return b.FS }
