package store

import (
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
)

// TablesFrom makes tables of parts that have so many bytes.
func TablesFrom(p *Pebble, bytes int) { p.least = bytes }

// Tables is how many tables were made of batches.
func Tables(p *Pebble) int { return p.drafts }

// Flush makes a table of what the index has, and does not note its place in the log.
func Flush(p *Pebble) error { return p.db.Flush() }

// MemTables is how many bytes Pebble has for memtables: filled, being flushed, and kept
// for later.
func MemTables(p *Pebble) int64 {
	at, _ := reflect.TypeFor[pebble.DB]().FieldByName("memTableReserved")
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(p.db), at.Offset)).Load()
}

// CheckManifest looks for damage in a manifest.
var CheckManifest = checkManifest
