package transport

import (
	"errors"
	"fmt"
)

var (
	// ErrConnClosed is returned when the connection is closed; what closed it
	// is wrapped next to it.
	ErrConnClosed = errors.New("transport: connection closed")
	// ErrSlowReader is returned when the peer does not take what it asked for:
	// its outbox is full or a write took longer than the time-out.
	ErrSlowReader = errors.New("transport: peer reads too slowly")
	// ErrBacklog is why an error goes in the place of a reply: too much waits for
	// the peer to be taken already. What was asked for was done.
	ErrBacklog = errors.New("transport: too many answers wait to be taken")
	// ErrFrameTooLarge is returned when a frame is over the limit. Nothing of
	// it was kept.
	ErrFrameTooLarge = errors.New("transport: frame too large")
	// ErrCrowded is returned when a large frame is refused because too many of
	// them are being read. Nothing of it was kept.
	ErrCrowded = errors.New("transport: too many large frames at once")
	// ErrMalformed is returned when bytes are not a frame, or a frame breaks
	// the protocol.
	ErrMalformed = errors.New("transport: malformed frame")
	// ErrDamaged is returned when a frame does not fit its sums: bits of it have
	// changed on the way, or the other side sends frames without sums.
	ErrDamaged = errors.New("transport: a frame is damaged")
	// ErrTooManyConns is returned when a server has as many connections as it
	// may have.
	ErrTooManyConns = errors.New("transport: too many connections")
	// ErrHelloTimeout is returned when no first frame came in time.
	ErrHelloTimeout = errors.New("transport: no first frame in time")
	// ErrSilent is returned when the answer to a ping does not come and nothing else moves.
	ErrSilent = errors.New("transport: no answer to a ping")
	// ErrFrameGaveWay is returned when a large frame comes slowly, and others have no room.
	ErrFrameGaveWay = errors.New("transport: large frame comes slowly, and others wait for its room")
	// ErrFrameTimeout is returned when a frame was begun and comes too slowly.
	ErrFrameTimeout = errors.New("transport: frame not finished in time")
	// ErrIdleTimeout is returned when a connection carried nothing for too long.
	ErrIdleTimeout = errors.New("transport: connection idle for too long")
	// ErrServerClosed is returned by Serve after Shutdown or Close, and is the
	// reason connections see then.
	ErrServerClosed = errors.New("transport: server closed")
	// ErrPeerHTTP is returned when the other side speaks HTTP.
	ErrPeerHTTP = errors.New("transport: the other side speaks HTTP, not the Norn protocol (wrong port?)")
	// ErrPeerOther is returned when what the other side says first is no frame, and neither
	// HTTP nor TLS.
	ErrPeerOther = errors.New("transport: the other side does not speak the Norn protocol (wrong port?)")
	// ErrPeerProxied is returned when a connection begins with a header of the PROXY protocol.
	ErrPeerProxied = errors.New("transport: the connection begins with a PROXY protocol header")
	// ErrPeerSilent is returned when a server without TLS has closed the connection and said
	// nothing.
	ErrPeerSilent = errors.New("transport: the server closed it and said nothing (maybe TLS is spoken there, or it is a proxy that has nobody behind it)")
	// ErrPeerTLS is returned when the other side speaks TLS and this one does
	// not.
	ErrPeerTLS = errors.New("transport: the other side speaks TLS, but TLS is not configured here")
	// ErrPeerNoTLS is returned when TLS is configured here and the other side
	// does not speak it.
	ErrPeerNoTLS = errors.New("transport: the other side does not speak TLS, but TLS is configured here")
	// ErrUntrusted is returned when the certificate of the other side is not taken
	// here: of another authority, for another name, expired.
	ErrUntrusted = errors.New("transport: the certificate of the other side is not trusted here")
	// ErrTLSRefused is returned when the other side does not take the TLS of this
	// one: its certificate, or that it shows none.
	ErrTLSRefused = errors.New("transport: the other side refuses the TLS of this one")
	// ErrEncode is returned when a body could not be encoded.
	ErrEncode = errors.New("transport: body could not be encoded")
	// ErrRemote is returned by Call when the answer is an error and the caller
	// gave no function to decode it, and wrapped in the reason of a connection
	// that the server refused as a whole.
	ErrRemote = errors.New("transport: the server answered with an error")
)

// CallError is returned by [Client.Call] when no answer came. Sent says
// whether the request may have reached the server: when it is false, surely
// nothing of it left.
type CallError struct {
	Sent bool
	Err  error // a context's error, or one that wraps ErrConnClosed, …
}

// Error gives the reason and what is known of the request.
func (e *CallError) Error() string {
	if e.Sent {
		return fmt.Sprintf("%v (the request may have been sent)", e.Err)
	}
	return fmt.Sprintf("%v (the request was not sent)", e.Err)
}

// Unwrap gives the reason.
func (e *CallError) Unwrap() error { return e.Err }
