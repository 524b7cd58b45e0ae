package store_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/store"
)

// TestAFlushTakesItsTime: at the pace of the log it ends before the next memtable is full, a
// compaction within some of them, and both end where nothing is written any more.
func TestAFlushTakesItsTime(t *testing.T) {
	const memTable, fills = 100, 60 // bytes: of a memtable, and of the log that fills it
	for _, c := range []struct {
		compaction bool
		since      time.Duration
		grown      int64
		may        float64
	}{
		{false, 0, 0, 0},
		{false, 0, fills / 3, memTable / 2},
		{false, 0, 2 * fills / 3, memTable},
		{false, 10 * time.Second, 0, memTable / 2},
		{false, 20 * time.Second, 0, memTable},
		{true, 0, 3 * fills / 2, 1000 / 2},
		{true, 0, 3 * fills, 1000},
		{true, time.Minute, 0, 1000},
	} {
		p := store.NewPace(memTable, fills, 1000)
		may, all := p.May(c.compaction, c.since, c.grown)
		if all || may < c.may-1e-6 || may > c.may+1e-6 {
			t.Errorf("%+v: %v bytes, all %v", c, may, all)
		}
		p.Stall()
		if _, all := p.May(c.compaction, c.since, c.grown); !all {
			t.Errorf("%+v: paced while writes wait", c)
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
