package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/norn-dev/norn/store"
)

// segments gives the names of the segments of the log.
func segments(t *testing.T, fs vfs.FS) (names []string) {
	t.Helper()
	all, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasSuffix(name, ".wal") {
			names = append(names, name)
		}
	}
	return names
}

// TestTheLogIsCut behind tables: however much is written, the log has some memtables of it,
// and its segments are used again.
func TestTheLogIsCut(t *testing.T) {
	const memTable = 256 << 10
	fs := vfs.NewMem()
	s := open(t, fs, func(o *store.PebbleOptions) { o.MemTable = memTable })
	most, count := uint64(0), 0
	for n := range 400 {
		var b store.Batch
		b.Set(fmt.Appendf(nil, "%03d", n%100), make([]byte, 20<<10))
		s.Commit(&b)()
		most = max(most, s.Metrics().LogBytes)
		count = max(count, len(segments(t, fs)))
	}
	if most > 8*memTable || count > 16 {
		t.Errorf("of 8 MB the log had %d bytes in %d segments, with memtables of %d", most, count, memTable)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOwnKeysAreNotShown by any way of walking.
func TestOwnKeysAreNotShown(t *testing.T) {
	s := open(t, vfs.NewMem())
	put(s, "\xff\xfea", "1")
	s.Sync()
	view := s.Snapshot()
	for name, got := range map[string][]string{"store": pairs(s), "snapshot": pairs(view)} {
		if len(got) != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
	for key := range s.Back([]byte("\xff\xff"), nil) {
		t.Errorf("back: %q", key)
	}
	if key, ok := s.Last(nil, nil); !ok || string(key) != "\xff\xfea" {
		t.Errorf("last: %q", key)
	}
	view.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestALogOfPebbleIsTakenOver: a store of a build that had no log of its own opens with all
// that was synced, and again after a loss of power at any write of that.
func TestALogOfPebbleIsTakenOver(t *testing.T) {
	old := vfs.NewCrashableMem()
	db, err := pebble.Open("db", &pebble.Options{FS: old, FormatMajorVersion: pebble.FormatNewest, MemTableSize: 256 << 10, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 { // some in tables, some in its log
		if err := db.Set(fmt.Appendf(nil, "%03d", n), make([]byte, 10<<10), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	killed := old.CrashClone(vfs.CrashCloneCfg{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(fs vfs.FS, more int) {
		t.Helper()
		s := open(t, fs)
		if n := len(pairs(s)); n < 50 || n > 50+more {
			t.Errorf("%d keys of 50", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex // guards the next variables
	var cuts []*vfs.MemFS
	done := false
	s := open(t, errorfs.Wrap(killed, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if !done && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			cuts = append(cuts, killed.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})))
	put(s, "new", "1")
	s.Sync()
	mu.Lock()
	done = true
	mu.Unlock()
	promised := killed.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(cuts) < 20 {
		t.Errorf("only %d writes were seen", len(cuts))
	}
	for _, cut := range cuts {
		check(cut, 1)
	}
	s = open(t, promised)
	if _, ok := s.Get([]byte("new")); !ok || len(pairs(s)) != 51 {
		t.Errorf("%d keys of 51", len(pairs(s)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestALostSegmentIsDamage: the log is never taken for an empty one.
func TestALostSegmentIsDamage(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	put(s, "a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range segments(t, fs) {
		if err := fs.Remove("db/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: fs}); !errors.Is(err, store.ErrDamaged) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("without its log: %v", err)
	}
}

// silent is a logger of Pebble's.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
