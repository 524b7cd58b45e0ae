package node

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/archive"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/internal/names"
	"github.com/norn-dev/norn/internal/viaproxy"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/held"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/node/queuestats"
	"github.com/norn-dev/norn/node/sysclock"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/transport"
	"github.com/norn-dev/norn/vnode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/norn-dev/norn/node/metrics"
)

type registerResult = register.Result

// Options are what a node is given beside its configuration.
type Options struct {
	// Logger gets the node's events; nil: nothing is logged.
	Logger *slog.Logger
	// Version is the build's version, shown in hello.
	Version string
	// Access judges who comes and what they ask for; nil: everybody may do everything.
	Access *access.Desk
	// TLS of the client port; nil: plain.
	TLS *tls.Config
	// Logins counts and slows failed logins; nil: the node has a watch of its own.
	Logins *logins.Watch
	// Peers is how nodes prove to each other that they are of one cluster; zero:
	// not at all.
	Peers peer.Security
	// Fatal is called when the node must not go on: a failed sync, a damaged
	// record, a disk without its last bytes. It must not return to the caller
	// in production; nil logs and exits with status 70.
	Fatal func(error)
	// Starting, when it ends, ends a start that waits for others, as for the store of a
	// snapshot; nil: nothing does.
	Starting context.Context
	// Memory is what the process may have, bytes: buffers of the ports follow it, and
	// [FitMemory] what is configured; 0: any number.
	Memory uint64
	// Resolver looks up the names of other nodes; nil: the system's.
	Resolver *net.Resolver
	// FreeBytes reads the free bytes of the data disk; nil asks the system.
	FreeBytes func(dir string) (uint64, error)

	// Spans hears of requests of the client port; nil: nobody does.
	Spans Spans
	// Collectors are metrics of the process that the node's are shown with.
	Collectors []prometheus.Collector

	slowDisk func(what int) // tests hold a write up here; nil: nothing
}

// Spans hears of requests of the client port. It must not block.
type Spans interface {
	Begun(conn, request uint64, method nornv1.Method)
	Ended(conn, request uint64, err *proto.Error)
	Closed(conn uint64)
}

// Node is a running node. Make one with [Start].
type Node struct {
	cfg     *config.Config
	opts    Options
	log     *slog.Logger
	clock   *sysclock.Clock
	self    register.Member
	cluster register.Cluster

	ports    ports
	members  *membership
	names    *names.Book
	begun    atomic.Bool // it is in a cluster, and what follows is set
	dir      *directory
	facts    *store.Pebble
	register register.Register
	archive  *archive.Writer // nil without
	core     *core.Core      // the loop's alone
	inbox    *inbox.Inbox
	rounds   chan round
	handed   uint64        // the last round that was handed to the syncer; the loop's alone
	synced   atomic.Uint64 // the last round of which the syncer says that it is durable
	settled  chan struct{} // holds one token when synced has changed
	reading  chan struct{} // one token per read under way
	held     *held.Views   // for reads that go on
	queued   atomic.Int64  // reads under way and waiting for a token
	conns    sync.Map      // uint64 -> *transport.Conn
	locals   sync.Map      // uint64 -> *local
	rights   chan struct{} // one token per request about rights under way
	calls    *calls
	metrics  *metrics.Metrics
	decided  *queuestats.Table
	stall    diskWatch
	crowded  atomic.Bool // the disk is nearly full: enqueues are refused
	marked   uint64      // mark of the superblock; the loop's alone
	drained  atomic.Bool // the core knows that the node is about to stop

	listener  net.Listener
	server    *transport.Server
	ctx       context.Context // ends when the node stops
	cancel    context.CancelFunc
	entry     context.Context // ends when the node begins to stop: nobody waits to be let in any more
	shut      context.CancelFunc
	available atomic.Pointer[core.Available]
	loaded    atomic.Bool    // the loop is under load, see [pacing]
	running   sync.WaitGroup // everything but loop and syncer
	pipeline  sync.WaitGroup // loop and syncer
	joining   sync.WaitGroup // the wait to be let into a cluster
	copying   sync.WaitGroup // snapshots of the register
	failed    chan struct{}  // closed by the first fatal error
	failOnce  sync.Once
	failure   error
}

// maxReads bounds the reads that run beside the loop: each holds an iterator
// and up to a page of tasks.
const maxReads = 8

// maxQueuedReads bounds the reads that wait for their turn: each holds a few
// KiB, and all of them hold up the store's clearing away of what is old.
const maxQueuedReads = 16384

// Start opens the data directory and starts the node. The client port is open
// when it returns; it answers `unavailable` until the node is ready, which for
// one that joins a cluster may take its time. It returns an error that wraps
// store.ErrLocked or ErrDirectory when the directory cannot be used, and ErrDamaged when it is damaged.
func Start(cfg *config.Config, opts Options) (*Node, error) {
	book := names.New(opts.Resolver)
	n, err := begin(cfg, opts, book)
	if err != nil {
		book.Close()
	}
	return n, judged(err)
}

func begin(cfg *config.Config, opts Options, book *names.Book) (*Node, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Starting == nil {
		opts.Starting = context.Background()
	}
	if opts.Logins == nil {
		opts.Logins = logins.New(opts.Logger)
	}
	full := *cfg
	full.Complete()
	n := &Node{
		cfg: &full, opts: opts, log: opts.Logger, clock: sysclock.New(&full),
		inbox: inbox.New(cfg.MaxInbox), rounds: make(chan round, 1), settled: make(chan struct{}, 1),
		names: book, reading: make(chan struct{}, maxReads), rights: make(chan struct{}, maxRights), metrics: metrics.New(), failed: make(chan struct{}),
	}
	n.held = held.New(func() store.Snapshot { return n.facts.Snapshot() })
	n.decided = queuestats.New(queuestats.Options{Queues: full.MaxQueues, Named: full.MetricsQueues}, n.clock.Now().Wall)
	n.calls = newCalls(n, inbox.NewScale(carried))
	n.stall.clock, n.stall.slow = n.clock, opts.slowDisk
	if n.clock.Wrong.Load() != nil {
		n.log.Warn("clock.set_wrong", "offset", cfg.TestClockOffset.String(), "rate_ppm", cfg.TestClockRate)
	}
	n.available.Store(&core.Available{})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.metrics.Registry.MustRegister(queuestats.NewCollector(n.ctx, n.decided, n.calls), queuestats.NewTenants(n.ctx, func(asked queuestats.TenantsAsked) bool {
		if n.begun.Load() {
			n.inbox.Post(asked)
		}
		return n.begun.Load()
	}), opts.Logins)
	health(n)
	n.entry, n.shut = context.WithCancel(n.ctx)
	listener, err := listen(opts.Starting, cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("client port: %w", err)
	}
	n.listener = listener
	if n.ports, err = listenPeers(opts.Starting, cfg.PeerListen); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if n.dir, err = openDirectory(opts.Starting, n.cfg, &asking{ask: peer.Dialer{Security: opts.Peers, Build: opts.Version, Dial: n.names.Dial}.Probe}, n.openStore); err != nil {
		return nil, errors.Join(err, listener.Close(), n.ports.close())
	}
	n.self, n.cluster = n.dir.self, n.dir.cluster
	if err := n.force(); err != nil {
		return nil, errors.Join(err, listener.Close(), n.ports.close(), n.dir.close())
	}
	n.dir.sayRestored(n.cfg, n.log)
	n.dir.sayHealed(n.log)
	n.members = newMembership(n)
	if !n.dir.joins() {
		outgrown, err := n.members.outgrown(opts.Starting)
		if err == nil && !outgrown {
			err = n.begin(n.ctx)
		}
		if err != nil {
			n.cancel()
			n.joining.Wait()
			return nil, errors.Join(err, n.members.close(), listener.Close(), n.ports.tcp.Close(), n.dir.close())
		}
	}
	n.serve()
	return n, nil
}

// begin starts what a member of a cluster does.
func (n *Node) begin(ctx context.Context) error {
	n.facts, n.cluster = n.dir.facts, n.dir.cluster
	if err := n.members.open(ctx); err != nil {
		return err
	}
	n.register = n.members.group.Load()
	n.opts.Access.Serve(n.register)
	if err := n.open(); err != nil {
		return err
	}
	n.marked = n.dir.super.last.Mark
	n.begun.Store(true)
	n.members.begin()
	n.running.Go(func() { talker{n.members}.unmet(ctx) })
	n.pipeline.Go(func() { n.loop(ctx) })
	n.pipeline.Go(n.syncer)
	if n.cfg.SnapshotEvery > 0 {
		n.copying.Go(func() { copier{n}.run(ctx) })
	}
	n.log.Info("node.started", "incarnation", n.self.Incarnation.String(), "cluster", n.cluster.ID.String(),
		"partitions", n.cluster.Partitions, "listen", n.listener.Addr().String(), "peers", n.ports.tcp.Addr().String(), "data", n.cfg.Data, "gossip", n.members.gossips())
	return nil
}

// open makes the core over the stores.
func (n *Node) open() (err error) {
	if n.cfg.ArchiveDir != "" {
		n.archive, err = archive.Open(n.cfg.ArchiveDir, archive.Options{Cluster: n.cluster.ID.String(), Node: n.self.Node})
		if err != nil {
			return err
		}
	}
	var seed [32]byte
	_, _ = rand.Read(seed[:])
	n.core, err = core.Open(core.Config{
		Self: n.self, Address: clientAddress(n), Zone: n.cfg.Zone, Cluster: n.cluster,
		Mark: n.dir.super.last.Mark, SetBack: n.dir.setBack,
		Eta: n.cfg.Eta, Buffer: n.cfg.Buffer, Slack: vnode.SlackOf(n.cfg.Buffer), GCGrace: n.cfg.GCGrace, Lease: n.cfg.DefaultLease,
		Retry: crdt.Retry{
			MaxAttempts: uint32(n.cfg.MaxAttempts), Initial: n.cfg.RetryInitial, Max: n.cfg.RetryMax,
			Multiplier: uint32(n.cfg.RetryMultiplier * 1000), Jitter: uint32(n.cfg.RetryJitter * 1000),
		},
		HeadSize: n.cfg.HeadSize, MaxPayload: n.cfg.MaxPayload, MaxWaiters: n.cfg.MaxWaiters, MaxQueues: n.cfg.MaxQueues, MaxClaims: n.cfg.MaxClaims,
		DiskReserve: uint64(n.cfg.DiskReserve), Quarantine: int64(n.cfg.Quarantine),
		Retention: retention.Rule{What: retentionOf(n.cfg.RetentionPolicy), After: n.cfg.Retention, Dead: n.cfg.DeadRetention},
		Sessions:  n.sessions(), CollectInterval: n.cfg.CollectInterval, Archive: n.archive != nil, Common: true, Repair: n.cfg.RepairInterval,
		History: n.decided.History,
		Rand:    mathrand.New(mathrand.NewChaCha8(seed)),
	}, n.facts, n.clock.Now())
	return err
}

// sessions is how workers are looked after.
func (n *Node) sessions() session.DispatcherConfig {
	c := n.cfg
	return session.DispatcherConfig{
		Timeouts: session.Timeouts{
			Period: c.SessionPeriod, HeartbeatGap: c.SessionGap, CheckGap: 2*c.SessionCheck + 3*c.SessionPeriod, LoseAfter: c.SessionLose,
		},
		CheckPeriod: c.SessionCheck, NameLease: c.NameLease, Bump: c.SessionBump,
	}
}

func (n *Node) openStore(dir string) (*store.Pebble, error) {
	o := store.PebbleOptions{Dir: dir, Logger: n.log, Fatal: n.fatal, Cache: int64(n.cfg.CacheSize), MemTable: uint64(n.cfg.MemTableSize), Files: share(4, factFiles), WriteBack: vnode.Rewritten, ShortLived: vnode.ShortLived}
	if filepath.Base(dir) == registerDir { // small, and written rarely
		o.Cache, o.MemTable, o.Files, o.WriteBack, o.ShortLived = 1<<20, 1<<20, share(16, registerFiles), "", ""
	}
	return store.OpenPebble(o)
}

// serve starts what needs no cluster: the ports, and the look at the disk.
func (n *Node) serve() {
	n.running.Go(func() { n.watchDisk(n.ctx) })
	n.running.Go(func() { n.stall.watch(n.ctx, n) })
	n.running.Go(func() { doorkeeper(n) })
	if n.cfg.TestClockFile != "" {
		n.running.Go(func() { n.clock.Follow(n.ctx, n.cfg, n.log) })
	}
	n.running.Go(func() {
		if err := n.members.network.Serve(n.ports.tcp); err != nil && n.ctx.Err() == nil {
			n.fatal(fmt.Errorf("peer port: %w", err))
		}
	})
	door, port := door{n}, api{n, n.calls.scale}
	client := transport.Config{
		MaxFrame: proto.MaxFrame, MaxInFlight: n.cfg.MaxInFlight, MaxConns: n.cfg.MaxConnections,
		HelloTimeout: n.cfg.HelloTimeout, FrameTimeout: n.cfg.FrameTimeout, WriteTimeout: n.cfg.WriteTimeout,
		IdleTimeout: n.cfg.IdleTimeout, TLS: n.opts.TLS, Logger: n.log, ErrorBody: errorBody, Unshaken: door.unshaken, Moving: port.moving,
	}
	fitTransport(&client, n.opts.Memory)
	n.server = transport.NewServer(client, port)
	n.running.Go(func() {
		if err := n.server.Serve(n.ctx, viaproxy.Listen(n.listener, viaproxy.Options{From: n.cfg.ProxyFrom, Within: n.cfg.HelloTimeout, Logger: n.log})); err != nil && !errors.Is(err, transport.ErrServerClosed) && n.ctx.Err() == nil {
			n.fatal(fmt.Errorf("client port: %w", err))
		}
	})
	if n.dir.joins() {
		n.joining.Go(func() { n.join(n.ctx) })
	} else if n.begun.Load() {
		n.joining.Go(func() { n.checkSeeds(n.ctx) })
	}
}

// handOff is how long a node that stops waits for others to lead what it led:
// an election, and some more.
const handOff = 2 * time.Second

// handLeadership waits until others lead what this node led: the core has asked
// them to. Alone it has nothing to wait for.
func (n *Node) handLeadership(ctx context.Context) {
	n.members.mu.Lock()
	alone := len(n.members.up) == 0
	n.members.mu.Unlock()
	if alone {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOff)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !n.drained.Load() || n.metrics.Leading.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-n.ctx.Done():
			return
		case <-n.failed:
			return
		case <-look.C:
		}
	}
}

// Stop ends the node: waiting requests are sent away, replies on their way are
// delivered, the stores are closed. When ctx ends first, connections are cut.
func (n *Node) Stop(ctx context.Context) error {
	left := Left(n)
	n.inbox.Post(message.Drain{})
	n.handLeadership(ctx)
	n.shut()
	defer n.opts.Logins.Close()
	err := errors.Join(n.server.Shutdown(ctx), n.calls.shutdown(ctx))
	n.members.leave()
	n.cancel()
	n.joining.Wait()
	n.pipeline.Wait()
	n.copying.Wait()
	err = errors.Join(err, n.members.close())
	n.names.Close()
	n.running.Wait()
	n.held.Close()
	if failed := n.Alive(); failed == nil || errors.Is(failed, ErrStartAgain) { // a failed store is not touched again
		if !n.dir.joins() && !n.crowded.Load() { // on a disk that is full it would be no end as it should be
			if err := n.dir.end(); err != nil {
				n.log.Warn("node.end_unnoted", "error", err)
			}
		}
		if left {
			err = errors.Join(err, n.dir.noteLeft(n.cfg.Data))
		}
		err = errors.Join(err, n.dir.close())
	}
	n.log.Info("node.stopped")
	return err
}

// Alive is the reason why the node cannot go on, or nil.
func (n *Node) Alive() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// Failed is closed when the node cannot go on; [Node.Failure] says why.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Failure is the reason after Failed is closed.
func (n *Node) Failure() error { return n.failure }

// Addr is the address of the client port.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// Gatherer gives the node's metrics.
func (n *Node) Gatherer() prometheus.Gatherer { return n.metrics.Registry }

// PeerAddr is the address of the port for other nodes.
func (n *Node) PeerAddr() net.Addr { return n.ports.tcp.Addr() }

// Ready tells whether the node can take enqueues, and hand out claims.
func (n *Node) Ready() (enqueue, claim bool) {
	a := n.available.Load()
	well := !n.stall.is.Load()
	return a.Enqueue && well && !n.crowded.Load(), a.Claim && well
}

// Filled tells whether a node holds every copy that was planned for it when it started: until
// then no other node should be stopped for it.
func Filled(n *Node) bool { return n.available.Load().Filled }

// Spare tells whether a node can be stopped without taking the majority from a partition or
// from the register, as far as it sees.
func Spare(n *Node) bool {
	a := n.available.Load()
	return a.Removed || a.Needed == 0 && !a.Voter
}

// LeadsRegister tells whether a node leads the register, as far as it knows: of one cluster two
// may think so for a moment.
func LeadsRegister(n *Node) bool { return n.members.group.Load().Status().Leader == n.self }

// giveWay says that the node has to be stopped and started again; nothing is wrong
// with it.
func (n *Node) giveWay() {
	n.failOnce.Do(func() {
		n.failure = ErrStartAgain
		close(n.failed)
	})
}

// fatal stops the node for good: what is on disk stays, nothing more is said.
func (n *Node) fatal(err error) {
	err = judged(err)
	n.failOnce.Do(func() {
		n.failure = err
		close(n.failed)
	})
	n.log.Error("node.fatal", "error", err)
	if n.opts.Fatal != nil {
		n.opts.Fatal(err)
		return
	}
	exit(70)
}

// placement tells clients in which partitions to draw IDs: those that take enqueues now. While
// this node has little to do it names only those of them that it leads, as their tasks are taken and
// handed out here, without a message to another leader. Under load all nodes share the work.
func (n *Node) placement() *nornv1.Placement {
	can := n.available.Load()
	p := &nornv1.Placement{
		Partitions: uint32(n.cluster.Partitions), Enqueueable: can.Enqueueable, CutOff: can.CutOff, Replicas: uint32(can.Replicas), Copies: uint32(can.Copies),
		Window: uint32(id.WindowSize(can.Nodes, n.cluster.Partitions)),
	}
	if can.Led != nil && !n.loaded.Load() {
		p.Enqueueable = can.Led
	}
	if p.Enqueueable == nil {
		p.Enqueueable = make([]byte, (n.cluster.Partitions+7)/8)
	}
	return p
}

func (n *Node) limits() *nornv1.Limits {
	return &nornv1.Limits{
		MaxFrameBytes: proto.MaxFrame, MaxPayloadBytes: uint32(n.cfg.MaxPayload), MaxBatchTasks: proto.MaxBatchTasks,
		MaxBatchBytes: proto.MaxBatchBytes, MaxDependencies: proto.MaxDependencies, MaxInFlight: uint32(n.cfg.MaxInFlight),
		MinLeaseSeconds: 1, MaxLeaseSeconds: (24 * time.Hour).Seconds(), MaxWaitSeconds: proto.MaxWait.Seconds(),
	}
}
