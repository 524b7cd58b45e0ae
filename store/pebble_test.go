package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/storetest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store that may not meet a fatal error. Writes to keys that begin with l wait
// before the index gets them.
func open(t testing.TB, fs vfs.FS, change ...func(*store.PebbleOptions)) *store.Pebble {
	t.Helper()
	o := store.PebbleOptions{Dir: "db", FS: fs, Cache: 1 << 20, MemTable: 256 << 10, WriteBack: "l", Fatal: func(err error) { panic(err) }}
	for _, c := range change {
		c(&o)
	}
	s, err := store.OpenPebble(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// machine is a Pebble store on a file system in memory that can lose power.
type machine struct {
	t    testing.TB
	fs   *vfs.MemFS
	s    *store.Pebble
	rnd  *rand.Rand
	late string
}

func (m *machine) Store() store.Store { return m.s }
func (m *machine) Close()             { _ = m.s.Close() }

// Crash keeps what was synced and each other block by chance.
func (m *machine) Crash(pick func(n int) int) {
	left := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: pick(100), RNG: m.rnd})
	m.Close()
	m.fs = left
	m.s = m.open()
}

func (m *machine) open() *store.Pebble {
	return open(m.t, m.fs, func(o *store.PebbleOptions) { o.WriteBack, o.ShortLived = m.late, m.late })
}

func TestPebbleContract(t *testing.T) { storetest.Run(t, machines("")) }

// TestWrittenBackContract: the contract holds where writes to every other key wait before the
// index gets them, and it may not get them at all.
func TestWrittenBackContract(t *testing.T) {
	everyOther := make([]byte, 128)
	for i := range everyOther {
		everyOther[i] = byte(2*i + 1)
	}
	storetest.Run(t, machines(string(everyOther)))
}

func machines(late string) func(t testing.TB) storetest.Machine {
	return func(t testing.TB) storetest.Machine {
		m := &machine{t: t, fs: vfs.NewCrashableMem(), rnd: rand.New(rand.NewPCG(1, 2)), late: late}
		m.s = m.open()
		return m
	}
}

func TestOneDataSyncPerSync(t *testing.T) {
	var syncs atomic.Int64
	counting := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, "000001.wal") && (op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSync) {
			syncs.Add(1)
		}
		return nil
	}))
	s := open(t, counting)
	before := syncs.Load()
	const n = 50
	for range n {
		var b store.Batch
		b.Set([]byte("a"), []byte("b"))
		s.Apply(&b)
		s.Sync()
	}
	if got := syncs.Load() - before; got != n {
		t.Errorf("%d syncs reached the disk for %d", got, n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestBlocksStayBesideFullMemtables reads a key of an old table again and again once
// memtables have grown to more than the cache: its blocks are read from the disk once.
func TestBlocksStayBesideFullMemtables(t *testing.T) {
	s := open(t, vfs.NewMem(), func(o *store.PebbleOptions) { o.MemTable = 1 << 20 })
	for n := range 100 {
		var b store.Batch
		b.Set(fmt.Appendf(nil, "key %03d", n), make([]byte, 64<<10))
		s.Apply(&b)
	}
	s.Sync()
	read := func() {
		if _, ok := s.Get([]byte("key 001")); !ok {
			t.Fatal("the key is gone")
		}
	}
	read()
	before := s.Metrics().CacheMisses
	for range 50 {
		read()
	}
	if m := s.Metrics(); m.CacheMisses > before+10 || m.CacheBytes == 0 {
		t.Errorf("50 readings of one key missed the cache %d times; it holds %d bytes", m.CacheMisses-before, m.CacheBytes)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDamagedLogIsRefused flips one bit in the middle of the log (faults.md
// 0.1): the store must say so, not open with half of the data.
func TestDamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	s, err := store.OpenPebble(store.PebbleOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		var b store.Batch
		b.Set([]byte{byte(i >> 8), byte(i)}, make([]byte, 100))
		s.Apply(&b)
		s.Sync()
	}
	// A kill leaves the log as it is; closing writes no more to it either.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	log := logs[0] // the last one may be spare
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 128<<10 {
		t.Fatalf("the log has %d bytes only", len(b))
	}
	b[64<<10] ^= 1 // there are records before and after it
	if err := os.WriteFile(log, b, 0o640); err != nil {
		t.Fatal(err)
	}
	if s, err := store.OpenPebble(store.PebbleOptions{Dir: dir}); !errors.Is(err, store.ErrDamaged) {
		if err == nil {
			_ = s.Close()
		}
		t.Fatalf("opening a damaged log: %v, want ErrDamaged", err)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := store.OpenPebble(store.PebbleOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenPebble(store.PebbleOptions{Dir: dir}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second open: %v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// failures are what a log write can meet.
var failures = map[string]func(op errorfs.Op) error{
	"sync": func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSync {
			return syscall.EIO
		}
		return nil
	},
	"full": func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt {
			return syscall.ENOSPC
		}
		return nil
	},
}

// TestFailingChild is the process that dies in TestDiskFailureEndsTheProcess.
func TestFailingChild(t *testing.T) {
	fail := failures[os.Getenv("NORN_TEST_DISK_FAILURE")]
	if fail == nil {
		return // runs as a child only
	}
	var on atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !on.Load() || !strings.HasSuffix(op.Path, ".wal") {
			return nil
		}
		err := fail(op)
		if err != nil {
			fmt.Println("failed", op.Kind)
		}
		return err
	}))
	// errorfs does not see what is done to files that are used again.
	s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: fs, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	var b store.Batch
	b.Set([]byte("a"), []byte("b"))
	s.Apply(&b)
	s.Sync()
	fmt.Println("acknowledged")
}

// TestDiskFailureEndsTheProcess: after a failed fsync or a full disk nothing is
// acknowledged, nothing is tried again, the process ends.
func TestDiskFailureEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name := range failures {
		t.Run(name, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestFailingChild$")
			child.Env = append(os.Environ(), "NORN_TEST_DISK_FAILURE="+name)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 70 {
				t.Fatalf("the process ended with %v, want exit status 70:\n%s", err, out)
			}
			if strings.Contains(string(out), "acknowledged") {
				t.Fatalf("acknowledged after a failure:\n%s", out)
			}
			if n := strings.Count(string(out), "failed "); n != 1 {
				t.Fatalf("the failed operation was tried %d times:\n%s", n, out)
			}
		})
	}
}

func TestVolume(t *testing.T) {
	if free, total, err := store.Volume(t.TempDir()); err != nil || free == 0 || total < free {
		t.Fatalf("free bytes: %d of %d, %v", free, total, err)
	}
	if _, _, err := store.Volume("/does/not/exist"); err == nil {
		t.Fatal("free bytes of a directory that does not exist")
	}
}
