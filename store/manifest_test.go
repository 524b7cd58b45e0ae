package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// records gives where the records of a manifest of one block begin, and its end.
func records(t *testing.T, b []byte) (at []int) {
	t.Helper()
	for i := 0; i < len(b); i += 7 + int(binary.LittleEndian.Uint16(b[i+4:])) {
		at = append(at, i)
	}
	if len(b) > 32<<10 || len(at) < 6 {
		t.Fatalf("a manifest of %d bytes and %d records", len(b), len(at))
	}
	return append(at, len(b))
}

func content(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestADamagedManifestIsRefused: a damaged record of the manifest is no end of it, and
// nothing of the store is deleted; its last record may be torn, as a power failure
// leaves it.
func TestADamagedManifestIsRefused(t *testing.T) {
	mem := vfs.NewCrashableMem()
	// One segment has all of it: a log that was cut needs the last record of the manifest.
	s := open(t, mem, func(o *store.PebbleOptions) { o.Segment = 4 << 20 })
	for i := range 80 {
		put(s, fmt.Sprintf("k%02d", i), strings.Repeat("x", 20<<10))
	}
	s.Sync()
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	_ = s.Close()
	desc, err := pebble.Peek("db", killed)
	if err != nil {
		t.Fatal(err)
	}
	whole := content(t, killed, desc.ManifestFilename)
	try := func(what string, b []byte, refused bool) {
		t.Helper()
		cut := killed.CrashClone(vfs.CrashCloneCfg{})
		f, err := cut.Create(desc.ManifestFilename, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(bytes.Clone(b)) // which may spoil what it is given, in tests
			err = errors.Join(err, f.Sync(), f.Close())
		}
		list := func() []string {
			names, err := cut.List("db")
			if err != nil {
				t.Fatal(err)
			}
			return slices.Sorted(slices.Values(names))
		}
		if err != nil {
			t.Fatal(err)
		}
		before := list()
		s, err := store.OpenPebble(store.PebbleOptions{Dir: "db", FS: cut, Fatal: func(err error) { panic(err) }})
		if err == nil {
			_ = s.Close()
		}
		if is, after := errors.Is(err, store.ErrDamaged), list(); is != refused || refused && !slices.Equal(before, after) {
			t.Errorf("%s: %v; of %v there is left %v", what, err, before, after)
		}
	}
	at := records(t, whole)
	last := len(at) - 2
	for i := range last + 1 {
		for what, spoil := range map[string]func(b []byte){
			"its checksum is wrong": func(b []byte) { b[0] ^= 0xff; b[2] ^= 0xff },
			"it says it is longer":  func(b []byte) { b[4] += 9 },
			"it is of no kind":      func(b []byte) { b[6] = 0 },
			"it is zero":            func(b []byte) { clear(b) },
		} {
			b := slices.Clone(whole)
			if i == last && what != "its checksum is wrong" {
				continue // a power failure may have left it so
			}
			spoil(b[at[i]:at[i+1]])
			try(fmt.Sprintf("record %d of %d: %s", i, last, what), b, true)
		}
	}
	try("whole", whole, false)
	torn := slices.Clone(whole)
	clear(torn[at[last]:])
	try("the last record is not on the disk", torn, false)
	try("the end of the last record is not there", whole[:len(whole)-3], false)
}

// TestAManifestOfSeveralBlocks: records go over the ends of blocks, and a manifest may end
// anywhere.
func TestAManifestOfSeveralBlocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	var whole bytes.Buffer
	w := record.NewWriter(&whole)
	size := func() int { return rnd.IntN(1 << rnd.IntN(17)) }
	for whole.Len() < 300<<10 {
		b := make([]byte, size())
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if _, err := w.WriteRecord(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	end := whole.Len() // one more record, which is the last one
	if _, err := w.WriteRecord(bytes.Repeat([]byte("x"), 2000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(b []byte) error {
		mem := vfs.NewMem()
		f, err := mem.Create("m", vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(bytes.Clone(b)) // which may spoil what it is given, in tests
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return store.CheckManifest(mem, "m")
	}
	if err := check(whole.Bytes()); err != nil {
		t.Error(err)
	}
	for range 100 {
		n := rnd.IntN(whole.Len())
		if err := check(whole.Bytes()[:n]); err != nil {
			t.Errorf("cut at %d: %v", n, err)
		}
		b := bytes.Clone(whole.Bytes())
		at := rnd.IntN(len(b))
		b[at] ^= 1 << rnd.IntN(8)
		length := at == end+4 || at == end+5                                                         // of the last one: it is not all there then
		if err := check(b); !errors.Is(err, store.ErrDamaged) && at%(32<<10) < 32<<10-7 && !length { // the end of a block may be free
			t.Errorf("a bit at %d: %v", at, err)
		}
	}
}
