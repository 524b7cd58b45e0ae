package store_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/store"
)

// TestAFlushTakesItsTime: at the pace of the load it ends before the next memtable is full, a
// compaction of level 0 within some of them, and both end where nothing is written any more.
func TestAFlushTakesItsTime(t *testing.T) {
	const memTable, fills, reads = 100, 60, 1000 // bytes: of a memtable, what is written to it, what a compaction reads
	for _, c := range []struct {
		compaction bool
		since      time.Duration
		filled     int64
		may        float64
	}{
		{false, 0, 0, 0},
		{false, 0, fills / 3, memTable / 2},
		{false, 0, 2 * fills / 3, memTable},
		{false, 10 * time.Second, 0, memTable / 2},
		{false, 20 * time.Second, 0, memTable},
		{true, 0, 3 * fills, reads / 2},
		{true, 0, 6 * fills, reads},
		{true, time.Minute, 0, reads},
	} {
		p := store.NewPace(memTable, fills, reads)
		may, all := p.May(c.compaction, c.since, c.filled)
		if all || may < c.may-1e-6 || may > c.may+1e-6 {
			t.Errorf("%+v: %v bytes, all %v", c, may, all)
		}
		p.Stall()
		if _, all := p.May(c.compaction, c.since, c.filled); all == c.compaction {
			t.Errorf("%+v: all %v while writes wait for a flush", c, all)
		}
	}
}

// TestOneCompactionThatIsBehindHasAllHurry: nobody says which compaction writes a table.
func TestOneCompactionThatIsBehindHasAllHurry(t *testing.T) {
	for name, c := range map[string]struct{ level, tables int }{"of a lower level": {4, 1}, "of many tables": {0, 33}} {
		p := store.NewPace(100, 60, 1000)
		p.Compact(2, c.level, c.tables, 10)
		if _, all := p.May(true, 0, 0); !all {
			t.Errorf("one %s is paced", name)
		}
		if _, all := p.May(false, 0, 0); all {
			t.Errorf("one %s hurries a flush", name)
		}
		p.Compacted(2)
		if _, all := p.May(true, 0, 0); all {
			t.Errorf("after one %s nothing is paced", name)
		}
		p.Compact(3, 0, 2, 4000)
		if may, _ := p.May(true, time.Minute, 0); may != 4000 {
			t.Errorf("beside a larger one %v bytes", may)
		}
	}
}

// TestNobodyWaitsForAPacedTable: a flush that nobody waits for goes on for seconds when writes have
// ended; one that is asked for, and the end of the store, are over at once.
func TestNobodyWaitsForAPacedTable(t *testing.T) {
	const memTable = 1 << 20
	for name, end := range map[string]func(p *store.Pebble) error{
		"close": (*store.Pebble).Close,
		"flush": func(p *store.Pebble) error { p.Rest(); return p.Close() },
	} {
		p := open(t, vfs.NewMem(), func(o *store.PebbleOptions) { o.MemTable = memTable })
		value, n := make([]byte, 10_000), 0
		write := func() {
			var b store.Batch
			b.Set(fmt.Appendf(nil, "%08d", n), value)
			p.Apply(&b)
			n++
		}
		fill := func() { // until one more memtable is being flushed
			for before := p.Metrics().MemTables; p.Metrics().MemTables <= before; {
				write()
			}
		}
		flushed := func() bool {
			for began := time.Now(); time.Since(began) < 500*time.Millisecond; runtime.Gosched() {
				if p.Metrics().MemTables == 1 {
					return true
				}
			}
			return false
		}
		for range 8 * memTable / len(value) { // memtables are small at first
			write()
		}
		if err := store.Flush(p); err != nil {
			t.Fatal(err)
		}
		fill()
		if flushed() {
			t.Errorf("%s: a table is written at full speed", name)
		}
		began := time.Now()
		if err := end(p); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
