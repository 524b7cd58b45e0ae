package store_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/store"
)

// TestAtRestMemtablesAreGivenBack: what Pebble says it has reserved for memtables is no
// more than a new one, everything is still there, and it goes on.
func TestAtRestMemtablesAreGivenBack(t *testing.T) {
	const memTable = 1 << 20
	p := open(t, vfs.NewMem(), func(o *store.PebbleOptions) { o.MemTable = memTable })
	value := make([]byte, 1000)
	n := 0
	for round := range 3 {
		for bytes := 5 * memTable; bytes > 0; bytes -= len(value) {
			var b store.Batch
			b.Set(fmt.Appendf(nil, "%08d", n), value)
			p.Apply(&b)
			n++
		}
		p.Sync()
		before := store.MemTables(p)
		p.Rest()
		if after := store.MemTables(p); before < 2*memTable || after > memTable {
			t.Errorf("round %d: %d bytes for memtables before, %d after", round, before, after)
		}
		for i := range n {
			if _, ok := p.Get(fmt.Appendf(nil, "%08d", i)); !ok {
				t.Fatalf("round %d: key %d is gone", round, i)
			}
		}
	}
	flushes := p.Metrics().Flushes
	p.Rest() // once more changes nothing, nor does it after a small write
	var b store.Batch
	b.Set([]byte("small"), value)
	p.Apply(&b)
	p.Rest()
	if now := p.Metrics().Flushes; now != flushes {
		t.Errorf("%d flushes, %d before", now, flushes)
	}
	if after := store.MemTables(p); after > memTable {
		t.Errorf("%d bytes for memtables after a second rest", after)
	}
	if err := p.Close(); err != nil { // it says so when memory for memtables is lost
		t.Error(err)
	}
}

// TestAFreedMemtableGivesItsMemoryBack: at rest there is the new memtable and no other, although
// Pebble's queue of memtables has the freed one, too.
func TestAFreedMemtableGivesItsMemoryBack(t *testing.T) {
	const memTable = 32 << 20
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	p := open(t, vfs.Default, func(o *store.PebbleOptions) { o.Dir, o.MemTable = t.TempDir(), memTable })
	value := make([]byte, 64<<10)
	for n := range 4 * memTable / len(value) { // the first memtables are smaller
		var b store.Batch
		b.Set(fmt.Appendf(nil, "%08d", n), value)
		p.Apply(&b)
	}
	p.Sync()
	p.Rest()
	took := heap() - before
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	switch {
	case took < memTable:
		t.Skip("NOT RUN: a build with cgo, which has memtables outside of the heap")
	case took > 3*memTable/2:
		t.Errorf("%d MiB at rest with a memtable of %d", took>>20, memTable>>20)
	}
}

// TestWhatMemtablesWillNeedIsNoCache: who reads through everything, as a scrubber does,
// does not fill what memtables do not take before the first load and at rest. Under load
// they have it.
func TestWhatMemtablesWillNeedIsNoCache(t *testing.T) {
	const memTable, cache = 1 << 20, 512 << 10
	fs := vfs.NewMem()
	options := func(o *store.PebbleOptions) { o.MemTable, o.Cache = memTable, cache }
	p := open(t, fs, options)
	value := make([]byte, 1000)
	fill := func(round int) {
		for n := range 6 * memTable / len(value) {
			binary.BigEndian.PutUint64(value, uint64(n*7919)) // blocks that compress to nothing are smaller
			var b store.Batch
			b.Set(fmt.Appendf(nil, "%d/%08d", round, n), value)
			p.Apply(&b)
		}
		p.Sync()
	}
	scan := func(when string) {
		t.Helper()
		n := 0
		for range p.Scan(nil, nil) {
			n++
		}
		if got := p.Metrics().CacheBytes; n == 0 || got > cache+cache/4 || got < cache/8 {
			t.Errorf("%s: %d records read, %d bytes in a cache of %d", when, n, got, cache)
		}
	}
	for round := range 3 {
		fill(round)
		p.Rest()
		scan("at rest")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = open(t, fs, options)
	scan("after a start")
	if got := p.Metrics().CacheBytes; got > cache/4+cache/8 {
		t.Errorf("at rest the cache has %d bytes of %d", got, cache)
	}
	var b store.Batch
	b.Set([]byte("load"), value[:1])
	for n := range 2 * memTable / 64 / 100 { // a thirtieth of a memtable
		b.Set(fmt.Appendf(nil, "load/%08d", n), value[:1])
	}
	p.Apply(&b)
	for range p.Scan(nil, nil) {
	}
	if got := p.Metrics().CacheBytes; got < cache/2 {
		t.Errorf("with the first writes the cache has %d bytes of %d", got, cache)
	}
	fill(3)
	if got, most := store.MemTables(p), int64(2*memTable); got < most || got > most+memTable {
		t.Errorf("under load memtables take %d bytes of %d", got, most)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
