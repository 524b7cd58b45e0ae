package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pace spreads what flushes and compactions write over the time that they have. At full speed each
// takes most of a processor for seconds, and answers wait meanwhile; nobody waits for a table.
// The measure is the log: in what fills one memtable a flush has to end, and in what fills some a
// compaction. So it follows the load without a rate to choose.
//
// Nothing is paced in a store on a small volume, before the load is known, while somebody waits for
// a table, where level 0 is deep, and once the store closes.
type pace struct {
	grown   *atomic.Int64 // bytes of the log
	stalled *atomic.Bool  // writes wait for a flush
	hurried atomic.Int32  // how many reasons there are not to pace, count

	mu          sync.Mutex // guards the next fields
	flushed     int64      // bytes of the log at the last flush; 0: there was none
	fills       int64      // bytes of the log that fill a memtable; 0: not known yet
	flush       uint64     // bytes of the memtables that are being flushed; 0: not paced
	compactions map[int]uint64
}

const (
	// flushPart is the part of a memtable that fills while another one is flushed, if the table is as
	// large as its memtable was. Mostly it is half as large.
	flushPart = 2. / 3
	// compactionFills is how many memtables fill during a compaction.
	compactionFills = 3
	// flushWithin and compactionWithin are what they take where nothing is written at all.
	flushWithin, compactionWithin = 20 * time.Second, time.Minute
	// deep is how many tables of level 0 a compaction takes in at once where it is behind.
	deep = 32
	// paceStep is how long a write waits at once.
	paceStep = 20 * time.Millisecond
)

// follow says what it goes by.
func (p *pace) follow(grown *atomic.Int64, stalled *atomic.Bool) {
	p.grown, p.stalled, p.compactions = grown, stalled, make(map[int]uint64)
}

// flushBegins is told what is in the memtables, bytes; full: nobody asked for the flush.
func (p *pace) flushBegins(size uint64, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.grown.Load()
	if p.flush = 0; full {
		if p.flushed > 0 {
			p.fills, p.flush = now-p.flushed, size
		}
	}
	p.flushed = now
}

// compactionBegins is told what a compaction reads.
func (p *pace) compactionBegins(i pebble.CompactionInfo) {
	size := uint64(0)
	for _, level := range i.Input {
		if level.Level == 0 && len(level.Tables) > deep {
			return
		}
		for _, t := range level.Tables {
			size += t.Size
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compactions[i.JobID] = size
}

func (p *pace) compactionEnds(i pebble.CompactionInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.compactions, i.JobID)
}

// paces tells which table files are written slowly.
func paces(c vfs.DiskWriteCategory) bool { return c == flushes || c == compacts }

// As Pebble names them.
const (
	flushes  vfs.DiskWriteCategory = "pebble-memtable-flush"
	compacts vfs.DiskWriteCategory = "pebble-compaction"
)

// may is how many bytes of its tables a flush or compaction may have written after this time, in
// which the log has grown by some bytes; all: it need not wait.
func (p *pace) may(c vfs.DiskWriteCategory, since time.Duration, grown int64) (bytes float64, all bool) {
	if p.hurried.Load() > 0 || p.stalled.Load() {
		return 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	size, fills, within := p.flush, flushPart, flushWithin
	if c == compacts {
		size, fills, within = 0, compactionFills, compactionWithin
		for _, s := range p.compactions { // which of them this is nobody says
			size = max(size, s)
		}
	}
	if size == 0 || p.fills <= 0 {
		return 0, true
	}
	return float64(size) * max(float64(grown)/(fills*float64(p.fills)), float64(since)/float64(within)), false
}

// flush makes a table of the memtable, and waits for it.
func (p *Pebble) flush() error {
	defer p.hurry()()
	return p.db.Flush()
}

// hurry has tables written at full speed until done is called: somebody waits for one.
func (p *Pebble) hurry() (done func()) {
	p.events.pace.hurried.Add(1)
	return func() { p.events.pace.hurried.Add(-1) }
}

// pacedFile is a table that a flush or a compaction writes.
type pacedFile struct {
	vfs.File
	pace     *pace
	category vfs.DiskWriteCategory
	began    time.Time
	grown    int64   // bytes of the log when it began
	written  float64 // bytes
}

func (p *pace) file(f vfs.File, c vfs.DiskWriteCategory) vfs.File {
	return &pacedFile{File: f, pace: p, category: c, began: time.Now(), grown: p.grown.Load()}
}

// Write writes, and waits until that much may be written.
func (f *pacedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.written += float64(n)
	for err == nil {
		if may, all := f.pace.may(f.category, time.Since(f.began), f.pace.grown.Load()-f.grown); all || f.written <= may {
			break
		}
		time.Sleep(paceStep)
	}
	return n, err
}
