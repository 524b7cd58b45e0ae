package web

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/norn-dev/norn/transport"
)

// Serve serves the connections of a listener until [Server.Shutdown], and closes
// it. It gives http.ErrServerClosed then, or why it cannot go on.
func (s *Server) Serve(l net.Listener) error {
	limited := &limited{Listener: l, s: s}
	if s.o.TLS == nil {
		return s.http.Serve(limited)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &fork{from: limited, log: s.o.Logger, ctx: ctx, cancel: cancel, timeout: s.o.HeaderTimeout, plain: make(chan net.Conn), secure: make(chan net.Conn)}
	failed := make(chan error, 2)
	var running sync.WaitGroup
	running.Go(func() { failed <- s.http.Serve(branch{f, f.plain}) })
	running.Go(func() { failed <- s.http.Serve(tls.NewListener(branch{f, f.secure}, s.o.TLS)) })
	err := f.run()
	served := <-failed
	running.Wait()
	if errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return errors.Join(err, served)
}

// limited counts connections, and closes one for a new one when there are too many.
type limited struct {
	net.Listener
	s *Server
}

// Accept gives the next connection.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &counted{Conn: c, server: l.s, places: l.s.places, secure: l.s.o.TLS != nil}
	if victim := l.s.places.enter(one); victim != nil {
		l.s.metrics.refused.Inc()
		_ = victim.Conn.Close() // it says nothing: TLS may be spoken on it, or half an answer
	}
	return one, nil
}

// wrongPort is what a client of the Norn protocol gets, which knows by it where it is.
const wrongPort = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" +
	"This port speaks HTTP. Clients of the Norn protocol have a port of their own (listen).\n"

// proxiedAnswer is what a proxy gets that begins with a header of the PROXY protocol and may not.
const proxiedAnswer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" +
	"This connection begins with a PROXY protocol header, and its address is not named in proxy-from: %s\n"

// frame is the first byte of the Norn protocol: a length below 16 MiB. No request of
// HTTP begins with it, so the server would wait for the end of a line that never comes.
const frame = 0

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	server *Server
	places *places
	secure bool   // TLS is spoken here too
	begun  []byte // what was read first, until that is enough; whoever reads does it one at a time

	gone bool          // it has no place any more; places.mu guards this and the rest
	in   *list.List    // of places
	at   *list.Element // in it; nil: it is in none, as it is served or gone
}

// Read answers whoever speaks the Norn protocol, or TLS where there is none, and ends
// then.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if len(c.begun) >= beginning || n == 0 {
		return n, err
	}
	c.begun = append(c.begun, p[:min(n, beginning-len(c.begun))]...)
	for err == nil && n < len(p) && transport.MayBeginProxied(c.begun) { // or its end would be taken for that of a line
		var more int
		more, err = c.Conn.Read(p[n:])
		c.begun = append(c.begun, p[n:n+min(more, beginning-len(c.begun))]...)
		n += more
	}
	var answer string
	switch first := c.begun[0]; {
	case first == frame, first == handshake && !c.secure:
		answer = wrongPort
	case transport.BeginsProxied(c.begun):
		remote := c.RemoteAddr().String()
		answer = fmt.Sprintf(proxiedAnswer, remote)
		c.server.refusals.Say(func(times int) {
			c.server.o.Logger.Warn("http.refused", "remote", remote, "reason", "it begins with a PROXY protocol header, and its address is not named in proxy-from", "times", times)
		})
	default:
		return n, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(answer)) // fits any socket's buffer
	// With bytes that nobody has read the end would reach the client before the answer.
	_, _ = io.CopyN(io.Discard, c.Conn, 64<<10)
	return 0, io.EOF
}

// beginning is how many bytes tell another protocol.
const beginning = 5

func (c *counted) Close() error {
	c.places.leave(c)
	return c.Conn.Close()
}

// fork tells connections that begin with a TLS handshake from plain ones, by
// their first byte.
type fork struct {
	from          net.Listener
	log           *slog.Logger
	ctx           context.Context
	cancel        context.CancelFunc
	timeout       time.Duration
	plain, secure chan net.Conn
}

// handshake is the first byte of a TLS connection.
const handshake = 0x16

// The pause after an accept that has failed doubles between these.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// run accepts until the listener is closed. An error that passes, as of a process
// that is out of file descriptors, it sits out, as the server of the library does
// where there is no TLS.
func (f *fork) run() error {
	var running sync.WaitGroup
	defer running.Wait()
	defer f.cancel()
	for pause := acceptPause; ; {
		c, err := f.from.Accept()
		var passing net.Error
		switch {
		case err == nil:
			pause = acceptPause
			running.Go(func() { f.sort(c) })
			continue
		case errors.Is(err, net.ErrClosed) || !errors.As(err, &passing) || f.ctx.Err() != nil:
			return err
		}
		f.log.Warn("http.accept", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-f.ctx.Done():
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// sort waits for the first byte of a connection.
func (f *fork) sort(c net.Conn) {
	stop := context.AfterFunc(f.ctx, func() { _ = c.Close() })
	var first [1]byte
	_ = c.SetReadDeadline(time.Now().Add(f.timeout))
	_, err := c.Read(first[:])
	_ = c.SetReadDeadline(time.Time{})
	if !stop() || err != nil {
		_ = c.Close()
		return
	}
	to := f.plain
	if first[0] == handshake {
		to = f.secure
	}
	select {
	case to <- &begun{Conn: c, first: first[:]}:
	case <-f.ctx.Done():
		_ = c.Close()
	}
}

// begun is a connection whose first bytes were read already.
type begun struct {
	net.Conn
	first []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) > 0 && len(p) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// NetConn gives the connection itself.
func (b *begun) NetConn() net.Conn { return b.Conn }

// branch is one side of a fork as a listener.
type branch struct {
	f *fork
	c <-chan net.Conn
}

func (b branch) Accept() (net.Conn, error) {
	select {
	case c := <-b.c:
		return c, nil
	case <-b.f.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (b branch) Close() error {
	b.f.cancel()
	return b.f.from.Close()
}

func (b branch) Addr() net.Addr { return b.f.from.Addr() }
