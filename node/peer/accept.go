package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// First bytes of connections to the peer port. The first frame is small, so its
// length begins with a zero.
const (
	firstFrame  = 0
	firstGossip = 244 // memberlist's label header
	firstTLS    = 22  // a handshake record
)

const (
	acceptPause    = 5 * time.Millisecond // after a failed accept, doubling
	acceptPauseMax = time.Second
	tellTime       = time.Second // for a last word and its reading

	httpAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
		"This port is for the nodes of a Norn cluster. The HTTP API and the dashboard have an address of their own.\n"
	tlsAlert = "\x15\x03\x01\x00\x02\x02\x46" // fatal, protocol_version
)

// Serve accepts connections from ln until Close, then it returns ErrClosed; or
// what accepting failed with. It closes ln.
func (n *Network) Serve(ln net.Listener) error {
	defer func() { _ = ln.Close() }() // it may be closed already
	n.mu.Lock()
	if n.closing {
		n.mu.Unlock()
		return ErrClosed
	}
	n.listeners[ln] = struct{}{}
	n.mu.Unlock()
	for pause := acceptPause; ; {
		nc, err := ln.Accept()
		var passing net.Error
		switch {
		case err == nil:
			pause = acceptPause
			n.accept(nc)
			continue
		case n.ctx.Err() != nil:
			return ErrClosed
		case errors.Is(err, net.ErrClosed) || !errors.As(err, &passing):
			return fmt.Errorf("peer: accept: %w", err)
		}
		// Out of file descriptors, most likely: it passes.
		n.cfg.Logger.Warn("peer.accept", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-n.ctx.Done():
		}
		pause = min(2*pause, acceptPauseMax)
	}
}

// accept starts the goroutine of a connection.
func (n *Network) accept(nc net.Conn) {
	transport.KeepAlive(nc)
	n.mu.Lock()
	var victim net.Conn
	takes := !n.closing
	if takes {
		victim, takes = n.arrivals.enter(nc)
	}
	if takes {
		n.running.Go(func() { n.serve(nc) })
	}
	n.mu.Unlock()
	if !takes {
		_ = nc.Close()
	}
	if victim != nil {
		_ = victim.Close()
	}
	if !takes || victim != nil {
		n.refusal(nc.RemoteAddr(), refuse(nornv1.PeerRefusal_PEER_REFUSAL_BUSY, "too many connections that have not said who they are, or in all: the limits are %d and %d, and the one that is silent for longest gives way", n.cfg.Limits.Greeting, n.cfg.Limits.Conns))
	}
}

// serve looks at the first byte of a connection and gives it to whom it is for.
func (n *Network) serve(raw net.Conn) {
	first, err := n.first(raw)
	if err == nil && first == firstGossip && n.cfg.Gossip != nil {
		n.arrivals.leave(raw)
		n.cfg.Gossip(&replayed{raw, []byte{first}})
		return
	}
	var nc net.Conn
	cfg := n.linkConfig(replyQueue)
	if err == nil {
		nc, cfg.Begun, err = n.secure(raw, first)
	}
	if err != nil {
		if logins.IsCertificate(err) {
			failed(n, raw, logins.Certificate)
		}
		n.refusal(raw.RemoteAddr(), err)
		_ = raw.Close()
		n.arrivals.leave(raw)
		return
	}
	s := &session{n: n, nc: raw, over: nc, shown: shownOn(nc), link: transport.NewLink(nc, cfg)}
	s.link.SetMaxFrame(maxHello)
	err = s.link.Read(s)
	s.ended(err)
}

// first reads the first byte of a connection.
func (n *Network) first(raw net.Conn) (byte, error) {
	if err := raw.SetReadDeadline(time.Now().Add(n.cfg.Timing.Hello)); err != nil {
		return 0, err
	}
	var b [1]byte
	for got := 0; got == 0; {
		var err error
		if got, err = raw.Read(b[:]); got == 0 && err != nil {
			return 0, err
		}
	}
	return b[0], raw.SetReadDeadline(time.Time{})
}

// secure does TLS where it is due. Without TLS the connection stays as it was accepted, so that
// its socket is read directly, and begun is what was read of it. Who speaks something else hears
// so in its own words.
//
// Errors are those of package transport that say what the other side speaks; the other side has
// been told by then.
func (n *Network) secure(raw net.Conn, first byte) (nc net.Conn, begun []byte, err error) {
	if first >= 'A' && first <= 'Z' {
		n.tell(raw, httpAnswer)
		return nil, nil, transport.ErrPeerHTTP
	}
	if n.cfg.TLS == nil {
		if first == firstTLS {
			n.tell(raw, tlsAlert)
			return nil, nil, transport.ErrPeerTLS
		}
		if first != firstFrame {
			return nil, nil, fmt.Errorf("%w: the connection begins with byte %d", ErrMalformed, first)
		}
		return raw, []byte{first}, nil
	}
	if first != firstTLS {
		n.tell(raw, tlsAlert) // who dials without TLS knows this answer
		return nil, nil, transport.ErrPeerNoTLS
	}
	t := tls.Server(&replayed{raw, []byte{first}}, n.cfg.TLS)
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Timing.Hello)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return t, nil, nil
}

// tell writes a last word.
func (n *Network) tell(nc net.Conn, text string) {
	if nc.SetDeadline(time.Now().Add(tellTime)) != nil {
		return
	}
	if _, err := nc.Write([]byte(text)); err != nil {
		return // whoever does not read it does not miss it
	}
	// Closing with bytes unread would reset the connection, and the answer with it.
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, nc) // the reason for its end does not matter
	}
}

// replayed is a connection of which the first byte was read already.
type replayed struct {
	net.Conn
	first []byte
}

// Read gives the first byte once more.
func (r *replayed) Read(b []byte) (int, error) {
	if len(r.first) > 0 && len(b) > 0 {
		k := copy(b, r.first)
		r.first = r.first[k:]
		return k, nil
	}
	return r.Conn.Read(b)
}

// CloseWrite ends the direction away from this side, where that can be done.
func (r *replayed) CloseWrite() error {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
