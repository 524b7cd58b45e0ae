package held

import (
	"sync"
	"time"

	"github.com/norn-dev/norn/store"
)

const (
	// Most bounds the snapshots that are held: a backup has one for each partition that it reads, and until
	// [Idle] is over for each that it has read.
	Most = 1024
	// Idle is for how long one is held that nobody reads.
	Idle = time.Minute
)

// Views are the snapshots that are held. [New] makes them, Close ends them.
type Views struct {
	take func() store.Snapshot

	mu     sync.Mutex // guards all below
	open   map[[16]byte]*view
	closed bool
}

type view struct {
	store.Snapshot
	readers int
	timer   *time.Timer
}

// New makes views of what take gives.
func New(take func() store.Snapshot) *Views {
	return &Views{take: take, open: make(map[[16]byte]*view)}
}

// Use gives the snapshot of a name, a new one where there is none. done has to be called
// when it was read. ok is false when there are too many: then the read sees what is there now.
func (v *Views) Use(name [16]byte) (s store.View, done func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.open[name]
	if o == nil {
		if v.closed || len(v.open) >= Most {
			return nil, nil, false
		}
		o = &view{Snapshot: v.take()}
		o.timer = time.AfterFunc(Idle, func() { v.expire(name, o) })
		v.open[name] = o
	}
	o.readers++
	return o, func() { v.done(o) }, true
}

func (v *Views) done(o *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o.readers--
	o.timer.Reset(Idle)
}

// expire closes a snapshot that nobody reads.
func (v *Views) expire(name [16]byte, o *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.open[name] != o:
	case o.readers > 0:
		o.timer.Reset(Idle)
	default:
		delete(v.open, name)
		o.Close()
	}
}

// Held is how many there are.
func (v *Views) Held() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.open)
}

// Close closes all of them. No read may be under way.
func (v *Views) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for name, o := range v.open {
		o.timer.Stop()
		delete(v.open, name)
		o.Close()
	}
}
