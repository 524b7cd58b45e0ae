package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pace spreads what flushes, and compactions of level 0, write over the time that they have. At full
// speed each takes most of a processor for seconds, and answers wait meanwhile; nobody waits for a
// table. The clock is the memtable: while the next one fills, a flush has to end, and while some fill,
// a compaction has to. So the pace follows the load, without a rate to choose.
//
// A flush is not paced while writes wait for a memtable, a compaction not while level 0 is deep or one
// of lower levels runs, of which there may be several to each one of level 0. Nothing is paced while
// somebody waits for a table, before the load is known, on a small volume, and once the store closes.
type pace struct {
	filled  atomic.Int64 // what was written to memtables, bytes
	stalled *atomic.Bool // writes wait for a flush
	hurried atomic.Int32 // how many reasons there are not to pace, count

	mu      sync.Mutex // guards the next fields
	flushed int64      // filled at the last flush; 0: there was none
	fills   int64      // what was written to the memtables that the last flush took; 0: not known yet
	flush   uint64     // bytes of the memtables that are being flushed; 0: not paced
	// compactions are those that run, by job: what they read, bytes; 0: not paced.
	compactions map[int]uint64
}

const (
	// flushPart is the part of a memtable that fills while another one is flushed, if the table is as
	// large as its memtable was. Mostly it is half as large.
	flushPart = 2. / 3
	// compactionFills is how many memtables fill during a compaction that drops nothing.
	compactionFills = 6
	// flushWithin and compactionWithin are what they take where nothing is written at all.
	flushWithin, compactionWithin = 20 * time.Second, time.Minute
	// deep is how many tables of level 0 a compaction takes in at once where it is behind.
	deep = 32
	// paceStep is how long a write waits at once.
	paceStep = 20 * time.Millisecond
	// entrySize is what an entry of a memtable takes beside its key and value, about, bytes.
	entrySize = 64
)

// flushBegins is told what is in the memtables, bytes. full: they are no small rest.
func (p *pace) flushBegins(size uint64, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.filled.Load()
	if p.flush = 0; full && p.flushed > 0 {
		p.fills, p.flush = now-p.flushed, size
	}
	p.flushed = now
}

// compactionBegins is told what a compaction reads.
func (p *pace) compactionBegins(i pebble.CompactionInfo) {
	size := uint64(0)
	for _, level := range i.Input {
		for _, t := range level.Tables {
			size += t.Size
		}
	}
	if len(i.Input) == 0 || i.Input[0].Level != 0 || len(i.Input[0].Tables) > deep {
		size = 0
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

// compacted is the most that a compaction reads now, bytes: which of them writes a table nobody says.
// 0: none is paced.
func (p *pace) compacted() (size uint64) {
	for _, s := range p.compactions {
		if s == 0 {
			return 0
		}
		size = max(size, s)
	}
	return size
}

// paces tells which table files are written slowly.
func paces(c vfs.DiskWriteCategory) bool { return c == flushes || c == compacts }

// As Pebble names them.
const (
	flushes  vfs.DiskWriteCategory = "pebble-memtable-flush"
	compacts vfs.DiskWriteCategory = "pebble-compaction"
)

// may is how many bytes of its tables a flush or compaction may have written after this time, in
// which so much was written to memtables, bytes; all: it need not wait.
func (p *pace) may(c vfs.DiskWriteCategory, since time.Duration, filled int64) (bytes float64, all bool) {
	if p.hurried.Load() > 0 || c == flushes && p.stalled.Load() {
		return 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	size, fills, within := p.flush, flushPart, flushWithin
	if c == compacts {
		size, fills, within = p.compacted(), compactionFills, compactionWithin
	}
	if size == 0 || p.fills <= 0 {
		return 0, true
	}
	return float64(size) * max(float64(filled)/(fills*float64(p.fills)), float64(since)/float64(within)), false
}

// hurry has tables written at full speed until done is called: somebody waits for one.
func (p *Pebble) hurry() (done func()) {
	p.events.pace.hurried.Add(1)
	return func() { p.events.pace.hurried.Add(-1) }
}

// flush makes a table of the memtable, and waits for it.
func (p *Pebble) flush() error {
	defer p.hurry()()
	return p.db.Flush()
}

// toIndex writes a batch to the memtable.
func (p *Pebble) toIndex(w *pebble.Batch) {
	size := int64(w.Len()) + entrySize*int64(w.Count())
	p.events.pace.filled.Add(size)
	p.events.room.fill(size)
	if err := p.db.Apply(w, pebble.NoSync); err != nil {
		p.fatal(fmt.Errorf("store: apply: %w", err))
	}
}

// pacedFile is a table that a flush or a compaction writes.
type pacedFile struct {
	vfs.File
	pace     *pace
	category vfs.DiskWriteCategory
	began    time.Time
	filled   int64   // when it began
	written  float64 // bytes
}

func (p *pace) file(f vfs.File, c vfs.DiskWriteCategory) vfs.File {
	return &pacedFile{File: f, pace: p, category: c, began: time.Now(), filled: p.filled.Load()}
}

// Write writes, and waits until that much may be written.
func (f *pacedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.written += float64(n)
	for err == nil {
		if may, all := f.pace.may(f.category, time.Since(f.began), f.pace.filled.Load()-f.filled); all || f.written <= may {
			break
		}
		time.Sleep(paceStep)
	}
	return n, err
}
