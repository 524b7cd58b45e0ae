package transport

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// lingerTimeout is how long a finished connection waits for the peer to close
// too. Closing at once would reset the connection and could destroy replies
// that the peer has not read yet.
const lingerTimeout = time.Second

// Conn is one connection of a [Server]. Its methods may be called from any
// goroutine.
type Conn struct {
	id         uint64
	srv        *Server
	raw        net.Conn // what was accepted
	nc         net.Conn // raw, or TLS over it
	out        outbox
	in         frameReader
	opened     bool          // Open was called; reader goroutine only
	heard      bool          // a frame has come; reader goroutine only
	helloBy    time.Time     // end of the first frame
	silent     *list.Element // in the server's list, whose lock guards it; nil: it is not there
	attachment atomic.Pointer[any]
	cause      atomic.Pointer[error] // why it ends; the first one wins
	finish     atomic.Int32          // finishNot, finishQueued or finishReplies
}

// How a connection ends, other than at once.
const (
	finishNot     = iota
	finishQueued  // flush what is queued, then close
	finishReplies // wait for the replies of what was handled, then close
)

// ID is the number of the connection, unique in its server.
func (c *Conn) ID() uint64 { return c.id }

// RemoteAddr is the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// TLS is the state of the TLS connection, nil on a plain one. Valid from Open on.
func (c *Conn) TLS() *tls.ConnectionState {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	state := t.ConnectionState()
	return &state
}

// SetAttachment keeps a value with the connection.
func (c *Conn) SetAttachment(v any) { c.attachment.Store(&v) }

// Attachment is the value of SetAttachment, or nil.
func (c *Conn) Attachment() any {
	if v := c.attachment.Load(); v != nil {
		return *v
	}
	return nil
}

// SetMaxFrame bounds the frames that are read from now on, in bytes after the
// length field. For calls from within the [Handler]'s methods: a server can
// give a peer that has not said who it is less room.
func (c *Conn) SetMaxFrame(n int) { c.in.maxFrame = n }

// Unheard has the connection count as one that has sent nothing yet, for its hello time-out
// and among those that give way. For calls from within the [Handler]'s Handle: the frame said
// nothing about who the peer is.
func (c *Conn) Unheard() {
	c.in.firstBy, c.heard = c.helloBy, false
	c.srv.unheard(c)
}

// Reply queues the reply to a request and never blocks. Of flags only FlagError
// counts; FlagResponse is added. Replies leave in the order of the calls; b is
// encoded later, on the writer goroutine, and must not change. false means that
// the connection is closed and surely nothing was written. Exactly one of
// these comes to pass: Reply returns false; b is given to a write call; b's
// Dropped method (see [Droppable]) is called.
//
// A body over the frame limit, one that fails to encode, or one for which the
// outbox has no room, is replaced by an error frame; small ones have some room of
// their own. Where that does not fit either, the connection is closed with
// [ErrSlowReader].
func (c *Conn) Reply(request uint64, method uint16, flags uint16, b Body) bool {
	ok := c.HoldReply(request, method, flags, b)
	c.out.later()
	return ok
}

// HoldReply is a Reply that may wait for a Flush or FlushLater, which must follow:
// replies to one connection then leave in one write.
func (c *Conn) HoldReply(request uint64, method uint16, flags uint16, b Body) bool {
	it := item{request: request, word: method&MethodMask | flags&FlagError | FlagResponse, body: b}
	err := c.out.hold(it)
	if errors.Is(err, ErrSlowReader) {
		// What a client has asked for within its credit may be more than fits: that
		// costs this answer, and not whatever else it has open.
		it.word, it.body = it.word|FlagError, c.srv.cfg.ErrorBody(ErrBacklog)
		if err = c.out.squeeze(it); err == nil {
			if d, ok := b.(Droppable); ok {
				d.Dropped()
			}
		}
	}
	if errors.Is(err, ErrSlowReader) {
		c.Close(fmt.Errorf("%w: its outbox is full", ErrSlowReader))
	}
	return err == nil
}

// Flush encodes and writes what is queued, on the goroutine of the caller as far
// as the connection takes it at once, else on another one. It never blocks.
func (c *Conn) Flush() { c.out.now() }

// FlushLater has what is queued encoded and written on another goroutine.
func (c *Conn) FlushLater() { c.out.later() }

// Close closes the connection at once; err is what Closed will see, nil means
// ErrConnClosed. Queued replies are dropped. It never blocks.
func (c *Conn) Close(err error) {
	if err == nil {
		err = ErrConnClosed
	}
	c.cause.CompareAndSwap(nil, &err)
	if c.out.close() {
		// The raw connection: closing TLS may block for its farewell.
		_ = c.raw.Close()
	}
}

// Finish stops reading, lets the replies that are queued leave, and closes the
// connection then. It does not wait for that; from some moment on Reply returns
// false. For a refusal the peer should still read.
func (c *Conn) Finish(err error) { c.end(finishQueued, err) }

func (c *Conn) end(how int32, err error) {
	c.cause.CompareAndSwap(nil, &err)
	if !c.finish.CompareAndSwap(finishNot, how) && how == finishQueued {
		c.finish.Store(finishQueued)
	}
	c.in.stop()
	c.out.mu.Lock()
	c.out.change.Broadcast()
	c.out.mu.Unlock()
}

// serve is the reader goroutine.
func (c *Conn) serve(ctx context.Context) {
	err := c.handshake(ctx)
	if err == nil {
		c.opened = true
		c.srv.handler.Open(c)
		err = c.read()
	}
	if errors.Is(err, errStopped) {
		c.flushAndLinger()
		err = nil
	}
	c.Close(err)
	for _, it := range c.out.drain() {
		if d, ok := it.body.(Droppable); ok {
			d.Dropped()
		}
	}
	c.in.release()
	cause := *c.cause.Load()
	c.srv.cfg.Logger.Debug("client.closed", "conn", c.id, "remote", c.RemoteAddr().String(), "reason", cause)
	if c.opened {
		c.srv.handler.Closed(c, cause)
	}
}

// handshake does TLS, within the hello time-out.
func (c *Conn) handshake(ctx context.Context) error {
	c.helloBy = time.Now().Add(c.srv.cfg.HelloTimeout)
	c.in.firstBy = c.helloBy
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithDeadlineCause(ctx, c.in.firstBy, ErrHelloTimeout)
	defer cancel()
	err := t.HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &plain) && plain.Conn != nil:
		if BeginsProxied(plain.RecordHeader[:]) {
			err = c.proxied()
			c.srv.sayRefused(c, err)
		}
		answerPlain(c.raw, plain.RecordHeader[:], c.srv.cfg.WriteTimeout)
		return fmt.Errorf("%w: %w", ErrPeerNoTLS, err)
	}
	if c.srv.cfg.Unshaken != nil {
		c.srv.cfg.Unshaken(c.RemoteAddr(), err)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}

// read handles frames until the connection ends.
func (c *Conn) read() error {
	first := true
	for {
		if first && len(c.in.buffered()) >= sniffBytes {
			first = false
			if err := c.sniff(c.in.buffered()); err != nil {
				return err
			}
		}
		if !first {
			if err := c.handleBuffered(); err != nil {
				return err
			}
		}
		if err := c.in.fill(); err != nil {
			return err
		}
	}
}

// handleBuffered handles the frames that are read already, then calls Batch.
func (c *Conn) handleBuffered() error {
	pending := false // frames handled since the last Batch
	defer func() {
		if pending {
			c.srv.handler.Batch(c)
		}
	}()
	for !c.ending() {
		f, ok, err := c.in.next()
		switch {
		case err != nil:
			if err = c.refuse(f, err); err != nil {
				return err
			}
			continue
		case !ok:
			return nil
		case f.Flags&FlagCancel != 0:
			c.srv.handler.Cancel(c, f.Request)
			continue
		case f.Flags&FlagResponse != 0 || f.Request == 0:
			return c.refuse(f, fmt.Errorf("%w: not a request", ErrMalformed))
		}
		if c.crowded() {
			if pending {
				pending = false
				c.srv.handler.Batch(c)
			}
			c.out.waitUntil(func() bool { return c.ending() || !c.crowded() })
			if c.ending() {
				return errStopped
			}
		}
		if !c.heard {
			c.heard = true
			c.srv.heard(c)
		}
		c.out.inflight.Add(1)
		pending = true
		c.srv.handler.Handle(c, f)
	}
	return errStopped
}

// ending says whether the connection was told to close.
func (c *Conn) ending() bool { return c.cause.Load() != nil }

// crowded says whether the peer must take replies before more is read.
func (c *Conn) crowded() bool {
	return c.out.inflight.Load() >= int64(c.srv.cfg.MaxInFlight) ||
		c.out.bytes.Load() >= int64(c.srv.cfg.MaxOutboxBytes)/2 || c.pressed()
}

// refuse answers a frame that breaks the rules. One that is merely too large,
// for the limit or for now, costs only itself; otherwise the connection is
// finished.
func (c *Conn) refuse(f Frame, err error) error {
	body := c.srv.cfg.ErrorBody(err)
	if (errors.Is(err, ErrFrameTooLarge) || errors.Is(err, ErrCrowded)) && c.in.skippable() && f.Request != 0 && f.Flags&FlagResponse == 0 {
		c.out.inflight.Add(1)
		c.Reply(f.Request, f.Method, FlagError, body)
		return nil
	}
	c.srv.sayRefused(c, err)
	c.Reply(0, 0, FlagError, body)
	c.Finish(err)
	return errStopped
}

// flushAndLinger lets replies leave, then waits shortly for the peer to close.
func (c *Conn) flushAndLinger() {
	c.out.waitUntil(func() bool {
		idle := !c.out.running && c.out.queue == nil
		if c.finish.Load() == finishReplies && c.out.inflight.Load() > 0 {
			return false
		}
		c.out.sealed = c.out.sealed || c.finish.Load() == finishQueued || idle
		return idle
	})
	linger(c.nc)
}

// linger closes the writing side and discards what still comes, shortly.
func linger(nc net.Conn) {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if nc.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
		_, _ = io.Copy(io.Discard, nc) // the reason for its end does not matter
	}
}
