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
// acknowledged has to be there, on whichever way it was written: a third of the seeds
// commits batch by batch, a third applies some and syncs them together, and a third
// writes in bulk, where the fsync of a table fails, too.
var FailingDisk = Ground{"store on a disk that fails", failingDisk}

func failingDisk(seed uint64, _ func() bool) *check.Violation {
	rnd := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewCrashableMem()
	way := ways[seed%uint64(len(ways))]
	disk := &failing{FS: mem, from: int64(1 + rnd.IntN(way.syncs))}
	acked := 0
	died := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() {
		s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: disk, Segment: 64 << 10, Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) {
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
		for n := range way.writes {
			way.write(s, uint32(n))
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

// way is one on which a write is acknowledged, how many are written, and among how many
// syncs of files the one is drawn that fails.
type way struct {
	writes, syncs int
	write         func(s *store.Pebble, n uint32)
}

var ways = []way{
	{60, 40, func(s *store.Pebble, n uint32) {
		var b store.Batch
		b.Set(binary.BigEndian.AppendUint32(nil, n), bytes.Repeat([]byte("x"), 100))
		s.Commit(&b)()
	}},
	{60, 40, func(s *store.Pebble, n uint32) {
		var b store.Batch
		b.Set(binary.BigEndian.AppendUint32(nil, n), bytes.Repeat([]byte("x"), 100))
		s.Apply(&b)
		s.Sync()
	}},
	{6, 12, func(s *store.Pebble, n uint32) {
		var b store.Batch
		b.Bulk()
		key := binary.BigEndian.AppendUint32(nil, n)
		b.Set(key, []byte("x"))
		for i := range 12 { // as much as makes a table
			b.Set(append(key[:4:4], 'm', byte(i)), bytes.Repeat([]byte("x"), 60<<10))
		}
		s.Commit(&b)()
	}},
}

// failing is a disk on which one fsync of a log, or of a table on its way in, fails: those pages are marked as
// clean without having been written, so that later ones report success.
type failing struct {
	vfs.FS
	armed atomic.Bool
	syncs atomic.Int64
	from  int64
}

func (d *failing) wrap(f vfs.File, name string) vfs.File {
	if !strings.HasSuffix(name, ".wal") && !strings.HasSuffix(name, ".draft") {
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

func (d *failing) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return d.wrap(f, name), nil
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
