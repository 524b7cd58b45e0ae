package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// busyBuffer is the read buffer of a busy connection, idleBuffer (the
	// smallest class) that of a quiet one.
	busyBuffer = 64 << 10
	idleBuffer = smallestBuffer
	// shrinkAfter is how long a connection is quiet, or has small frames alone, before
	// it gets the small buffer back.
	shrinkAfter = 10 * time.Second
	// frameStep is how much of a frame must come in each frameTimeout, unless it is done
	// before: on a slow line the last byte of a large one may take many times as long.
	frameStep = 512 << 10
	// skipFactor: a frame up to this many times the limit is read past and
	// refused alone; what is larger is no frame of ours.
	skipFactor = 4
)

// errStopped is returned when reading was told to stop.
var errStopped = errors.New("transport: reading stopped")

// frameReader reads frames with a buffer that grows as bytes arrive, never
// because of what a length promises. Its time-outs are lazy: a deadline that is
// early enough is left alone and looked at when it fires.
type frameReader struct {
	src          net.Conn
	input        io.Reader // what src is read by; nil: nothing was read yet
	before       []byte    // what was read of src before, and is not in buf yet
	pool         *buffers
	budget       *budget               // of large buffers; nil: no limit
	relieve      func(n int) (ok bool) // gets so many bytes of it from others, where it has none; nil: nobody does
	maxFrame     int
	sums         bool // frames have sums
	frameTimeout time.Duration
	idleTimeout  time.Duration // 0: none
	firstBy      time.Time     // end of the first frame; zero: it came, or none is due
	moving       func()        // hears that bytes of an unfinished frame have come; nil: nobody does

	came  atomic.Int64 // bytes, all that were read
	whole atomic.Int64 // bytes of the unfinished frame, 0: there is none, or its length is not known
	ends  atomic.Int64 // what came will be when it is finished

	buf      *buffer
	from, to int       // the unread part of buf
	charged  int       // bytes of buf that the budget has given
	large    large     // what others may know of that
	skip     int64     // bytes of a refused frame still to come
	grow     bool      // the last read filled the buffer
	partial  time.Time // when the unfinished frame was first seen, or had brought another frameStep; zero: none
	stepped  int64     // what had come then
	quiet    time.Time // when the wait for the next frame began
	needed   time.Time // when more than the small buffer was last needed
	armed    time.Time // the deadline set on src; zero: none

	mu      sync.Mutex  // orders deadlines against stop
	stopped atomic.Bool // written under mu
}

// stop makes the current and all later fills return errStopped.
func (r *frameReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped.Store(true)
	_ = r.src.SetReadDeadline(time.Unix(1, 0)) // an error means that src is closed: reads return anyway
}

// buffered is what is read and not parsed.
func (r *frameReader) buffered() []byte {
	if r.buf == nil {
		return nil
	}
	return r.buf.b[r.from:r.to]
}

// next parses one buffered frame; ok is false when more bytes are needed. With
// ErrFrameTooLarge and ErrCrowded the frame's head is returned; when it is
// skippable, reading can go on.
func (r *frameReader) next() (f Frame, ok bool, err error) {
	if r.skip > 0 {
		n := min(r.skip, int64(r.to-r.from))
		r.from += int(n)
		if r.skip -= n; r.skip > 0 {
			return Frame{}, false, nil
		}
		r.finished()
	}
	b := r.buffered()
	f, n, err := parseFrame(b, r.maxFrame, r.sums)
	if err != nil {
		if errors.Is(err, ErrFrameTooLarge) {
			r.refuse(b)
		}
		return f, false, err
	}
	if n == 0 {
		return r.unfinished(b)
	}
	r.from += n
	r.finished()
	r.firstBy = time.Time{}
	return f, true, nil
}

// finished notes that no frame is begun.
func (r *frameReader) finished() {
	r.partial = time.Time{}
	if r.whole.Load() != 0 {
		r.whole.Store(0)
	}
}

// begun notes that a frame is unfinished now, of so many bytes in all as far as that is known.
func (r *frameReader) begun(now time.Time, size int64) {
	came := r.came.Load()
	if r.partial.IsZero() || came-r.stepped >= frameStep {
		r.partial, r.stepped = now, came
	}
	if r.skip == 0 && size > prefixBytes && r.whole.Load() == 0 {
		r.ends.Store(came - int64(r.to-r.from) + size)
		r.whole.Store(size)
	}
}

// arriving is how much has come of the frame that is unfinished, in bytes, and how large it
// is; 0, 0: there is none. For any goroutine: while the frame ends it may be wrong.
func (r *frameReader) arriving() (have, whole int64) {
	whole = r.whole.Load()
	if whole == 0 {
		return 0, 0
	}
	return min(max(0, whole-(r.ends.Load()-r.came.Load())), whole), whole
}

// unfinished is next for the part b of a frame. When a large buffer would be
// needed for the rest and the budget has none, the frame is refused.
func (r *frameReader) unfinished(b []byte) (f Frame, ok bool, err error) {
	if r.buf == nil || len(b) < cap(r.buf.b) || len(b) < busyBuffer {
		return Frame{}, false, nil // there is room, or little of it is needed
	}
	more := room(r.growth()) - busyBuffer - r.charged
	if more <= 0 {
		return Frame{}, false, nil
	}
	if r.budget.take(more) || r.relieve != nil && r.relieve(more) {
		r.charged += more
		r.large.take(more)
		return Frame{}, false, nil
	}
	word := binary.BigEndian.Uint16(b[12:])
	f = Frame{Request: binary.BigEndian.Uint64(b[4:]), Method: word & MethodMask, Flags: word &^ MethodMask}
	r.refuse(b)
	return f, false, ErrCrowded
}

// growth is the size of the next buffer when this one is full.
func (r *frameReader) growth() int { return min(cap(r.buf.b)<<2, r.wanted()) }

// refuse marks the oversize frame at the beginning of b as to be skipped.
func (r *frameReader) refuse(b []byte) {
	length := int64(binary.BigEndian.Uint32(b))
	if length > skipFactor*int64(r.maxFrame) {
		return
	}
	r.skip = lengthBytes + length
	if r.partial.IsZero() {
		r.partial, r.stepped = time.Now(), r.came.Load()
	}
}

// skippable says whether the frame refused last can be read past.
func (r *frameReader) skippable() bool { return r.skip > 0 }

// fill blocks for at least one byte. Errors: errStopped, a time-out of this
// package, io.EOF between frames, io.ErrUnexpectedEOF within one, or the
// connection's.
func (r *frameReader) fill() error {
	if r.input == nil {
		r.input = inputOf(r.src)
	}
	r.prepare()
	for {
		if err := r.arm(); err != nil {
			return err
		}
		n, err := r.read(r.buf.b[r.to:cap(r.buf.b)])
		if n > 0 {
			if r.charged > 0 {
				r.large.moved.Store(time.Now().UnixNano())
			}
			r.to += n
			r.came.Add(int64(n))
			if r.moving != nil && !r.partial.IsZero() {
				r.moving()
			}
			r.grow = r.to == cap(r.buf.b)
			return nil
		}
		switch {
		case err == nil:
		case r.stopped.Load():
			return errStopped
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.armed = time.Time{}
			if err := r.expired(time.Now()); err != nil {
				return err
			}
		case errors.Is(err, io.EOF) && (r.from < r.to || r.skip > 0):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}

// read gives what was read before, then what comes.
func (r *frameReader) read(b []byte) (int, error) {
	if len(r.before) > 0 {
		n := copy(b, r.before)
		r.before = r.before[n:]
		return n, nil
	}
	return r.input.Read(b)
}

// prepare makes room in the buffer.
func (r *frameReader) prepare() {
	now := time.Now()
	r.quiet = now
	if r.buf == nil {
		r.resize(idleBuffer)
	}
	if r.to > idleBuffer {
		r.needed = now
	}
	if r.from == r.to {
		r.from, r.to = 0, 0
		if r.skip > 0 {
			r.begun(now, 0)
		}
		switch {
		case cap(r.buf.b) > busyBuffer:
			r.resize(busyBuffer)
		case r.grow && cap(r.buf.b) < busyBuffer:
			r.resize(cap(r.buf.b) << 2)
			r.needed = now
		case cap(r.buf.b) > idleBuffer && now.Sub(r.needed) >= shrinkAfter:
			r.resize(idleBuffer)
		}
		r.grow = false
		return
	}
	whole := r.wanted()
	r.begun(now, int64(whole))
	if r.grow && cap(r.buf.b) < busyBuffer {
		whole = max(whole, cap(r.buf.b)+1)
	}
	r.grow = false
	switch have := cap(r.buf.b); {
	case r.to-r.from == have || (whole > have && have < busyBuffer):
		r.resize(min(have<<2, whole)) // growth, where it is charged
	case r.from > 0 && whole > have-r.from:
		r.to = copy(r.buf.b[:have], r.buf.b[r.from:r.to])
		r.from = 0
	}
}

// wanted is the size of the frame that is begun, as far as it is known.
func (r *frameReader) wanted() int {
	b := r.buffered()
	if len(b) < lengthBytes {
		return prefixBytes
	}
	return lengthBytes + int(binary.BigEndian.Uint32(b))
}

// resize moves the unread part to the front of a buffer with room for n bytes.
func (r *frameReader) resize(n int) {
	next := r.pool.get(n)
	kept := 0
	if r.buf != nil {
		kept = copy(next.b[:cap(next.b)], r.buffered())
		r.pool.put(r.buf)
	}
	r.buf, r.from, r.to = next, 0, kept
	r.discharge(max(0, cap(next.b)-busyBuffer))
}

// discharge gives back what is charged beyond n bytes.
func (r *frameReader) discharge(n int) {
	if n < r.charged {
		r.budget.give(r.large.give(r.charged - n))
		r.charged = n
	}
}

// release gives the buffer back.
func (r *frameReader) release() {
	if r.buf != nil {
		r.pool.put(r.buf)
	}
	r.buf, r.from, r.to = nil, 0, 0
	r.discharge(0)
}

// due is when the wait that begins now must end, zero for never.
func (r *frameReader) due() time.Time {
	switch {
	case !r.firstBy.IsZero():
		return r.firstBy
	case !r.partial.IsZero():
		return r.partial.Add(r.frameTimeout)
	case cap(r.buf.b) > idleBuffer && (r.idleTimeout == 0 || r.idleTimeout > shrinkAfter):
		return r.quiet.Add(shrinkAfter)
	case r.idleTimeout > 0:
		return r.quiet.Add(r.idleTimeout)
	}
	return time.Time{}
}

// arm sets the deadline for the coming read, unless an earlier one is set.
func (r *frameReader) arm() error {
	if r.stopped.Load() {
		return errStopped
	}
	due := r.due()
	if due.IsZero() || (!r.armed.IsZero() && !due.Before(r.armed)) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.Load() {
		return errStopped
	}
	r.armed = due
	return r.src.SetReadDeadline(due)
}

// tooSlow is the end of a frame that does not come.
func (r *frameReader) tooSlow() error {
	if have, whole := r.arriving(); whole > 0 {
		return fmt.Errorf("%w: %d of its %d bytes have come, %d of them in the last %v", ErrFrameTimeout, have, whole, min(r.came.Load()-r.stepped, have), r.frameTimeout)
	}
	return ErrFrameTimeout
}

// expired decides what a fired deadline means: nothing, a smaller buffer, or
// the end.
func (r *frameReader) expired(now time.Time) error {
	due := r.due()
	if due.IsZero() || now.Before(due) {
		// The deadline was of an earlier wait; one that fired must go.
		if due.IsZero() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !r.stopped.Load() {
				return r.src.SetReadDeadline(time.Time{})
			}
		}
		return nil
	}
	switch {
	case !r.firstBy.IsZero():
		return ErrHelloTimeout
	case !r.partial.IsZero():
		return r.tooSlow()
	case r.idleTimeout > 0 && !now.Before(r.quiet.Add(r.idleTimeout)):
		return ErrIdleTimeout
	}
	r.resize(idleBuffer)
	if r.idleTimeout == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.stopped.Load() {
			return r.src.SetReadDeadline(time.Time{})
		}
	}
	return nil
}
