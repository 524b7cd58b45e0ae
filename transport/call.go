package transport

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// States of a call. Only the writer makes it sent, only its caller withdrawn.
const (
	callQueued int32 = iota
	callSent
	callWithdrawn
)

// call is one open request of a client.
type call struct {
	id     uint64
	decode func(flags uint16, body []byte) error
	size   int // reserved in the outbox
	state  atomic.Int32
	done   chan error // room for one
}

// begin says whether the request shall be written; from then on it may have
// been sent.
func (k *call) begin() bool { return k.state.CompareAndSwap(callQueued, callSent) }

func (k *call) finish(err error) { k.done <- err }

// waiter is a caller without a slot. ready is closed when it got one or when
// the connection ended.
type waiter struct {
	size    int
	ready   chan struct{}
	granted bool
}

// Call sends a request and blocks until its answer came. decode gets the
// answer's flags (FlagError says that the body is an error) and its body, which
// is only valid during the call; it runs on the reader goroutine, must be
// quick, and its error is returned as it is. Call returns a [*CallError] when
// there is no answer: ctx ended (the server is told), the connection died, or
// body is over the frame limit. ctx's deadline travels with the request.
// body may be used again when Call has returned.
func (c *Client) Call(ctx context.Context, method uint16, body Body, decode func(flags uint16, body []byte) error) error {
	return c.call(ctx, method, body, decode, c.admit)
}

// CallNow is Call for a request that must not wait for others: one that asks whether the
// server lives, which as many silent calls as may be open would keep from being sent. It
// needs no slot, so leave it one (see SetMaxInFlight), and make one such call at a time.
func (c *Client) CallNow(ctx context.Context, method uint16, body Body, decode func(flags uint16, body []byte) error) error {
	return c.call(ctx, method, body, decode, c.admitNow)
}

func (c *Client) call(ctx context.Context, method uint16, body Body, decode func(flags uint16, body []byte) error, admit func(context.Context, *call) error) error {
	k, _ := c.calls.Get().(*call)
	if k == nil {
		k = &call{done: make(chan error, 1)}
	}
	k.decode = decode
	k.state.Store(callQueued)
	k.size = prefixBytes + deadlineBytes
	if body != nil {
		k.size += body.Size()
	}
	if err := admit(ctx, k); err != nil {
		return &CallError{Err: err}
	}
	if err := c.send(ctx, k, method, body); err != nil {
		c.remove(k)
		return &CallError{Err: err}
	}
	select {
	case err := <-k.done:
		return c.returned(k, err)
	case <-ctx.Done():
		return c.giveUp(ctx, k)
	}
}

// returned recycles a call that no one else refers to. One that was never sent
// may still be in the outbox.
func (c *Client) returned(k *call, err error) error {
	if k.state.Load() == callSent {
		k.decode = nil
		c.calls.Put(k)
	}
	return err
}

// send encodes body on the caller's goroutine, so that the caller keeps it,
// and queues the frame.
func (c *Client) send(ctx context.Context, k *call, method uint16, body Body) error {
	it := item{request: k.id, word: method & MethodMask, call: k}
	if deadline, ok := ctx.Deadline(); ok {
		it.millis = deadlineMillis(max(time.Until(deadline), time.Nanosecond))
	}
	if body != nil {
		buf := c.pool.get(k.size)
		encoded, err := body.AppendTo(buf.b)
		if err != nil {
			c.pool.put(buf)
			return fmt.Errorf("%w: %w", ErrEncode, err)
		}
		buf.b = encoded
		if size := headBytes + deadlineBytes + len(encoded); size > c.cfg.MaxFrame {
			c.pool.put(buf)
			return fmt.Errorf("%w: the request has %d bytes, the limit is %d", ErrFrameTooLarge, size, c.cfg.MaxFrame)
		}
		it.body = buf
	}
	// An error means that the connection ended: the reader finishes the call.
	_ = c.out.push(it)
	return nil
}

// admit waits for a slot and opens the request.
func (c *Client) admit(ctx context.Context, k *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	if len(c.waiting) == 0 && c.room(k.size) {
		defer c.mu.Unlock()
		c.take(k.size)
		return c.register(k)
	}
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	w := &waiter{size: k.size, ready: make(chan struct{})}
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		return c.register(k)
	case w.granted:
		c.slots--
		c.reserved -= w.size
		c.grant()
	default:
		c.forget(w)
	}
	return err
}

// admitNow opens the request whether there is a slot or not.
func (c *Client) admitNow(ctx context.Context, k *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(k.size)
	return c.register(k)
}

// register gives a call its id; mu is held and a slot taken.
func (c *Client) register(k *call) error {
	if c.err != nil {
		return c.err
	}
	c.lastID++
	k.id = c.lastID
	c.open[k.id] = k
	return nil
}

func (c *Client) forget(w *waiter) {
	for i, other := range c.waiting {
		if other == w {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			return
		}
	}
}

// room says whether one more request of so many bytes may be opened; mu is
// held. One always fits an empty outbox.
func (c *Client) room(size int) bool {
	return c.slots < c.limit && (c.reserved == 0 || c.reserved+size <= c.cfg.MaxOutboxBytes)
}

// take reserves a slot and bytes of the outbox; mu is held. The writer gives
// the bytes back, the answer the slot.
func (c *Client) take(size int) {
	c.slots++
	c.reserved += size
}

// grant gives free slots to those who wait longest; mu is held.
func (c *Client) grant() {
	for len(c.waiting) > 0 && c.room(c.waiting[0].size) {
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.take(w.size)
		w.granted = true
		close(w.ready)
	}
}

// remove closes a request that was never queued.
func (c *Client) remove(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[k.id]; ok {
		delete(c.open, k.id)
		c.slots--
		c.reserved -= k.size
		c.grant()
	}
}

// giveUp ends a call whose context ended. A request that may have been sent
// keeps its slot until the server's answer comes: so the server's count of
// open requests never goes past the limit either.
func (c *Client) giveUp(ctx context.Context, k *call) error {
	c.mu.Lock()
	if c.open[k.id] != k {
		// The reader has the answer in its hands.
		c.mu.Unlock()
		return c.returned(k, <-k.done)
	}
	if k.state.CompareAndSwap(callQueued, callWithdrawn) {
		delete(c.open, k.id)
		c.slots--
		c.grant()
		c.mu.Unlock()
		return &CallError{Err: ctx.Err()}
	}
	c.open[k.id] = nil
	c.mu.Unlock()
	_ = c.out.push(item{request: k.id, word: FlagCancel}) // the connection may have ended; then no one needs it
	return &CallError{Sent: true, Err: ctx.Err()}
}

// deliver gives an answer to its call. refused is set when the answer was too
// large to be read. The error ends the connection.
func (c *Client) deliver(f Frame, refused error) error {
	if f.Request == 0 && f.Flags&FlagError != 0 {
		return c.refusal(f.Body)
	}
	c.mu.Lock()
	k, ok := c.open[f.Request]
	if !ok || f.Flags&FlagResponse == 0 || (k != nil && k.state.Load() != callSent) {
		c.mu.Unlock()
		return fmt.Errorf("%w: an answer without a request (id %d)", ErrMalformed, f.Request)
	}
	delete(c.open, f.Request)
	c.slots--
	if len(c.waiting) > 0 {
		c.grant()
	}
	c.mu.Unlock()
	if k == nil {
		return nil
	}
	switch {
	case refused != nil:
		k.finish(&CallError{Sent: true, Err: refused})
	case k.decode != nil:
		k.finish(k.decode(f.Flags, f.Body))
	case f.Flags&FlagError != 0:
		k.finish(ErrRemote)
	default:
		k.finish(nil)
	}
	return nil
}

// refusal is the reason of a connection that the server refused as a whole.
func (c *Client) refusal(body []byte) error {
	if c.cfg.DecodeError != nil {
		if err := c.cfg.DecodeError(body); err != nil {
			return err
		}
	}
	const most = 1 << 10 // of a text no one asked for
	return fmt.Errorf("%w: %q", ErrRemote, body[:min(len(body), most)])
}
