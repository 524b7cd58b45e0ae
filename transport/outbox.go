package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// yieldBelow: with fewer queued bytes than this the writer lets others run
	// once before it takes the queue, so that their frames share the write.
	// Measured: 5 to 30 calls per write with 64 callers, p50 and CPU better.
	yieldBelow = 1000
	// writeChunk bounds what is encoded before it is written: the write
	// time-out counts per chunk, and memory stays small for a slow peer.
	writeChunk = 256 << 10
	// writePiece is what is written at a time, so that it is seen to move: at 32 KiB/s each
	// takes less than a ping may.
	writePiece = 64 << 10
	// maxNow is what [outbox.now] writes at most: it keeps its caller no longer
	// than that takes to copy.
	maxNow = 64 << 10
	// smallReply is up to which size replies have room beyond the limit of an
	// outbox, bytes, and 1/reserveShare of the limit is that room: it is for what says
	// how a write has ended, and for the errors in the place of what does not fit.
	smallReply   = 1 << 10
	reserveShare = 4
	// maxFlushes is to how many connections one goroutine writes in turn. A goroutine for each
	// costs more than the writes do (docs/archive/performance.md).
	maxFlushes = 8
)

// item is a frame on its way out.
type item struct {
	request uint64
	word    uint16 // method and flags
	millis  uint32 // deadline, 0: none
	size    int    // of the frame, estimated
	body    Body   // nil: empty
	call    *call  // client only, nil for a cancel
}

// outbox queues frames and writes them, many per write. Its writer goroutine
// exists only while there is something to write: an idle connection has
// neither a goroutine nor a buffer nor a queue for writing.
type outbox struct {
	nc        net.Conn
	pool      *buffers
	maxFrame  int
	maxFrames int
	maxBytes  int
	timeout   time.Duration
	errorBody func(error) Body // stands in for a body that cannot be sent; nil: nothing goes
	fail      func(error)      // closes the connection
	wrote     func(bytes int)  // client: bytes of calls that were written or withdrawn
	start     func()           // run, bound once: starting it allocates nothing
	sums      bool             // frames have sums
	direct    syscall.RawConn  // nil: what waits is written by the writer only
	budget    *budget          // of all connections of a server; nil: there is none
	over      func()           // it is used up; called without mu
	timed     bool             // the connection has a deadline for writes; whoever runs alone

	left     atomic.Int64 // bytes that were given to the connection
	bytes    atomic.Int64 // queued or being written; shrinks under mu
	inflight atomic.Int64 // server: requests handled, reply not written; shrinks under mu

	shared atomic.Int64 // what is taken of the budget; changes under mu

	mu      sync.Mutex // guards the fields below
	took    time.Time  // when something was last taken, while there is something in shared
	change  sync.Cond  // something shrank, or the writer stopped, or closed
	queue   *batch     // nil: empty
	frames  int        // queued or being written
	running bool       // a writer goroutine exists
	sealed  bool       // nothing more is accepted
	closed  bool       // nothing more is accepted or written
}

func (o *outbox) init() {
	o.change.L = &o.mu
	o.start = o.run
}

// push queues a frame and has it written. It never blocks. The error is
// ErrConnClosed or ErrSlowReader; then the frame was not taken.
func (o *outbox) push(it item) error { return o.enter(it.sized(o.sums), true, 0) }

// hold queues a frame as push does, for an [outbox.now] that follows.
func (o *outbox) hold(it item) error {
	it = it.sized(o.sums)
	if o.errorBody != nil && it.size <= smallReply {
		return o.enter(it, false, o.maxBytes/reserveShare)
	}
	return o.enter(it, false, 0)
}

// squeeze queues as hold does what is to say that there is no room.
func (o *outbox) squeeze(it item) error {
	return o.enter(it.sized(o.sums), false, o.maxBytes/reserveShare)
}

// sized is the item with its size.
func (it item) sized(sums bool) item {
	it.size = prefixBytes + deadlineBytes
	if sums {
		it.size += sumBytes
	}
	if it.body != nil {
		it.size += it.body.Size()
	}
	return it
}

// enter queues a frame; reserve is room beyond maxBytes that it may have.
func (o *outbox) enter(it item, write bool, reserve int) error {
	o.mu.Lock()
	if o.closed || o.sealed {
		o.mu.Unlock()
		return ErrConnClosed
	}
	// One frame always fits, however the limits are set.
	if o.frames > 0 && (o.frames >= o.maxFrames || int(o.bytes.Load())+it.size > o.maxBytes+reserve) {
		o.mu.Unlock()
		return ErrSlowReader
	}
	if o.queue == nil {
		o.queue = o.pool.getBatch()
	}
	o.queue.items = append(o.queue.items, it)
	o.frames++
	o.bytes.Add(int64(it.size))
	over := o.recount()
	starts := write && !o.running
	if starts {
		o.running = true
	}
	o.mu.Unlock()
	if starts {
		go o.start()
	}
	if over {
		o.over()
	}
	return nil
}

// socketOf gives a connection's socket; nil: it has none of its own. TLS writes
// other bytes than it is given.
func socketOf(nc net.Conn) syscall.RawConn {
	if c, ok := nc.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// now writes what is queued on the goroutine of the caller, as far as that does
// not block, and leaves the rest to the writer. Waking the writer up takes longer
// than the write does (docs/archive/performance.md).
func (o *outbox) now() {
	o.mu.Lock()
	if o.running || o.queue == nil || o.closed {
		o.mu.Unlock()
		return // the writer takes it, or nobody does any more
	}
	o.running = true
	if o.direct == nil || o.bytes.Load() > maxNow {
		o.mu.Unlock()
		go o.start()
		return
	}
	taken := o.queue
	o.queue = nil
	o.mu.Unlock()

	total := 0
	for i := range taken.items {
		total += taken.items[i].size
	}
	buf := o.pool.get(total)
	var c chunk
	for i := range taken.items {
		o.add(buf, &c, &taken.items[i])
	}
	o.pool.putBatch(taken)
	if n := o.try(buf.b); n < len(buf.b) {
		go o.finish(buf, n, c)
		return
	}
	o.account(buf, c)
	o.pool.put(buf)
	o.mu.Lock()
	more := o.queue != nil && !o.closed
	if !more {
		o.running = false
		o.change.Broadcast()
	}
	o.mu.Unlock()
	if more {
		go o.start()
	}
}

// later has the writer take what is queued.
func (o *outbox) later() {
	o.mu.Lock()
	starts := !o.running && o.queue != nil && !o.closed
	if starts {
		o.running = true
	}
	o.mu.Unlock()
	if starts {
		go o.start()
	}
}

// FlushAll flushes connections: up to [maxFlushes] on the goroutine of the caller, and as many
// on each further one. All is the caller's again when it returns.
func FlushAll[C interface {
	Flush()
}](all []C) {
	for len(all) > maxFlushes {
		some := slices.Clone(all[:maxFlushes])
		all = all[maxFlushes:]
		go flush(some)
	}
	flush(all)
}

func flush[C interface{ Flush() }](all []C) {
	for _, c := range all {
		c.Flush()
	}
}

// try writes as much as the connection takes at once, and tells how much.
func (o *outbox) try(b []byte) (n int) {
	if o.timed { // an old deadline that has passed would refuse it
		o.timed = false
		if o.nc.SetWriteDeadline(time.Time{}) != nil {
			return 0
		}
	}
	_ = o.direct.Write(func(fd uintptr) bool {
		n = writeNow(fd, b)
		return true
	})
	o.left.Add(int64(n))
	return n
}

// finish writes the rest of a buffer and goes on as the writer.
func (o *outbox) finish(buf *buffer, from int, c chunk) {
	if err := o.writeAll(buf.b[from:]); err != nil {
		o.fail(err)
	}
	o.account(buf, c)
	o.pool.put(buf)
	o.run()
}

// run is the writer goroutine: it takes the queue and writes it until there is
// nothing left.
func (o *outbox) run() {
	for {
		if o.bytes.Load() < yieldBelow {
			runtime.Gosched()
		}
		o.mu.Lock()
		if o.queue == nil || o.closed {
			o.running = false
			o.change.Broadcast()
			o.mu.Unlock()
			return
		}
		taken := o.queue
		o.queue = nil
		o.mu.Unlock()
		if done := o.write(taken.items); done < len(taken.items) {
			o.giveBack(taken, done)
		} else {
			o.pool.putBatch(taken)
		}
	}
}

// giveBack puts what was not written in front of what was queued since.
func (o *outbox) giveBack(taken *batch, done int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := &batch{items: append([]item(nil), taken.items[done:]...)}
	if o.queue != nil {
		rest.items = append(rest.items, o.queue.items...)
	}
	o.queue = rest
}

// write encodes and writes items in chunks. It returns how many of them were
// given to a write call or withdrawn; the rest surely never left.
func (o *outbox) write(items []item) (done int) {
	total := 0
	for i := range items {
		total += items[i].size
	}
	buf := o.pool.get(min(total, writeChunk))
	defer func() { o.pool.put(buf) }()

	var c chunk
	for i := range items {
		it := &items[i]
		if len(buf.b) > 0 && len(buf.b)+it.size > cap(buf.b) {
			if !o.flush(buf, c) {
				return done
			}
			done, c = i, chunk{}
		}
		if it.size > cap(buf.b) {
			o.pool.put(buf)
			buf = o.pool.get(it.size)
		}
		o.add(buf, &c, it)
	}
	if !o.flush(buf, c) {
		return done
	}
	return len(items)
}

// add encodes one frame into a chunk.
func (o *outbox) add(buf *buffer, c *chunk, it *item) {
	c.frames++
	c.bytes += it.size
	if it.call != nil {
		c.reserved += it.call.size // before begin: afterwards the call is its caller's
	}
	if it.call == nil || it.call.begin() {
		buf.b = o.encode(buf.b, it)
		if it.word&FlagResponse != 0 && it.request != 0 {
			c.replies++
		}
	}
	if pooled, ok := it.body.(*buffer); ok {
		it.body = nil
		o.pool.put(pooled)
	}
}

// encode appends one frame, or an error frame when its body cannot be sent.
func (o *outbox) encode(dst []byte, it *item) []byte {
	start := len(dst)
	out := appendPrefix(dst, it.request, it.word, it.millis, o.sums)
	var err error
	if it.body != nil {
		out, err = it.body.AppendTo(out)
	}
	size := len(out) - start - lengthBytes
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrEncode, err)
	case size > o.maxFrame:
		err = fmt.Errorf("%w: it has %d bytes, the limit of a frame is %d", ErrEncode, size, o.maxFrame)
	default:
		seal(out, start, o.sums)
		return out
	}
	if d, ok := it.body.(Droppable); ok {
		d.Dropped()   // an error goes in its place
		it.body = nil // should that not leave either, it was told
	}
	if o.errorBody == nil {
		return dst[:start]
	}
	out = appendPrefix(dst[:start], it.request, it.word|FlagError, 0, o.sums)
	if replaced, err := o.errorBody(err).AppendTo(out); err == nil {
		out = replaced
	}
	seal(out, start, o.sums)
	return out
}

// chunk counts what one write carries.
type chunk struct{ frames, bytes, replies, reserved int }

// flush gives buf to the connection and does the accounts. It reports false
// when the connection is closed already and nothing was tried.
func (o *outbox) flush(buf *buffer, c chunk) bool {
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	if closed {
		return false
	}
	if err := o.writeAll(buf.b); err != nil {
		o.fail(err)
	}
	o.account(buf, c)
	return true
}

// account ends a chunk that was given to the connection.
func (o *outbox) account(buf *buffer, c chunk) {
	buf.b = buf.b[:0]
	o.mu.Lock()
	o.frames -= c.frames
	o.bytes.Add(-int64(c.bytes))
	o.recount()
	o.inflight.Add(-int64(c.replies))
	o.change.Broadcast()
	o.mu.Unlock()
	if o.wrote != nil && c.reserved > 0 {
		o.wrote(c.reserved)
	}
}

func (o *outbox) writeAll(b []byte) error {
	until := 0
	for done := 0; done < len(b); {
		if done >= until {
			until = done + writeChunk
			o.timed = true
			if err := o.nc.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
				return err
			}
		}
		n, err := o.nc.Write(b[done:min(len(b), done+writePiece)])
		o.left.Add(int64(n))
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("%w: a write took longer than %v", ErrSlowReader, o.timeout)
			}
			return err
		}
		done += n
	}
	return nil
}

// close stops the outbox: nothing more is accepted, and at most the write in
// progress is finished. It reports whether it was open.
func (o *outbox) close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := !o.closed
	o.closed = true
	o.recount()
	o.change.Broadcast()
	return was
}

// waitUntil blocks until ready, which is called with mu held, or until closed.
func (o *outbox) waitUntil(ready func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && !ready() {
		o.change.Wait()
	}
}

// drain waits for the writer of a closed outbox to stop and returns what never
// reached a write call, in order.
func (o *outbox) drain() []item {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.running {
		o.change.Wait()
	}
	if o.queue == nil {
		return nil
	}
	rest := o.queue.items
	o.queue = nil
	return rest
}
