package transport

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/seldom"
)

// Handler does the work of a [Server]. All methods for one connection are
// called on its reader goroutine, one at a time; none may block.
type Handler interface {
	// Open is called once per connection, after TLS, before any frame.
	Open(c *Conn)
	// Handle is called for every request, in order. f.Body aliases a buffer
	// that is only valid during the call. The request must get one Reply, now
	// or later, also when it is cancelled.
	Handle(c *Conn, f Frame)
	// Batch is called after the requests that were read already have been
	// handled, before the reader blocks, pauses or ends: no request is left
	// without a Batch after it.
	Batch(c *Conn)
	// Cancel is called when the peer gave up a request; it may be answered
	// already or unknown.
	Cancel(c *Conn, request uint64)
	// Closed is called once for every opened connection, as the last call.
	// err is io.EOF when the peer closed it between frames.
	Closed(c *Conn, err error)
}

const (
	// maxRefusing bounds the connections over the limit that are told so; the
	// others are just closed.
	maxRefusing    = 64
	refuseTimeout  = 2 * time.Second
	keepAliveIdle  = 15 * time.Second
	keepAliveEvery = 15 * time.Second
	keepAliveCount = 4
	unheardFor     = 30 * time.Second     // of what was sent, like the default time for a write
	acceptPause    = 5 * time.Millisecond // after a failed accept, doubling
	acceptPauseMax = time.Second
)

// Server accepts connections and reads requests from them.
type Server struct {
	cfg      Config
	handler  Handler
	pool     buffers
	budget   budget // of large frames that are being read
	untaken  budget // of replies that wait for their connections
	lastID   atomic.Uint64
	refusing atomic.Int32
	running  sync.WaitGroup // connection goroutines
	refusals seldom.Line    // in the log

	mu        sync.Mutex // guards the fields below
	listeners map[net.Listener]struct{}
	conns     map[*Conn]struct{}
	silent    list.List // those of conns that have sent no whole frame, the oldest first
	closing   bool
}

// NewServer makes a server; [Server.Serve] starts it.
func NewServer(cfg Config, h Handler) *Server {
	cfg = cfg.withDefaults()
	return &Server{
		cfg:       cfg,
		handler:   h,
		budget:    budget{limit: int64(cfg.MaxReadBytes)},
		untaken:   budget{limit: int64(cfg.MaxUntakenBytes)},
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*Conn]struct{}),
	}
}

// Serve accepts connections from ln, and closes it at the end. It returns
// ErrServerClosed after Shutdown or Close, ctx's error when ctx ends, or what
// accepting failed with. Accepted connections live on until Shutdown or Close.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !s.track(ln) {
		_ = ln.Close()
		return ErrServerClosed
	}
	defer s.untrack(ln)
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()

	pause := acceptPause
	for {
		nc, err := ln.Accept()
		if err == nil {
			pause = acceptPause
			s.accept(nc)
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.isClosing() {
			return ErrServerClosed
		}
		var passing net.Error
		if errors.Is(err, net.ErrClosed) || !errors.As(err, &passing) {
			return fmt.Errorf("transport: accept: %w", err)
		}
		// Out of file descriptors, most likely: it passes.
		s.cfg.Logger.Warn("client.accept", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, acceptPauseMax)
	}
}

func (s *Server) track(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.listeners[ln] = struct{}{}
	return true
}

func (s *Server) untrack(ln net.Listener) {
	_ = ln.Close() // it may be closed already
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Conns is the number of open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// accept starts the reader of a connection, or refuses it.
func (s *Server) accept(nc net.Conn) {
	KeepAlive(nc)
	c := s.newConn(nc)
	s.mu.Lock()
	full := len(s.conns) >= s.cfg.MaxConns
	if oldest := s.silent.Front(); full && !s.closing && oldest != nil {
		// Who has said nothing gives way: otherwise strangers that connect and are silent
		// would keep out those who know the token, for as long as they go on.
		victim := oldest.Value.(*Conn)
		s.forget(victim)
		victim.Close(fmt.Errorf("%w, and this one has sent nothing yet", ErrTooManyConns))
		full = false
	}
	if full || s.closing {
		closing := s.closing
		if !closing && int(s.refusing.Load()) < maxRefusing {
			s.refusing.Add(1)
			s.running.Add(1)
			s.mu.Unlock()
			go s.refuse(c)
			return
		}
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	c.silent = s.silent.PushBack(c)
	s.running.Add(1)
	s.mu.Unlock()
	go s.serve(c)
}

// KeepAlive has a TCP connection that was accepted end when its peer has vanished:
// by keep-alive, and while something is on its way, which turns that off, by how long
// it is not acknowledged.
func KeepAlive(nc net.Conn) {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = over.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		// An error means that the connection is gone.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveEvery, Count: keepAliveCount,
		})
		endDead(tcp, unheardFor)
	}
}

func (s *Server) serve(c *Conn) {
	defer s.running.Done()
	c.serve(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
}

// forget takes a connection out; s.mu is held.
func (s *Server) forget(c *Conn) {
	delete(s.conns, c)
	if c.silent != nil {
		s.silent.Remove(c.silent)
		c.silent = nil
	}
}

// heard notes that a connection has sent its first frame.
func (s *Server) heard(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.silent != nil {
		s.silent.Remove(c.silent)
		c.silent = nil
	}
}

// unheard takes that back.
func (s *Server) unheard(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.conns[c]; open && c.silent == nil {
		c.silent = s.silent.PushBack(c)
	}
}

func (s *Server) newConn(nc net.Conn) *Conn {
	c := &Conn{id: s.lastID.Add(1), srv: s, raw: nc, nc: nc}
	if s.cfg.TLS != nil {
		c.nc = tls.Server(nc, s.cfg.TLS)
	}
	c.in = frameReader{
		src: c.nc, pool: &s.pool, budget: &s.budget, maxFrame: s.cfg.MaxFrame,
		frameTimeout: s.cfg.FrameTimeout, idleTimeout: s.cfg.IdleTimeout,
	}
	if s.cfg.Moving != nil {
		c.in.moving = func() {
			if c.opened {
				s.cfg.Moving(c)
			}
		}
	}
	c.in.relieve = func(n int) bool { return s.makeRoom(c, n) }
	c.out = outbox{
		nc: c.nc, pool: &s.pool, maxFrame: s.cfg.MaxFrame, maxFrames: s.cfg.MaxOutboxFrames,
		maxBytes: s.cfg.MaxOutboxBytes, timeout: s.cfg.WriteTimeout,
		errorBody: s.cfg.ErrorBody, fail: c.Close, budget: &s.untaken, over: s.relieve,
	}
	c.out.init()
	c.out.direct = socketOf(c.nc)
	return c
}

// refuse tells a connection over the limit why it is closed.
func (s *Server) refuse(c *Conn) {
	defer s.running.Done()
	defer s.refusing.Add(-1)
	defer func() { _ = c.raw.Close() }()
	s.sayRefused(c, fmt.Errorf("%w: the limit is %d", ErrTooManyConns, s.cfg.MaxConns))
	if c.nc.SetDeadline(time.Now().Add(refuseTimeout)) != nil {
		return
	}
	it := item{word: FlagResponse | FlagError, body: s.cfg.ErrorBody(ErrTooManyConns)}
	if _, err := c.nc.Write(c.out.encode(nil, &it)); err == nil {
		linger(c.nc)
	}
}

// sayRefused logs that a client was refused or cut off, which anybody can cause.
func (s *Server) sayRefused(c *Conn, reason error) {
	id, remote := c.id, c.RemoteAddr().String()
	s.refusals.Say(func(times int) {
		s.cfg.Logger.Warn("client.refused", "conn", id, "remote", remote, "reason", reason, "times", times)
	})
}

// Shutdown stops accepting and reading, waits until every request that was
// handled has its reply written, and closes the connections. Requests that the
// handler never answers are waited for until ctx ends; then the rest is closed
// at once and ctx's error returned. All Closed calls are over when it returns.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.stop() {
		c.end(finishReplies, ErrServerClosed)
	}
	defer s.refusals.Close()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.closeAll()
	<-done
	return ctx.Err()
}

// Close stops accepting and closes every connection at once. All Closed calls
// are over when it returns.
func (s *Server) Close() {
	s.stop()
	s.closeAll()
	s.running.Wait()
	s.refusals.Close()
}

// stop closes the listeners and returns the open connections.
func (s *Server) stop() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for ln := range s.listeners {
		_ = ln.Close() // Serve sees it
	}
	open := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	return open
}

func (s *Server) closeAll() {
	for _, c := range s.stop() {
		c.Close(ErrServerClosed)
	}
}
