package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// Defaults of [Config] and [ClientConfig].
const (
	DefaultMaxInFlight     = 4096
	DefaultMaxOutboxBytes  = 64 << 20
	DefaultMaxOutboxFrames = 65536
	DefaultMaxConns        = 16384
	DefaultMaxReadBytes    = 256 << 20
	DefaultMaxUntakenBytes = 512 << 20
	DefaultHelloTimeout    = 10 * time.Second
	DefaultFrameTimeout    = 30 * time.Second
	DefaultWriteTimeout    = 30 * time.Second
	DefaultDialTimeout     = 10 * time.Second
)

// Config configures a [Server]. The zero value of a field means its default.
type Config struct {
	MaxFrame        int           // bytes after the length field; DefaultMaxFrame
	MaxInFlight     int           // requests of one connection without a written reply; past it reading pauses
	MaxOutboxBytes  int           // bytes of queued replies; at half of it reading pauses, past it ErrBacklog in place of a reply, and a quarter past it ErrSlowReader
	MaxOutboxFrames int           // queued replies; past it ErrSlowReader
	MaxConns        int           // past it a connection gets an error frame and is closed
	MaxReadBytes    int           // buffers of all large frames (over 64 KiB) that are being read; past it ErrCrowded
	MaxUntakenBytes int           // replies that wait for all connections, each beyond its first 16 KiB; at half of it those that have such are not read, past it ErrSlowReader for who takes nothing
	HelloTimeout    time.Duration // accept (and TLS) to the end of the first frame
	FrameTimeout    time.Duration // for a frame, or each 512 KiB of a larger one
	WriteTimeout    time.Duration // one write of at most 256 KiB
	IdleTimeout     time.Duration // without any byte from the peer, open requests or not; 0: never
	TLS             *tls.Config   // nil: plain
	Logger          *slog.Logger  // nil: nothing is logged

	// Unshaken hears of handshakes of TLS that have failed. It must not block. nil: nobody does.
	Unshaken func(remote net.Addr, err error)

	// Moving hears that bytes of a frame have come that is unfinished, which may be often, on
	// the connection's reader goroutine. It must not block. nil: nobody does.
	Moving func(c *Conn)

	// ErrorBody encodes the errors the transport itself answers with (frame
	// too large, malformed, too many connections, reply not encodable or without room). It must
	// not fail. nil: the text of the error.
	ErrorBody func(error) Body
}

func (c Config) withDefaults() Config {
	orInt(&c.MaxFrame, DefaultMaxFrame)
	orInt(&c.MaxInFlight, DefaultMaxInFlight)
	orInt(&c.MaxOutboxBytes, DefaultMaxOutboxBytes)
	orInt(&c.MaxOutboxFrames, DefaultMaxOutboxFrames)
	orInt(&c.MaxConns, DefaultMaxConns)
	orInt(&c.MaxReadBytes, DefaultMaxReadBytes)
	orInt(&c.MaxUntakenBytes, DefaultMaxUntakenBytes)
	orDuration(&c.HelloTimeout, DefaultHelloTimeout)
	orDuration(&c.FrameTimeout, DefaultFrameTimeout)
	orDuration(&c.WriteTimeout, DefaultWriteTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ErrorBody == nil {
		c.ErrorBody = func(err error) Body { return Bytes(err.Error()) }
	}
	return c
}

// ClientConfig configures a [Client]. The zero value of a field means its
// default.
type ClientConfig struct {
	Network        string        // "tcp"
	MaxFrame       int           // bytes after the length field, both ways; DefaultMaxFrame
	MaxInFlight    int           // open requests; past it callers wait
	MaxOutboxBytes int           // bytes of queued requests; past it callers wait
	DialTimeout    time.Duration // connecting and the TLS handshake
	FrameTimeout   time.Duration // for a frame, or each 512 KiB of a larger one
	WriteTimeout   time.Duration // one write of at most 256 KiB
	IdleTimeout    time.Duration // without any byte from the server; 0: never
	TLS            *tls.Config   // nil: plain; ServerName is filled in from the address

	// Dialer replaces the dialing of Network and addr (not TLS). nil: net.Dialer.
	Dialer func(ctx context.Context, addr string) (net.Conn, error)

	// DecodeError decodes the body of an error frame that concerns the whole
	// connection. The body is only valid during the call. nil: the body is
	// taken as text.
	DecodeError func(body []byte) error
}

func (c ClientConfig) withDefaults() ClientConfig {
	if c.Network == "" {
		c.Network = "tcp"
	}
	orInt(&c.MaxFrame, DefaultMaxFrame)
	orInt(&c.MaxInFlight, DefaultMaxInFlight)
	orInt(&c.MaxOutboxBytes, DefaultMaxOutboxBytes)
	orDuration(&c.DialTimeout, DefaultDialTimeout)
	orDuration(&c.FrameTimeout, DefaultFrameTimeout)
	orDuration(&c.WriteTimeout, DefaultWriteTimeout)
	return c
}

func orInt(v *int, otherwise int) {
	if *v <= 0 {
		*v = otherwise
	}
}

func orDuration(v *time.Duration, otherwise time.Duration) {
	if *v <= 0 {
		*v = otherwise
	}
}
