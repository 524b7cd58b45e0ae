package store_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sizes gives the sizes of the files of a store by name.
func sizes(t *testing.T, fs vfs.FS) map[string]int64 {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]int64)
	for _, name := range names {
		info, err := fs.Stat(path.Join("db", name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = info.Size()
	}
	return all
}

// TestTheFirstLogIsWrittenBeforeItIsUsed: its size never changes, so a sync has
// the records to make durable and nothing else; a spare waits for the next one.
func TestTheFirstLogIsWrittenBeforeItIsUsed(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	for i := range 100 {
		put(s, fmt.Sprintf("k%03d", i), "value")
	}
	s.Sync()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, spare := 0, int64(0)
	for name, size := range sizes(t, fs) {
		if strings.HasSuffix(name, ".log") {
			logs++
			if size != 256<<10 {
				t.Errorf("log %s has %d bytes", name, size)
			}
		}
		if name == "spare-log.prefilled" {
			spare = size
		}
		if name == "spare-log.draft" {
			t.Error("a draft was left")
		}
	}
	if logs != 1 || spare != 256<<10 {
		t.Fatalf("%d logs, a spare of %d bytes", logs, spare)
	}
	s = open(t, fs)
	for i := range 100 {
		if v, ok := s.Get(fmt.Appendf(nil, "k%03d", i)); !ok || string(v) != "value" {
			t.Fatalf("k%03d is lost", i)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestADraftOfASpareIsNoSpare: power lost while it was written.
func TestADraftOfASpareIsNoSpare(t *testing.T) {
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll("db", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spare-log.draft", "spare-log.prefilled"} {
		f, err := fs.Create(path.Join("db", name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("half of it")); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, fs, func(o *store.PebbleOptions) { o.Prefill = 128 << 10 })
	put(s, "a", "b")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, size := range sizes(t, fs) {
		if strings.HasSuffix(name, ".log") && size != 128<<10 {
			t.Errorf("log %s has %d bytes", name, size)
		}
	}
}
