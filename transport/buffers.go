package transport

import (
	"sync"
	"sync/atomic"
)

// Buffers come in classes of 1 KiB, 4 KiB, … 16 MiB. What is larger is made
// for its frame and left to the garbage collector.
const (
	smallestBuffer = 1 << 10
	classCount     = 8
)

type buffer struct{ b []byte }

// buffers lends buffers by size class. Pools hold pointers, so that giving
// back does not allocate.
type buffers struct {
	classes [classCount]sync.Pool // of *buffer
	batches sync.Pool             // of *batch
}

// get returns a buffer of length 0 and room for n bytes.
func (p *buffers) get(n int) *buffer {
	size := smallestBuffer
	for class := range p.classes {
		if n <= size {
			if b, ok := p.classes[class].Get().(*buffer); ok {
				b.b = b.b[:0]
				return b
			}
			return &buffer{b: make([]byte, 0, size)}
		}
		size <<= 2
	}
	return &buffer{b: make([]byte, 0, n)}
}

// room is how many bytes the buffer that get returns has.
func room(n int) int {
	size := smallestBuffer
	for range classCount {
		if n <= size {
			return size
		}
		size <<= 2
	}
	return n
}

// budget bounds the memory that all connections of a server hold together, beyond
// what is ordinary for each: frames that are being read, or replies that wait to be
// taken, may each be within the limit of their connection and too much together.
type budget struct {
	limit int64
	taken atomic.Int64
}

// take reserves n bytes. A nil budget has no limit, and an untouched one room
// for anything.
func (b *budget) take(n int) bool {
	if b == nil {
		return true
	}
	if now := b.taken.Add(int64(n)); now > b.limit && now > int64(n) {
		b.taken.Add(-int64(n))
		return false
	}
	return true
}

// move reserves n bytes whether there is room for them or not, or gives back -n. It
// tells whether more is taken than there is.
func (b *budget) move(n int) (over bool) { return b.taken.Add(int64(n)) > b.limit }

// give takes back what was reserved.
func (b *budget) give(n int) {
	if b != nil {
		b.taken.Add(-int64(n))
	}
}

// put takes a buffer back. Nobody may use it afterwards.
func (p *buffers) put(b *buffer) {
	size := smallestBuffer
	for class := range p.classes {
		if cap(b.b) == size {
			p.classes[class].Put(b)
			return
		}
		size <<= 2
	}
}

// Size and AppendTo make a pooled buffer a Body; the writer gives it back once
// it is encoded.
func (b *buffer) Size() int { return len(b.b) }

func (b *buffer) AppendTo(dst []byte) ([]byte, error) { return append(dst, b.b...), nil }

// batch is a queue of frames, pooled so that an idle connection has none.
type batch struct{ items []item }

// keepBatch is the longest batch kept for reuse, in frames.
const keepBatch = 4096

func (p *buffers) getBatch() *batch {
	if b, ok := p.batches.Get().(*batch); ok {
		return b
	}
	return &batch{items: make([]item, 0, 16)}
}

func (p *buffers) putBatch(b *batch) {
	if cap(b.items) > keepBatch {
		return
	}
	clear(b.items)
	b.items = b.items[:0]
	p.batches.Put(b)
}
