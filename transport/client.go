package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Client is one multiplexed connection to a server. Its methods may be called
// from any goroutine.
type Client struct {
	cfg   ClientConfig
	raw   net.Conn
	pool  buffers
	calls sync.Pool // of *call
	out   outbox
	in    frameReader // reader goroutine only
	cause atomic.Pointer[error]
	done  chan struct{}

	mu       sync.Mutex // guards the fields below
	open     map[uint64]opened
	lastID   uint64
	slots    int // places taken: open requests, and some about to be
	longs    int // of those, by long ones
	reserved int // bytes of requests that are not written
	limit    int // of slots
	urgent   int // places that only urgent ones take
	short    int // places beside those that long ones do not take
	waiting  [classes][]*waiter
	turn     uint64 // of the newest who waited
	err      error  // set once the connection ended
}

// opened is an open request.
type opened struct {
	call   *call  // nil: given up, its reply is still to come
	method uint16 // which the reply repeats
	class  Class  // of the place it has until then
}

// Dial connects to addr. The first call should be the hello; until its answer
// says otherwise the limits are those of cfg.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	nc, err := Connect(ctx, addr, cfg)
	if err != nil {
		return nil, err
	}
	raw := nc
	if t, ok := nc.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	return newClient(raw, nc, cfg.withDefaults()), nil
}

// NewClient makes a client of a connection that exists. TLS and dialing of cfg
// are not used.
func NewClient(nc net.Conn, cfg ClientConfig) *Client {
	return newClient(nc, nc, cfg.withDefaults())
}

func newClient(raw, nc net.Conn, cfg ClientConfig) *Client {
	c := &Client{cfg: cfg, raw: raw, done: make(chan struct{}), open: make(map[uint64]opened), limit: cfg.MaxInFlight}
	c.in = frameReader{
		src: nc, pool: &c.pool, maxFrame: cfg.MaxFrame,
		frameTimeout: cfg.FrameTimeout, idleTimeout: cfg.IdleTimeout,
	}
	c.out = outbox{
		nc: nc, pool: &c.pool, maxFrame: cfg.MaxFrame,
		// Callers wait before they get here: the outbox itself need not refuse.
		maxFrames: int(^uint(0) >> 1), maxBytes: int(^uint(0) >> 1),
		timeout: cfg.WriteTimeout, fail: c.fail, wrote: c.wrote, direct: socketOf(nc),
	}
	c.out.init()
	go c.read()
	return c
}

// RemoteAddr is the address of the server.
func (c *Client) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// Done is closed when the connection has ended and every call has returned or
// is about to.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is nil while the connection lives, then an error that wraps
// ErrConnClosed and the reason.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// InFlight is the number of open requests, given-up ones without a reply
// included.
func (c *Client) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots
}

// Close closes the connection at once; open calls return. It does not wait:
// see Done.
func (c *Client) Close() error {
	c.fail(nil)
	return nil
}

// fail closes the connection; the first reason wins.
func (c *Client) fail(err error) {
	c.cause.CompareAndSwap(nil, &err)
	if c.out.close() {
		_ = c.raw.Close()
	}
}

// wrote gives bytes of the outbox back to callers that wait for them.
func (c *Client) wrote(reserved int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= reserved
	c.grant()
}

// read is the reader goroutine.
func (c *Client) read() {
	defer close(c.done)
	c.fail(c.readFrames())
	c.out.drain()
	c.in.release()

	err := ErrConnClosed
	if cause := *c.cause.Load(); cause != nil {
		err = fmt.Errorf("%w: %w", ErrConnClosed, cause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, o := range c.open {
		if k := o.call; k != nil {
			k.finish(&CallError{Sent: k.state.Load() == callSent, Err: err})
		}
	}
	clear(c.open)
	for class, all := range c.waiting {
		for _, w := range all {
			close(w.ready)
		}
		c.waiting[class] = nil
	}
}

func (c *Client) readFrames() error {
	for first := true; ; {
		if b := c.in.buffered(); first && len(b) >= sniffBytes {
			if err := stranger(b); err != nil {
				return err
			}
			whole, err := c.deliverBuffered()
			if errors.Is(err, ErrMalformed) && !whole {
				return fmt.Errorf("%w: it says %s: %w", ErrPeerOther, quoted(b), err)
			}
			if err != nil {
				return err
			}
			first = !whole
		} else if !first {
			if _, err := c.deliverBuffered(); err != nil {
				return err
			}
		}
		if err := c.in.fill(); err != nil {
			return c.ended(first, err)
		}
	}
}

// ended is what an error of reading means; first: no whole frame has come.
func (c *Client) ended(first bool, err error) error {
	begun := c.in.buffered()
	if other := stranger(begun); first && other != nil {
		return other
	}
	plain := c.raw == c.in.src // who speaks TLS has said something
	switch {
	case errors.Is(err, os.ErrClosed), errors.Is(err, net.ErrClosed):
		return nil // fail has the reason
	case first && len(begun) == 0 && plain && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return ErrPeerSilent
	case errors.Is(err, io.EOF):
		return errors.New("the server closed it")
	case first && isAlert(err): // with TLS 1.3 a server judges certificates after the handshake
		return fmt.Errorf("%w: %w", ErrTLSRefused, err)
	}
	return err
}

// deliverBuffered delivers the frames that are read already, and tells whether there was one.
func (c *Client) deliverBuffered() (some bool, err error) {
	for {
		f, ok, err := c.in.next()
		switch {
		case errors.Is(err, ErrFrameTooLarge) && c.in.skippable():
		case err != nil:
			return some, err
		case !ok:
			return some, nil
		}
		if err := c.deliver(f, err); err != nil {
			return some, err
		}
		some = true
	}
}
