package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestDamagedTableEndsTheProcess flips a bit of a table: reading it must end
// the process, by every way of reading, and not look like an absent key.
func TestDamagedTableEndsTheProcess(t *testing.T) {
	t.Parallel()
	for _, read := range []string{"get", "scan", "last", "snapshot"} {
		t.Run(read, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			s, err := store.OpenPebble(store.PebbleOptions{Dir: dir, MemTable: 256 << 10})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				put(s, fmt.Sprintf("k%03d", i), strings.Repeat("x", 20<<10))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			if err != nil || len(tables) == 0 {
				t.Fatalf("tables: %v, %v", tables, err)
			}
			for _, table := range tables {
				b, err := os.ReadFile(table)
				if err != nil {
					t.Fatal(err)
				}
				for at := bytes.IndexByte(b, 'x') + 100; at < len(b)-8<<10; at += 10 << 10 {
					b[at] ^= 1
				}
				if err := os.WriteFile(table, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			child := exec.Command(os.Args[0], "-test.run=^TestDamagedChild$")
			child.Env = append(os.Environ(), "NORN_TEST_DAMAGED="+dir, "NORN_TEST_READ="+read)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 70 || !bytes.Contains(out, []byte(store.ErrDamaged.Error())) {
				t.Errorf("the process ended with %v, want exit status 70 and the reason:\n%s", err, out)
			}
			if bytes.Contains(out, []byte("answered")) {
				t.Errorf("a damaged table was answered from:\n%s", out)
			}
		})
	}
}

// TestDamagedChild is the process that dies in TestDamagedTableEndsTheProcess.
func TestDamagedChild(t *testing.T) {
	dir := os.Getenv("NORN_TEST_DAMAGED")
	if dir == "" {
		return // runs as a child only
	}
	s, err := store.OpenPebble(store.PebbleOptions{Dir: dir, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		t.Fatal(err)
	}
	switch os.Getenv("NORN_TEST_READ") {
	case "get":
		_, ok := s.Get([]byte("k001"))
		fmt.Println("answered", ok)
	case "scan":
		n := 0
		for range s.Scan(nil, nil) {
			n++
		}
		fmt.Println("answered", n)
	case "last":
		_, ok := s.Last([]byte("k"), []byte("k002"))
		fmt.Println("answered", ok)
	case "snapshot":
		snapshot := s.Snapshot()
		_, ok := snapshot.Get([]byte("k001"))
		fmt.Println("answered", ok)
	}
}

// TestFatalNeverReturns: a handler that returns against its contract does not
// turn a failed sync into an acknowledged one.
func TestFatalNeverReturns(t *testing.T) {
	t.Parallel()
	if os.Getenv("NORN_TEST_RETURNS") == "" {
		// In a process of its own: a store that has failed cannot be closed.
		child := exec.Command(os.Args[0], "-test.run=^TestFatalNeverReturns$")
		child.Env = append(os.Environ(), "NORN_TEST_RETURNS=1")
		if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("never returned")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var failing atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpFileSyncData {
			return syscall.EIO
		}
		return nil
	}))
	var reason atomic.Value
	s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: fs, Fatal: func(err error) { reason.Store(err) }})
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	returned := false
	var done sync.WaitGroup
	done.Go(func() {
		put(s, "a", "1")
		s.Sync()
		returned = true
	})
	done.Wait()
	if err, _ := reason.Load().(error); returned || !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync returned: %v, reason %v, want EIO", returned, err)
	}
	fmt.Println("never returned")
	os.Exit(0) // before the leak check: see above
}

// TestFlushesThatFail are counted and repeated, lose nothing, and are fatal
// when they do not stop.
func TestFlushesThatFail(t *testing.T) {
	t.Parallel()
	if os.Getenv("NORN_TEST_FLUSHES") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestFlushesThatFail$")
		child.Env = append(os.Environ(), "NORN_TEST_FLUSHES=1")
		if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("as it should")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var failing atomic.Int64 // how many times
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && failing.Add(-1) >= 0 {
			return syscall.EIO
		}
		return nil
	}))
	fatal := make(chan error, 1)
	s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: fs, MemTable: 256 << 10, Fatal: func(err error) {
		fatal <- err
		runtime.Goexit()
	}})
	if err != nil {
		t.Fatal(err)
	}
	fill := func() {
		for i := range 40 {
			put(s, fmt.Sprintf("k%02d", i), strings.Repeat("x", 20<<10))
		}
	}
	failing.Store(3)
	fill()
	if m := s.Metrics(); m.BackgroundErrors == 0 {
		t.Fatalf("no failed flush was counted: %+v", m)
	}
	if _, ok := s.Get([]byte("k00")); !ok {
		t.Fatal("a write is lost")
	}
	failing.Store(1 << 30)
	go fill() // stalls for ever: nothing can be flushed
	select {
	case err := <-fatal:
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("fatal: %v, want EIO", err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("flushes fail for ever and nobody is told")
	}
	fmt.Println("as it should")
	os.Exit(0)
}

// TestSlowDisk: a write that hangs is reported while it hangs.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	var hang atomic.Bool
	release := make(chan struct{})
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, "000001.wal") && hang.CompareAndSwap(true, false) {
			<-release
		}
		return nil
	}))
	told := make(chan string, 1)
	o := store.PebbleOptions{Dir: "db", FS: fs, SlowAfter: time.Millisecond, DiskSlow: func(path string, since time.Duration) {
		select {
		case told <- path:
		default:
		}
	}}
	s, err := store.OpenPebble(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // and of a segment that was there, too
		t.Fatal(err)
	}
	if s, err = store.OpenPebble(o); err != nil {
		t.Fatal(err)
	}
	hang.Store(true)
	put(s, "a", "1")
	synced := make(chan struct{})
	go func() {
		s.Sync()
		close(synced)
	}()
	select {
	case path := <-told:
		if !strings.HasSuffix(path, ".wal") {
			t.Errorf("%s is reported, want the log", path)
		}
	case <-synced:
		t.Error("Sync returned while the disk hung")
	case <-time.After(60 * time.Second):
		t.Error("a disk that hangs is not reported")
	}
	close(release)
	<-synced
	if m := s.Metrics(); m.SlowWrites == 0 {
		t.Error("slow writes are not counted")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
