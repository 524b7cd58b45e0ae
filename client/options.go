package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"time"
)

// DefaultTimeout ends a call whose context has no deadline, in addition to any
// wait that the call asks for.
const DefaultTimeout = 30 * time.Second

// maxTimeout is what counts as for ever: with more the end would lie before the beginning.
const maxTimeout = 100 * 365 * 24 * time.Hour

// Option configures [Dial].
type Option func(*options)

type options struct {
	authToken   func() (string, error) // nil: none
	tlsFiles    *TLSFiles              // nil: see tls
	tls         *tls.Config
	logger      *slog.Logger
	agent       string
	dialer      func(ctx context.Context, addr string) (net.Conn, error)
	timeout     time.Duration
	refused     time.Duration // 0: as long as the call
	connections int
	cluster     string // that is expected, a UUID in its usual form; "": any
}

func defaults() options {
	return options{
		logger: slog.New(slog.DiscardHandler), agent: "norn-go", timeout: DefaultTimeout, connections: 1,
	}
}

// WithAuthToken sends credentials with each connection's hello.
func WithAuthToken(token string) Option {
	return WithAuthTokenFrom(func() (string, error) { return token, nil })
}

// WithAuthTokenFrom asks for the credentials of each new connection: they may change.
func WithAuthTokenFrom(token func() (string, error)) Option {
	return func(o *options) { o.authToken = token }
}

// WithTLS encrypts connections; the server's name is taken from the address
// unless the configuration has one. nil means plain.
func WithTLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// WithClusterID has the client expect a cluster, by the UUID of its [Info]: an address that
// leads to another one is refused, before the token is sent there. In its error is
// ErrIncompatible.
func WithClusterID(id string) Option { return func(o *options) { o.cluster = strings.ToLower(id) } }

// WithLogger logs lost connections, and calls that are still tried after some seconds
// ("trying again", with op, node, attempts and error); by default nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.logger = l
		}
	}
}

// WithAgent names the program and its version in the servers' logs.
func WithAgent(name string) Option { return func(o *options) { o.agent = name } }

// WithDialer replaces how connections are made; TLS, if any, is spoken over
// what it returns.
func WithDialer(dial func(ctx context.Context, addr string) (net.Conn, error)) Option {
	return func(o *options) { o.dialer = dial }
}

// WithTimeout bounds calls whose context has no deadline; under or equal to
// zero means [DefaultTimeout]. It is kept to within a second.
func WithTimeout(d time.Duration) Option {
	return func(o *options) {
		if o.timeout = min(d, maxTimeout); d <= 0 {
			o.timeout = DefaultTimeout
		}
	}
}

// WithRefusedTimeout ends calls once all addresses have refused every connection for d,
// and there has been none yet: for programs at whose terminal somebody waits, and who has
// started no server. Under or equal to zero, as by default, calls go on until they end
// otherwise. An address that does not answer, or a name that is not found, does not count.
func WithRefusedTimeout(d time.Duration) Option { return func(o *options) { o.refused = max(d, 0) } }

// WithConnections spreads calls over n connections per node; one is enough for
// some 100,000 small calls a second.
func WithConnections(n int) Option { return func(o *options) { o.connections = max(n, 1) } }
