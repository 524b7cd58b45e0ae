package viaproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/norn-dev/norn/internal/seldom"
)

const (
	// maxLine is how long a header of version 1 may be, bytes.
	maxLine = 107
	// maxReading bounds the connections whose header is being read. It is sent at once by
	// whoever sends one.
	maxReading = 1024
)

// Options are those of [Listen].
type Options struct {
	// From are the trusted addresses; empty: none is.
	From []netip.Prefix
	// Within is how long a header may take from the beginning of the connection.
	Within time.Duration
	// Logger hears of headers that are none; required.
	Logger *slog.Logger
}

// Listen gives the connections of l; closing what it gives closes l.
func Listen(l net.Listener, o Options) net.Listener {
	if len(o.From) == 0 {
		return l
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := &listener{Listener: l, o: o, ctx: ctx, cancel: cancel, given: make(chan taken), reading: make(chan struct{}, maxReading)}
	v.running.Go(v.run)
	return v
}

// listener accepts on a goroutine of its own, and reads each header on another.
type listener struct {
	net.Listener
	o       Options
	ctx     context.Context // until it is closed
	cancel  context.CancelFunc
	given   chan taken
	reading chan struct{} // holds one for each header that is being read
	refused seldom.Line
	running sync.WaitGroup
}

// taken is what an Accept gives.
type taken struct {
	conn net.Conn
	err  error
}

// Accept gives the next connection.
func (v *listener) Accept() (net.Conn, error) {
	select {
	case t := <-v.given:
		return t.conn, t.err
	case <-v.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends what was not given yet.
func (v *listener) Close() error {
	v.cancel()
	err := v.Listener.Close()
	v.running.Wait()
	v.refused.Close()
	return err
}

func (v *listener) give(t taken) {
	select {
	case v.given <- t:
	case <-v.ctx.Done():
		if t.conn != nil {
			_ = t.conn.Close()
		}
	}
}

// run accepts until the listener is closed. Who takes an error pauses before it takes more.
func (v *listener) run() {
	for {
		nc, err := v.Listener.Accept()
		switch {
		case err != nil:
			v.give(taken{err: err})
			if errors.Is(err, net.ErrClosed) || v.ctx.Err() != nil {
				return
			}
		case !v.trusts(nc.RemoteAddr()):
			v.give(taken{conn: nc})
		default:
			select {
			case v.reading <- struct{}{}:
				v.running.Go(func() {
					t := v.begin(nc)
					<-v.reading
					if t.conn != nil {
						v.give(t)
					}
				})
			default:
				v.refuse(nc, errors.New("too many connections of proxies have not begun yet"))
			}
		}
	}
}

// trusts tells whether an address is among the trusted ones.
func (v *listener) trusts(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, p := range v.o.From {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// begin reads the header of a connection, if there is one; the connection is nil when that
// was the end of it.
func (v *listener) begin(nc net.Conn) taken {
	stop := context.AfterFunc(v.ctx, func() { _ = nc.Close() })
	defer stop()
	_ = nc.SetReadDeadline(time.Now().Add(v.o.Within)) // an error comes again
	r := bufio.NewReader(nc)
	h, err := header(r)
	var late net.Error
	switch {
	case errors.Is(err, proxyproto.ErrNoProxyProtocol): // who has closed it again is seen by whom it is for
	case errors.As(err, &late) && r.Buffered() == 0: // it said nothing
		_ = nc.Close()
		return taken{}
	case err != nil:
		v.refuse(nc, err)
		return taken{}
	}
	_ = nc.SetReadDeadline(time.Time{})
	c := &conn{Conn: nc, said: r, remote: nc.RemoteAddr()}
	if h != nil && !h.Command.IsLocal() {
		if client, ok := h.SourceAddr.(*net.TCPAddr); ok {
			c.remote = client
		}
	}
	return taken{conn: c}
}

// header reads a header. The library wants a line of version 1 in one read, and it may come
// in pieces.
func header(r *bufio.Reader) (*proxyproto.Header, error) {
	for n := 1; n <= maxLine; n = r.Buffered() + 1 {
		b, err := r.Peek(n)
		if err != nil && len(b) == 0 {
			if errors.Is(err, io.EOF) {
				err = proxyproto.ErrNoProxyProtocol
			}
			return nil, err
		}
		b, _ = r.Peek(r.Buffered())
		if k := min(len(b), len(proxyproto.SIGV1)); err != nil || !bytes.Equal(b[:k], proxyproto.SIGV1[:k]) || bytes.IndexByte(b, '\n') >= 0 {
			break
		}
	}
	return proxyproto.Read(r)
}

func (v *listener) refuse(nc net.Conn, reason error) {
	remote := nc.RemoteAddr().String()
	_ = nc.Close()
	v.refused.Say(func(times int) {
		v.o.Logger.Warn("proxy.refused", "remote", remote, "reason", reason, "times", times)
	})
}

// conn is a connection of which the beginning was read already.
type conn struct {
	net.Conn
	said   *bufio.Reader // nil: all of that was read
	remote net.Addr
}

// RemoteAddr is the client that the header has named, or the other end.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// Read gives what came behind the header.
func (c *conn) Read(b []byte) (int, error) {
	if c.said != nil && c.said.Buffered() > 0 {
		return c.said.Read(b[:min(len(b), c.said.Buffered())])
	}
	c.said = nil
	return c.Conn.Read(b)
}

// NetConn is the connection below, whose options may be set.
func (c *conn) NetConn() net.Conn { return c.Conn }

// SyscallConn is its socket, to which may be written what is written here.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// CloseWrite ends the direction away from this side, where that can be done.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
