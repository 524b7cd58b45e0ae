package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// prefilled hands out log files whose space is written already. A sync of a log
// that grows has to make its new size and blocks durable too, which takes about
// twice as long as overwriting (docs/archive/performance.md). Pebble reuses its logs
// once it has some; this brings the first ones into that shape.
//
// One spare file waits, made in the background; a crash leaves it for the next
// start. Its zeros, like the old records in a reused log, are no log records.
type prefilled struct {
	vfs.FS
	dir  string
	size int64

	making sync.WaitGroup

	mu    sync.Mutex // guards ready and on
	on    bool
	ready bool // the spare is whole and durable
}

const (
	spareName  = "spare-log.prefilled"
	spareDraft = "spare-log.draft"
	// fillStep is how much of a spare is written at once, in bytes.
	fillStep = 128 << 10
)

// start makes the spare, or takes over the one that is there, and from then on
// hands it out. Without space there is none, which costs speed only.
func (f *prefilled) start() {
	if f.size <= 0 {
		return
	}
	info, err := f.Stat(f.PathJoin(f.dir, spareName))
	if err == nil && info.Size() == f.size || f.fill() == nil {
		f.mu.Lock()
		f.on, f.ready = true, true
		f.mu.Unlock()
	}
}

// fill writes a spare under another name and renames it once it is durable.
func (f *prefilled) fill() error {
	draft := f.PathJoin(f.dir, spareDraft)
	file, err := f.FS.Create(draft, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("store: spare log: %w", err)
	}
	zeros := make([]byte, fillStep)
	for left := f.size; left > 0 && err == nil; left -= int64(len(zeros)) {
		if _, err = file.Write(zeros[:min(left, int64(len(zeros)))]); err == nil {
			err = file.SyncData() // a little at a time: syncs of the log in use wait behind it
		}
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = f.Rename(draft, f.PathJoin(f.dir, spareName))
	}
	if err != nil {
		_ = f.Remove(draft) // it may not be there; the next draft overwrites it
	}
	return err
}

// Create makes a file; a log takes the spare's place when there is one.
func (f *prefilled) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !strings.HasSuffix(name, ".log") || f.PathDir(name) != f.dir || !f.take() {
		return f.FS.Create(name, category)
	}
	file, err := f.ReuseForWrite(f.PathJoin(f.dir, spareName), name, category)
	if err != nil { // the spare was removed behind our back
		return f.FS.Create(name, category)
	}
	f.making.Go(func() {
		done := f.fill() == nil
		f.mu.Lock()
		f.ready = done
		f.mu.Unlock()
	})
	return file, nil
}

// take tells whether there is a spare, and takes it.
func (f *prefilled) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || !f.ready {
		return false
	}
	f.ready = false
	return true
}

// stop waits for a spare in the making.
func (f *prefilled) stop() { f.making.Wait() }

// Unwrap gives the file system below.
func (f *prefilled) Unwrap() vfs.FS { return f.FS }
