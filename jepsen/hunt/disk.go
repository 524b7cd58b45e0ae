package hunt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FailingDisk is the real store on a disk whose fsync fails once, and throws away
// what it could not write, as Linux does. Then the power fails. Whatever was
// acknowledged has to be there.
var FailingDisk = Ground{"store on a disk that fails", failingDisk}

func failingDisk(seed uint64, _ func() bool) *check.Violation {
	rnd := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewCrashableMem()
	disk := &failing{FS: mem, from: int64(1 + rnd.IntN(40))}
	acked := 0
	died := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() {
		s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: disk, Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) {
			select {
			case died <- err:
			default:
			}
			runtime.Goexit() // the process
		}})
		if err != nil {
			return
		}
		disk.armed.Store(true)
		for n := range 60 {
			var b store.Batch
			b.Set(binary.BigEndian.AppendUint32(nil, uint32(n)), bytes.Repeat([]byte("x"), 100))
			wait := s.Commit(&b)
			wait()
			acked = n + 1
		}
	})
	run.Wait()
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: after, Logger: slog.New(slog.DiscardHandler), Fatal: func(error) {}})
	if err != nil {
		if acked == 0 {
			return nil
		}
		return &check.Violation{Invariant: check.Lost, Text: fmt.Sprintf("%d writes were acknowledged, and the store does not open: %v", acked, err)}
	}
	defer func() { _ = s.Close() }()
	for n := range acked {
		if _, ok := s.Get(binary.BigEndian.AppendUint32(nil, uint32(n))); !ok {
			return &check.Violation{Invariant: check.Lost, Text: fmt.Sprintf("write %d of %d that were acknowledged is gone after a power cut", n+1, acked)}
		}
	}
	return nil
}

// failing is a disk on which one fsync of a log fails: those pages are marked as
// clean without having been written, so that later ones report success.
type failing struct {
	vfs.FS
	armed atomic.Bool
	syncs atomic.Int64
	from  int64
}

func (d *failing) wrap(f vfs.File, name string) vfs.File {
	if !strings.HasSuffix(name, ".log") {
		return f
	}
	return &failingFile{File: f, disk: d}
}

func (d *failing) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return d.wrap(f, name), nil
}

func (d *failing) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, c)
	if err != nil {
		return nil, err
	}
	return d.wrap(f, to), nil
}

type failingFile struct {
	vfs.File
	disk *failing
	lost atomic.Bool
}

func (f *failingFile) Sync() error     { return f.flush(f.File.Sync) }
func (f *failingFile) SyncData() error { return f.flush(f.File.SyncData) }

// flush fails once; from then on nothing of this file gets to the disk.
func (f *failingFile) flush(sync func() error) error {
	if f.lost.Load() {
		return nil
	}
	if f.disk.armed.Load() && f.disk.syncs.Add(1) == f.disk.from {
		f.lost.Store(true)
		return syscall.EIO
	}
	return sync()
}
