package store

import (
	"reflect"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
)

// TablesFrom makes tables of parts that have so many bytes.
func TablesFrom(p *Pebble, bytes int) { p.least = bytes }

// Tables is how many tables were made of batches.
func Tables(p *Pebble) int { return p.drafts }

// Flush makes a table of what the index has, and does not note its place in the log.
func Flush(p *Pebble) error { return p.flush() }

// Table makes a table of what was written, with a place in the log that is behind all of it.
func Table(t testing.TB, p *Pebble) {
	t.Helper()
	p.settled()
	if err := p.flush(); err != nil {
		t.Fatal(err)
	}
}

// ShortLivedUpTo has a store remember so many keys of short-lived writes, and look which ones there are.
func ShortLivedUpTo(p *Pebble, n int) {
	p.order.Lock()
	defer p.order.Unlock()
	p.late.short.limit = n
	p.writeLate(nil)
	p.late.short.scan(p.db, p.fatal)
}

// Tabled is how many writes the tables have, and how many of them are deletes, beside the store's own.
func Tabled(p *Pebble) (writes, deletes uint64, err error) {
	tables, err := p.db.SSTables(pebble.WithProperties())
	for _, level := range tables {
		for _, t := range level {
			writes += t.Properties.NumEntries
			deletes += t.Properties.NumDeletions
		}
	}
	return writes, deletes, err
}

// MemTables is how many bytes Pebble has for memtables: filled, being flushed, and kept
// for later.
func MemTables(p *Pebble) int64 {
	at, _ := reflect.TypeFor[pebble.DB]().FieldByName("memTableReserved")
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(p.db), at.Offset)).Load()
}

// CheckManifest looks for damage in a manifest.
var CheckManifest = checkManifest

// Pace is what flushes and compactions go by, without a store.
type Pace struct{ *pace }

// NewPace knows the size of a memtable, what is written to one, and what one compaction reads, bytes.
func NewPace(memTable uint64, fills int64, compaction uint64) Pace {
	p := &pace{stalled: new(atomic.Bool), compactions: make(map[int]uint64)}
	for range 2 {
		p.filled.Add(fills)
		p.flushBegins(memTable, true)
	}
	c := Pace{p}
	c.Compact(1, 0, 2, compaction)
	return c
}

// May is how many bytes may have been written; all: any number.
func (p Pace) May(compaction bool, since time.Duration, grown int64) (bytes float64, all bool) {
	if compaction {
		return p.may(compacts, since, grown)
	}
	return p.may(flushes, since, grown)
}

// Compact begins a compaction of a level that reads so many bytes, in tables of that level and one below.
func (p Pace) Compact(job, level, tables int, bytes uint64) {
	p.compactionBegins(pebble.CompactionInfo{JobID: job, Input: []pebble.LevelInfo{
		{Level: level, Tables: make([]pebble.TableInfo, tables)}, {Level: 6, Tables: []pebble.TableInfo{{Size: bytes}}},
	}})
}

// Compacted ends it.
func (p Pace) Compacted(job int) { p.compactionEnds(pebble.CompactionInfo{JobID: job}) }

// Stall has writes wait.
func (p Pace) Stall() { p.stalled.Store(true) }
