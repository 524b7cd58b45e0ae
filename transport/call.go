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
	method uint16
	class  Class
	decode func(flags uint16, body []byte) error
	size   int  // reserved in the outbox
	alone  bool // at most one short request was open then: the frame has no other one to share a write with
	state  atomic.Int32
	done   chan error // room for one
}

// begin says whether the request shall be written; from then on it may have
// been sent.
func (k *call) begin() bool { return k.state.CompareAndSwap(callQueued, callSent) }

func (k *call) finish(err error) { k.done <- err }

// Call sends a request and blocks until its answer came. decode gets the
// answer's flags (FlagError says that the body is an error) and its body, which
// is only valid during the call; it runs on the reader goroutine, must be
// quick, and its error is returned as it is. Call returns a [*CallError] when
// there is no answer: ctx ended (the server is told), the connection died, or
// body is over the frame limit. ctx's deadline travels with the request.
// body may be used again when Call has returned.
func (c *Client) Call(ctx context.Context, method uint16, body Body, decode func(flags uint16, body []byte) error) error {
	return c.call(ctx, Short, method, body, decode, c.admit)
}

// CallAs is Call for a request of another class than [Short].
func (c *Client) CallAs(ctx context.Context, class Class, method uint16, body Body, decode func(flags uint16, body []byte) error) error {
	return c.call(ctx, min(class, Urgent), method, body, decode, c.admit)
}

// CallNow is Call for a request that must not wait for others: one that asks whether the
// server lives, which as many silent calls as may be open would keep from being sent. It
// needs no place, so leave it one (see SetMaxInFlight), and make one such call at a time.
func (c *Client) CallNow(ctx context.Context, method uint16, body Body, decode func(flags uint16, body []byte) error) error {
	return c.call(ctx, Urgent, method, body, decode, c.admitNow)
}

func (c *Client) call(ctx context.Context, class Class, method uint16, body Body, decode func(flags uint16, body []byte) error, admit func(context.Context, *call) error) error {
	k, _ := c.calls.Get().(*call)
	if k == nil {
		k = &call{done: make(chan error, 1)}
	}
	k.method, k.class, k.decode = method&MethodMask, class, decode
	k.state.Store(callQueued)
	k.size = prefixBytes + deadlineBytes
	if body != nil {
		k.size += body.Size()
	}
	if err := admit(ctx, k); err != nil {
		return &CallError{Err: err}
	}
	if err := c.send(ctx, k, body); err != nil {
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
func (c *Client) send(ctx context.Context, k *call, body Body) error {
	it := item{request: k.id, word: k.method, call: k}
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
	if !k.alone {
		_ = c.out.push(it)
	} else if c.out.hold(it) == nil {
		c.out.now()
	}
	return nil
}

// register gives a call its id; mu is held and a place taken.
func (c *Client) register(k *call) error {
	if c.err != nil {
		return c.err
	}
	c.lastID++
	k.id, k.alone = c.lastID, c.slots-c.longs <= 1
	c.open[k.id] = opened{k, k.method, k.class}
	return nil
}

// remove closes a request that was never queued.
func (c *Client) remove(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[k.id]; ok {
		delete(c.open, k.id)
		c.reserved -= k.size
		c.free(k.class)
	}
}

// giveUp ends a call whose context ended. A request that may have been sent
// keeps its place until the server's answer comes: so the server's count of
// open requests never goes past the limit either.
func (c *Client) giveUp(ctx context.Context, k *call) error {
	c.mu.Lock()
	if c.open[k.id].call != k {
		// The reader has the answer in its hands.
		c.mu.Unlock()
		return c.returned(k, <-k.done)
	}
	if k.state.CompareAndSwap(callQueued, callWithdrawn) {
		delete(c.open, k.id)
		c.free(k.class)
		c.mu.Unlock()
		return &CallError{Err: ctx.Err()}
	}
	c.open[k.id] = opened{nil, k.method, k.class}
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
	o, ok := c.open[f.Request]
	k := o.call
	if !ok || f.Flags&FlagResponse == 0 || (k != nil && k.state.Load() != callSent) {
		c.mu.Unlock()
		return fmt.Errorf("%w: an answer without a request (id %d)", ErrMalformed, f.Request)
	}
	if f.Method != o.method {
		c.mu.Unlock()
		return fmt.Errorf("%w: an answer of method %d to request %d of method %d", ErrMalformed, f.Method, f.Request, o.method)
	}
	delete(c.open, f.Request)
	c.free(o.class)
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
