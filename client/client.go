package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// DefaultPort is added to addresses that name none.
const DefaultPort = "7711"

var usualUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Client is a connection to a cluster through any of its nodes. Its methods may
// be called from any goroutine.
type Client struct {
	caller
	session   [16]byte // names this process in claims
	requestNo atomic.Uint64
	lost      lostClaims
	ids       sampler
}

// caller makes calls: it knows the nodes, has the connections, and tries again
// where that can help.
type caller struct {
	opts      options
	nodes     []*node
	turn      atomic.Uint64 // spreads calls over connections
	preferred atomic.Uint32 // index of the node that calls begin with
	info      atomic.Pointer[Info]
	clock     atomic.Pointer[timeThere]
	place     atomic.Pointer[placement]
	shared    atomic.Pointer[sharedDeadline]

	base    context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // dials and keepers
}

// Info is what the node that said hello last told of itself and its cluster.
type Info struct {
	ClusterID     string         // UUID text
	Node          string         // name of the node
	ServerVersion string         // build version of the node
	Limits        *nornv1.Limits // do not change
	Partitions    int            // number of partitions, fixed for the cluster
	Eta           time.Duration  // how far clocks may differ
	// Replicas is how many copies of every task there are to be, Copies how many there can
	// be now: fewer while the cluster has fewer nodes, as one that is being made. Then a
	// quorum is a majority of those only. 0: the node does not know.
	Replicas, Copies int
}

// Dial makes a client of the nodes at addrs (host:port; the port defaults to
// 7711, a number alone is a port of this machine; commas separate several in one string). It does not connect: the first
// call does, or [Client.Connect]. The error is an ErrInvalid for addresses that
// make no sense or what is no cluster ID, or ctx's error when it has ended.
func Dial(ctx context.Context, addrs []string, opts ...Option) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Client{caller: caller{opts: defaults()}}
	for _, set := range opts {
		set(&c.opts)
	}
	if id := c.opts.cluster; id != "" && !usualUUID.MatchString(id) {
		return nil, fmt.Errorf("%w: %.64q; norn cluster status shows it, as 01234567-89ab-4cde-8f01-23456789abcd", ErrClusterID, id)
	}
	for _, list := range addrs {
		for addr := range strings.SplitSeq(list, ",") {
			full, err := address(strings.TrimSpace(addr))
			if err != nil {
				return nil, err
			}
			c.nodes = append(c.nodes, &node{addr: full, slots: make([]slot, c.opts.connections)})
		}
	}
	if len(c.nodes) == 0 {
		return nil, fmt.Errorf("%w: no address of a node", ErrInvalid)
	}
	if _, err := rand.Read(c.session[:]); err != nil {
		return nil, fmt.Errorf("norn: no randomness: %w", err)
	}
	c.ids.seed()
	c.base, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

// address completes an address with the default port.
func address(addr string) (string, error) {
	if addr == "" {
		return "", fmt.Errorf("%w: an address is empty", ErrInvalid)
	}
	if n, err := strconv.ParseUint(addr, 10, 16); err == nil && n > 0 {
		return net.JoinHostPort("127.0.0.1", addr), nil
	}
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		return "", fmt.Errorf("%w: %q is an address with a scheme; write %s", ErrInvalid, addr, strings.TrimRight(rest, "/"))
	}
	if ip, err := netip.ParseAddr(addr); err == nil && ip.Is6() {
		return "", fmt.Errorf("%w: %q is IPv6 without brackets; write [%s] or [%s]:%s", ErrInvalid, addr, addr, addr, DefaultPort)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		var bad *net.AddrError
		if errors.As(err, &bad) && bad.Err == "missing port in address" {
			return net.JoinHostPort(strings.Trim(addr, "[]"), DefaultPort), nil
		}
		return "", fmt.Errorf("%w: %q is not host:port", ErrInvalid, addr)
	}
	if port == "" {
		return net.JoinHostPort(host, DefaultPort), nil
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return "", fmt.Errorf("%w: %q: the port is no number from 1 to 65535, nor the name of one", ErrInvalid, addr)
	}
	return addr, nil
}

// Connect makes sure that there is a connection, so that Info is filled in. It
// tries as long as any call does; the errors are those of a call.
func (c *Client) Connect(ctx context.Context) error { return c.connect(ctx, "connect") }

// connect is Connect on behalf of another operation.
func (c *caller) connect(ctx context.Context, op string) error {
	return c.do(ctx, &request{op: op, method: uint16(nornv1.Method_METHOD_PING), body: message{m: &nornv1.Ping{}},
		decode: func(flags uint16, b []byte) error {
			var m nornv1.PingReply
			if err := decodeInto(flags, b, &m); err != nil {
				return err
			}
			c.placed(m.GetPlacement())
			return nil
		}})
}

// Info is the zero value before the first connection.
func (c *Client) Info() Info {
	i := c.info.Load()
	if i == nil {
		return Info{}
	}
	all := *i
	if p := c.place.Load(); p != nil {
		all.Copies, all.Replicas = p.copies, p.replicas
	}
	return all
}

// Close ends every call with ErrClosed and closes the connections. It returns
// when all goroutines of the client have ended. The error is always nil.
func (c *Client) Close() error {
	c.cancel()
	for _, n := range c.nodes {
		n.close()
	}
	c.running.Wait()
	return nil
}

func (c *caller) log() *slog.Logger { return c.opts.logger }
