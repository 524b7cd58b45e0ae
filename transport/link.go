package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// LinkConfig configures a [Link]. The zero value of a field means its default.
type LinkConfig struct {
	MaxFrame        int           // bytes after the length field, both ways; DefaultMaxFrame
	MaxOutboxBytes  int           // bytes of queued frames; past it Send returns ErrSlowReader
	MaxOutboxFrames int           // queued frames, likewise
	HelloTimeout    time.Duration // start of Read to the end of the first frame
	FrameTimeout    time.Duration // for a frame, or each 512 KiB of a larger one
	WriteTimeout    time.Duration // one write of at most 256 KiB
	IdleTimeout     time.Duration // without any byte from the other side; 0: never

	// Begun is what was read of the connection before: the link reads it first. It must not
	// change any more.
	Begun []byte

	// Memory is shared by links that are bounded together; nil: its own, of
	// DefaultMaxReadBytes.
	Memory *Memory
}

func (c LinkConfig) withDefaults() LinkConfig {
	orInt(&c.MaxFrame, DefaultMaxFrame)
	orInt(&c.MaxOutboxBytes, DefaultMaxOutboxBytes)
	orInt(&c.MaxOutboxFrames, DefaultMaxOutboxFrames)
	orDuration(&c.HelloTimeout, DefaultHelloTimeout)
	orDuration(&c.FrameTimeout, DefaultFrameTimeout)
	orDuration(&c.WriteTimeout, DefaultWriteTimeout)
	if c.Memory == nil {
		c.Memory = NewMemory(DefaultMaxReadBytes)
	}
	return c
}

// Memory are the buffers of links, and the bound of those in which large frames
// (over 64 KiB) are read.
type Memory struct {
	pool   buffers
	budget budget
}

// NewMemory makes one with so many bytes for large frames that are being read;
// past it a frame is refused with ErrCrowded.
func NewMemory(maxReadBytes int) *Memory {
	return &Memory{budget: budget{limit: int64(maxReadBytes)}}
}

// LinkHandler takes what comes in. Its methods are called on the goroutine of
// [Link.Read], one at a time; while one blocks nothing more is read.
type LinkHandler interface {
	// Frame is called for every frame, in order. f.Body aliases a buffer that is
	// only valid during the call. An error ends the link.
	Frame(f Frame) error
	// Burst is called after the frames that were read already, before the reader
	// waits for more or ends: no frame is left without a Burst after it.
	Burst()
	// Refused is called for a frame that was read past, with its head: it was
	// over the limit (ErrFrameTooLarge), or large while others were (ErrCrowded).
	Refused(f Frame, err error)
	// Damaged is called for a frame that does not fit its sums (ErrDamaged), which
	// ends the link.
	Damaged(err error)
}

// Link is a connection of frames that are not requests: each side sends, and
// hears of an answer only if the other sends one. Its frames have sums. Both ends
// are alike. Send is for any goroutine, Read for one.
type Link struct {
	cfg   LinkConfig
	raw   net.Conn
	nc    net.Conn
	out   outbox
	in    frameReader
	cause atomic.Pointer[error] // why it ends; the first one wins

	born     time.Time
	heard    atomic.Int64 // when bytes came last, ns after born
	handling atomic.Bool  // what came is being handled
}

// NewLink makes a link of a connection. It must be read: Read is what ends it
// and gives back what it holds.
func NewLink(nc net.Conn, cfg LinkConfig) *Link {
	cfg = cfg.withDefaults()
	l := &Link{cfg: cfg, raw: nc, nc: nc, born: time.Now()}
	if t, ok := nc.(*tls.Conn); ok {
		l.raw = t.NetConn() // closing TLS may block for its farewell
	}
	l.in = frameReader{
		src: nc, before: cfg.Begun, pool: &cfg.Memory.pool, budget: &cfg.Memory.budget, maxFrame: cfg.MaxFrame,
		frameTimeout: cfg.FrameTimeout, idleTimeout: cfg.IdleTimeout, sums: true,
	}
	l.out = outbox{
		nc: nc, pool: &cfg.Memory.pool, maxFrame: cfg.MaxFrame, maxFrames: cfg.MaxOutboxFrames,
		maxBytes: cfg.MaxOutboxBytes, timeout: cfg.WriteTimeout, fail: l.Close, sums: true,
	}
	l.out.init()
	l.out.direct = socketOf(nc)
	return l
}

// RemoteAddr is the address of the other side.
func (l *Link) RemoteAddr() net.Addr { return l.raw.RemoteAddr() }

// Queued is how many bytes wait to be written, estimated.
func (l *Link) Queued() int { return int(l.out.bytes.Load()) }

// SetMaxFrame bounds the frames that are read from now on. For calls from
// within the handler.
func (l *Link) SetMaxFrame(n int) { l.in.maxFrame = n }

// SetIdle is [LinkConfig.IdleTimeout] from now on. For calls from within the handler.
func (l *Link) SetIdle(d time.Duration) { l.in.idleTimeout = d }

// Heard is when bytes came last: now, while the handler has what came, because nothing more
// is read meanwhile.
func (l *Link) Heard() time.Time {
	if l.handling.Load() {
		return time.Now()
	}
	return l.born.Add(time.Duration(l.heard.Load()))
}

// Send queues a frame and never blocks; frames leave in the order of the calls.
// b is encoded later, on another goroutine, and must not change. The error is
// ErrSlowReader when the queue is full and ErrConnClosed when the link has
// ended: then the frame was not taken, and the link is as before. A frame that
// was taken and never reached a write call, or has no encoding within the
// limit, is dropped (see [Droppable]).
func (l *Link) Send(f Frame, b Body) error { return l.out.push(oneWay(f, b)) }

// Hold queues a frame as Send does, for a Flush that follows: it may leave before
// that, and surely does not leave without it.
func (l *Link) Hold(f Frame, b Body) error { return l.out.hold(oneWay(f, b)) }

func oneWay(f Frame, b Body) item {
	return item{request: f.Request, word: f.Method&MethodMask | f.Flags&(FlagError|FlagResponse), body: b}
}

// Flush encodes and writes what is queued, on the goroutine of the caller as far
// as the connection takes it at once, else on another one. It never blocks.
func (l *Link) Flush() { l.out.now() }

// Close closes the link at once; err is what Read returns, nil means
// ErrConnClosed. What is queued is dropped. It never blocks.
func (l *Link) Close(err error) {
	if err == nil {
		err = ErrConnClosed
	}
	l.cause.CompareAndSwap(nil, &err)
	if l.out.close() {
		_ = l.raw.Close()
	}
}

// Finish stops reading, lets what is queued leave, and closes the link then. It
// does not wait for that. For a refusal that the other side should still read.
func (l *Link) Finish(err error) {
	if err == nil {
		err = ErrConnClosed
	}
	l.cause.CompareAndSwap(nil, &err)
	l.in.stop()
}

// Read handles frames until the link ends, and returns why: what Close or
// Finish was called with, the handler's error, io.EOF when the other side
// closed it between frames, or an error of this package. Every dropped body has
// been told by then.
func (l *Link) Read(h LinkHandler) error {
	l.in.firstBy = time.Now().Add(l.cfg.HelloTimeout)
	err := l.read(h)
	if errors.Is(err, errStopped) {
		l.flush()
	}
	l.Close(err)
	for _, it := range l.out.drain() {
		if d, ok := it.body.(Droppable); ok {
			d.Dropped()
		}
	}
	l.in.release()
	return *l.cause.Load()
}

func (l *Link) read(h LinkHandler) error {
	first := true
	for {
		if b := l.in.buffered(); first && len(b) >= sniffBytes {
			first = false
			if err := stranger(b); err != nil {
				return err
			}
		}
		if !first {
			l.handling.Store(true)
			err := l.handleBuffered(h)
			l.heard.Store(int64(time.Since(l.born)))
			l.handling.Store(false)
			if err != nil {
				return err
			}
		}
		if err := l.in.fill(); err != nil {
			if other := stranger(l.in.buffered()); first && other != nil {
				return other
			}
			return err
		}
		l.heard.Store(int64(time.Since(l.born)))
	}
}

func (l *Link) handleBuffered(h LinkHandler) error {
	pending := false // frames handled since the last Burst
	defer func() {
		if pending {
			h.Burst()
		}
	}()
	for l.cause.Load() == nil {
		f, ok, err := l.in.next()
		switch {
		case (errors.Is(err, ErrFrameTooLarge) || errors.Is(err, ErrCrowded)) && l.in.skippable():
			h.Refused(f, err)
			continue
		case errors.Is(err, ErrDamaged):
			h.Damaged(err)
			return err
		case err != nil:
			return err
		case !ok:
			return nil
		}
		pending = true
		if err := h.Frame(f); err != nil {
			return err
		}
	}
	return errStopped
}

// flush lets what is queued leave, then waits shortly for the other side to
// close.
func (l *Link) flush() {
	l.out.waitUntil(func() bool {
		l.out.sealed = true
		return !l.out.running && l.out.queue == nil
	})
	linger(l.nc)
}

// Connect dials addr as a [Client] does, TLS included, and gives the connection:
// of cfg it uses Network, Dialer, DialTimeout and TLS.
func Connect(ctx context.Context, addr string, cfg ClientConfig) (net.Conn, error) {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	raw, err := dial(ctx, addr, cfg)
	if err != nil {
		return nil, fmt.Errorf("transport: dial %s: %w", addr, err)
	}
	if cfg.TLS == nil {
		return raw, nil
	}
	tlsConfig := cfg.TLS
	if tlsConfig.ServerName == "" && !tlsConfig.InsecureSkipVerify {
		tlsConfig = tlsConfig.Clone()
		if tlsConfig.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			tlsConfig.ServerName = addr
		}
	}
	nc := tls.Client(raw, tlsConfig)
	if err := nc.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("transport: dial %s: %w", addr, handshakeError(err))
	}
	return nc, nil
}

// handshakeError says what a failed TLS handshake means.
func handshakeError(err error) error {
	var plain tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &plain) && !isTLSAlert(plain.RecordHeader[:]):
		return fmt.Errorf("%w: it says %s: %w", ErrPeerNoTLS, quoted(plain.RecordHeader[:]), err)
	case errors.As(err, &plain), isAlert(err) && strings.HasSuffix(err.Error(), protocolVersion.Error()):
		return fmt.Errorf("%w: %w", ErrPeerNoTLS, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	case isAlert(err):
		return fmt.Errorf("%w: %w", ErrTLSRefused, err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("TLS handshake: the other side closed the connection and said nothing (maybe no TLS is spoken there, or it is a proxy that has nobody behind it): %w", err)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}
