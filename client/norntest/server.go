package norntest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/transport"
	"github.com/norn-dev/norn/vnode"
)

const (
	partitions = 4 // enough for tests to notice that there are several
	// eta is short, so that a claim lapses soon after its lease.
	eta = 100 * time.Millisecond
	// forever is how old a task may be: a clock that is put ahead a year must not
	// make the IDs of clients too old.
	forever = 10 * 365 * 24 * time.Hour
	// maxWaiters, maxQueues and maxClaims are a node's defaults.
	maxWaiters, maxQueues, maxClaims = 65536, 10000, 1_000_000
)

var (
	// ErrDown is returned by dials to a server that is down or closed.
	ErrDown = errors.New("norntest: the server is down")
	self    = register.Member{Node: "norntest", Incarnation: register.Incarnation{1}}
	cluster = register.Cluster{ID: register.UUID{'n', 'o', 'r', 'n', 't', 'e', 's', 't'}, Partitions: partitions, Replicas: 1}
)

// Options configure a [Server]; the zero value will do.
type Options struct {
	// MaxAttempts of tasks that do not say; 0: 25, as real servers.
	MaxAttempts int
	// RetryInitial is the delay after the first failure, doubled after each
	// further one up to an hour; 0: a second, as real servers.
	RetryInitial time.Duration
	// Seed of all that the server draws at random; 0 counts as any other.
	Seed uint64
	// Logger of the transport; nil: nothing is logged.
	Logger *slog.Logger
}

// Server is a cluster of one node. Make it with [Start] or [New].
type Server struct {
	opts    Options
	began   time.Time
	ahead   atomic.Int64 // ns, what Advance has added
	facts   *memstore.Mem
	cells   *memstore.Mem
	running atomic.Pointer[life] // nil while it is down

	mu     sync.Mutex // guards the fields below, and that one life follows the other
	lives  uint64
	closed bool
	failed error // why a life ended by itself
}

// Start starts a server that ends with the test. A server that fails, which is a
// bug, fails the test.
func Start(t testing.TB, options ...Options) *Server {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("norntest: %v", err)
		}
	})
	return s
}

// New starts a server; Close ends it. An error is a bug.
func New(o Options) (*Server, error) {
	leaveTheMillennium()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = proto.DefaultAttempts
	}
	if o.RetryInitial <= 0 {
		o.RetryInitial = time.Second
	}
	s := &Server{opts: o, began: time.Now(), facts: memstore.New(), cells: memstore.New()}
	if err := register.Format(s.cells, cluster, self); err != nil {
		return nil, err
	}
	return s, s.Up()
}

// leaveTheMillennium goes to a time at which there are IDs. Bubbles of
// testing/synctest begin on 1 January 2000, the IDs of tasks (KSUIDs) in 2014.
// Within a bubble this takes no time.
func leaveTheMillennium() {
	if now := time.Now().UTC(); now.Year() == 2000 {
		time.Sleep(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Sub(now))
	}
}

// config is what a core is made with.
func (s *Server) config() core.Config {
	return core.Config{
		Self: self, Address: self.Node, Cluster: cluster, Eta: eta, Buffer: eta, Slack: vnode.SlackOf(eta), GCGrace: forever, Lease: proto.DefaultLease,
		Retry:    crdt.Retry{MaxAttempts: uint32(s.opts.MaxAttempts), Initial: s.opts.RetryInitial, Max: time.Hour, Multiplier: 2000, Jitter: 200},
		HeadSize: 256, MaxPayload: proto.MaxPayload, MaxWaiters: maxWaiters, MaxQueues: maxQueues, MaxClaims: maxClaims,
		Retention: retention.Rule{What: nornv1.Retention_RETENTION_DELETE, After: 24 * time.Hour}, CollectInterval: time.Minute,
		Rand: rand.New(rand.NewPCG(s.opts.Seed, s.lives)),
	}
}

// Up starts a server that is down. It has everything that was acknowledged, and
// the claims that were held. The error is a bug, or ErrDown after Close.
func (s *Server) Up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrDown
	}
	if s.running.Load() != nil {
		return nil
	}
	s.lives++
	l, err := s.begin()
	if err != nil {
		return err
	}
	l.settle()
	s.running.Store(l)
	return nil
}

// Down ends all connections; dials are refused until Up.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down()
}

func (s *Server) down() {
	l := s.running.Swap(nil)
	if l == nil {
		return
	}
	s.failed = errors.Join(s.failed, l.end())
}

// Close ends the server. The error tells of a failure inside, which is a bug.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.down()
	return s.failed
}

// Now is the server's time.
func (s *Server) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// estimateError is by how much clients may be wrong about the time of a server: half of the
// way there and back.
const estimateError = 10 * time.Millisecond

// Advance puts the server's clock ahead, as if d and 10 ms had passed there and nowhere
// else, and returns when what is due by then is done. The 10 ms have what a client has put
// off by d be due: it knows the server's time no better. What is below zero does nothing.
func (s *Server) Advance(d time.Duration) {
	if d <= 0 {
		return
	}
	s.ahead.Add(int64(d + estimateError))
	if l := s.running.Load(); l != nil {
		l.settle()
	}
}

// time is the server's time as the core wants it.
func (s *Server) time() clock.Time {
	now, ahead := time.Now(), s.ahead.Load()
	return clock.Time{Wall: now.UnixNano() + ahead, Mono: 1 + int64(now.Sub(s.began)) + ahead}
}

// Dial makes a client of the server; the caller closes it.
func (s *Server) Dial(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	return client.Dial(ctx, []string{self.Node}, append([]client.Option{client.WithDialer(s.dial)}, opts...)...)
}

// Client makes a client that is closed with the test, before the server ends.
func (s *Server) Client(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := s.Dial(context.Background(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("norntest: %v", err)
		}
	})
	return c
}

// begin opens a life over the stores.
func (s *Server) begin() (*life, error) {
	cells, err := register.OpenLocal(s.cells)
	if err != nil {
		return nil, fmt.Errorf("norntest: %w", err)
	}
	known, err := register.ReadLocal(s.cells)
	if err != nil {
		return nil, fmt.Errorf("norntest: %w", err)
	}
	c, err := core.Open(s.config(), s.facts, s.time())
	if err != nil {
		return nil, fmt.Errorf("norntest: %w", err)
	}
	l := &life{
		s: s, core: c, register: cells, listener: transport.NewMemListener(0),
		wake: make(chan struct{}, 1), served: make(chan struct{}), conns: make(map[uint64]*transport.Conn),
	}
	l.available.Store(&core.Available{})
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.server = transport.NewServer(transport.Config{
		MaxFrame: proto.MaxFrame, MaxInFlight: proto.MaxInFlight, Logger: s.opts.Logger,
		ErrorBody: func(err error) transport.Body {
			e := proto.Invalid("%v", err)
			if errors.Is(err, transport.ErrBacklog) { // as a node says it
				e.Kind, e.Effect, e.RetryAfter = nornv1.ErrorKind_ERROR_KIND_OVERLOADED, nornv1.Effect_EFFECT_UNKNOWN, time.Second
			}
			return &answer{m: e.Proto()}
		},
	}, port{l})
	go func() {
		defer close(l.served)
		_ = l.server.Serve(context.Background(), l.listener) // until end
	}()
	cells.Subscribe(l.changed)
	l.changed(known)
	l.loop.Go(l.run)
	return l, nil
}
