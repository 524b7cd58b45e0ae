package store

import (
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
)

// Rest gives back what memtables take when there is no load: what is in one goes to a
// table, and a new one takes no memory before it is filled. It waits for that; writes
// go on meanwhile. Pebble would keep both the memtable that it fills and the one before
// it, which it fills next, for as long as it is open: two thirds of what a server that
// has nothing to do takes. Where little was written since the last time the memtable stays:
// a new one would be memory that is cleared, and a small table.
func (p *Pebble) Rest() {
	p.dropSpare()
	if !p.settled() {
		// Memory that was given back needs no clearing: the new memtable takes none before it
		// is written to.
		debug.FreeOSMemory()
		if p.flush() != nil {
			return // the store is damaged or full: its events say so, and Pebble tries again
		}
	}
	// Whoever looks for the place in the log holds the memtables that there were.
	p.tender.mu.Lock()
	p.dropSpare()
	p.tender.mu.Unlock()
	p.events.room.hold(p.db)
}

// restPart is the part of a memtable that is not worth a flush.
const restPart = 64

// settled has the index hold what waits for it, and tells whether the memtable has little.
func (p *Pebble) settled() bool {
	p.order.Lock()
	defer p.order.Unlock()
	if p.late.latest.Pending() > 0 {
		p.keepPlace()
	}
	p.late.trim()
	size := p.log.size.Load()
	little := size-p.rested < int64(p.memTable)/restPart
	if !little {
		p.rested = size
	}
	return little
}

// room keeps blocks out of what memtables will need, and most of the cache of its own. Pebble lets
// the cache have all that memtables do not take at the moment: at rest, and before the first
// load, a scrubber that reads through everything would fill it.
type room struct {
	cache     *pebble.Cache
	memTables int64      // what all of them take, bytes
	own       int64      // three quarters of the cache, bytes
	mu        sync.Mutex // guards free and freeOwn
	free      func()     // nil: nothing is held for memtables
	freeOwn   func()     // nil: nothing of the cache's own is held
	resting   atomic.Bool
	wrote     atomic.Int64 // bytes since it was held
}

// hold keeps what memtables do not take now until one is full, and those three quarters until the
// index is written to.
func (r *room) hold(db *pebble.DB) {
	m := db.Metrics().MemTable
	n := r.memTables - int64(m.Size+m.ZombieSize)
	r.release()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 {
		r.free = r.cache.Reserve(int(n))
	}
	if r.own > 0 {
		r.freeOwn = r.cache.Reserve(int(r.own))
		r.wrote.Store(0)
		r.resting.Store(true)
	}
}

// fill notes bytes that are written to the index. From a part of a memtable on there is a load, and the
// cache needs room for the filters of the tables: without it reads of keys read filters from the disk, and
// the slower a node is for that, the later its memtable is full.
func (r *room) fill(n int64) {
	if r.resting.Load() && r.wrote.Add(n) > r.memTables/memTables/restPart {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.use()
	}
}

// use lets the cache have what is its own. The caller holds mu.
func (r *room) use() {
	r.resting.Store(false)
	if r.freeOwn != nil {
		r.freeOwn()
		r.freeOwn = nil
	}
}

// release lets memtables and the cache have all of it.
func (r *room) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.use()
	if r.free != nil {
		r.free()
		r.free = nil
	}
}

// dropSpare frees the memtable that Pebble keeps for later, if there is one.
func (p *Pebble) dropSpare() {
	if !spareKnown {
		return
	}
	at := (*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(p.db), spareAt))
	if m := atomic.SwapPointer(at, nil); m != nil {
		freeMemTable(p.db, m)
		// The queue of memtables still has it, before its first element; and its skiplist has
		// the memory, which is Go's without cgo.
		reflect.NewAt(spareType, m).Elem().SetZero()
	}
}

// spareAt is where in a [pebble.DB] the spare memtable is, and spareType is its type; there is
// no option or method for that. Both are known in the version that is built with, or nothing
// is dropped.
var spareAt, spareType, spareKnown = func() (uintptr, reflect.Type, bool) {
	f, ok := reflect.TypeFor[pebble.DB]().FieldByName("memTableRecycle")
	if !ok || !strings.HasPrefix(f.Type.String(), "atomic.Pointer[") || f.Type.Size() != unsafe.Sizeof(uintptr(0)) {
		return 0, nil, false
	}
	of := f.Type.Field(0).Type // [0]*T
	if of.Kind() != reflect.Array || of.Elem().Kind() != reflect.Pointer {
		return 0, nil, false
	}
	return f.Offset, of.Elem().Elem(), true
}()

// freeMemTable gives back the memory of a memtable, and the room in the cache that it
// counts for.
//
//go:linkname freeMemTable github.com/cockroachdb/pebble/v2.(*DB).freeMemTable
func freeMemTable(db *pebble.DB, m unsafe.Pointer)
