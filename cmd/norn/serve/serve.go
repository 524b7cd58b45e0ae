package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/internal/memory"
	"github.com/norn-dev/norn/internal/viaproxy"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/web"

	"github.com/prometheus/client_golang/prometheus"
)

// leftLook is between two looks at whether the node has left its cluster.
const leftLook = 100 * time.Millisecond

// look is between two looks at whether the node is ready.
const look = 5 * time.Millisecond

// destroyLook is between two looks at whether the cluster was destroyed, and
// destroyLooks is how many a node waits then: the register's leader tells the
// others, and they tell it what they have, several times a second.
const (
	destroyLook  = 500 * time.Millisecond
	destroyLooks = 6
)

// Options are what Run is given beside the configuration.
type Options struct {
	// Version is the build's, shown to clients.
	Version string
	// Logger is required.
	Logger *slog.Logger
	// Now ends a stop at once when it is closed.
	Now <-chan struct{}
	// Notify hears what a service manager is to know, as assignments of sd_notify(3);
	// nil: nobody does.
	Notify func(assignments ...string)
	// LinesLost counts the lines of the log that could not be written; nil: none is lost.
	LinesLost func() uint64
	// AuditTo is where the audit log goes that is to go to stderr.
	AuditTo io.Writer
	// Resolver looks up the names of other nodes; nil: the system's.
	Resolver *net.Resolver

	memory uint64 // that this process may have, bytes; 0: any number
}

// spareProcs is how many goroutines may run at once beyond the number of
// processors. Flushes and compactions run for milliseconds; with a place in
// addition, the system's scheduler decides between them and an answer, and
// not Go's, which lets them have ten milliseconds. A second place costs more threads that
// are woken for nothing than it saves (docs/archive/performance.md).
const spareProcs = 1

// Run runs a server until ctx ends, which stops it, or it fails. A node that has
// to be started again, is.
func Run(ctx context.Context, cfg *config.Config, o Options) error {
	if o.Notify == nil {
		o.Notify = func(...string) {}
	}
	if o.AuditTo == nil {
		o.AuditTo = os.Stderr
	}
	if o.LinesLost == nil {
		o.LinesLost = func() uint64 { return 0 }
	}
	if err := node.EnoughFiles(); err != nil {
		return err
	}
	node.FollowGroup(cfg.Data, cfg.ArchiveDir)
	var from string
	if o.memory, from = memory.Apply(); o.memory > 0 {
		o.Logger.Info("server.memory", "bytes", o.memory, "from", from)
	}
	for {
		err := run(ctx, cfg, o)
		if !errors.Is(err, node.ErrStartAgain) {
			return err
		}
		if ctx.Err() != nil {
			return nil // told to stop meanwhile: the next start does it
		}
	}
}

// processors has as many goroutines run at once as there are processors, and some more.
func processors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcs)
	}
}

func run(ctx context.Context, cfg *config.Config, o Options) error {
	processors()
	asked, cfg := cfg, node.FitMemory(node.Fit(cfg), o.memory)
	known, err := readCredentials(cfg, o.Logger)
	if err == nil {
		err = errors.Join(mayListen(cfg, &known), mayBeOpen(cfg), known.openDesk(cfg, &o))
	}
	if err != nil {
		return settingsError{err}
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", cfg.HTTPListen)
	if err != nil {
		return notStarted(ctx, fmt.Errorf("http port: %w", err), o.Logger)
	}
	// The pages are there before the node: a start may take its time, and who watches the
	// process is to see that it lives.
	watch, shown := logins.New(o.Logger), &backend{}
	pages := pagesOf(shown, cfg, &known, watch, &o)
	telling := exporter(ctx, cfg, shown, pages, &o)
	defer telling.close(&known, o.Logger)
	var running sync.WaitGroup
	failed := make(chan error, 1)
	running.Go(func() {
		if err := pages.Serve(viaproxy.Listen(listener, viaproxy.Options{From: cfg.ProxyFrom, Within: cfg.HelloTimeout, Logger: o.Logger})); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("http port: %w", err)
		}
	})
	saves := newBackups(cfg, &o)
	n, err := node.Start(cfg, node.Options{
		Logger: o.Logger, Logins: watch, Version: o.Version, Access: known.desk, TLS: known.tls, Peers: known.peers, Starting: ctx,
		Collectors: slices.Concat(collectors(&known, &o), telling.collectors(), saves.collectors()), Spans: telling.spans(), Resolver: o.Resolver, Memory: o.memory,
	})
	if err != nil {
		err = errors.Join(notStarted(ctx, err, o.Logger), shut(pages, cfg.StopTimeout))
		running.Wait()
		return err
	}
	shown.node.Store(n)
	warnOpen(cfg, &known, o.Logger)
	sayFitted(asked, cfg, o.Logger)
	unpace := pace(func() { node.Rest(n) })
	o.Notify("READY=1", "STATUS=taking requests at "+n.Addr().String())
	watching, stopWatching := context.WithCancel(ctx)
	running.Go(func() { announce(watching, n, listener.Addr(), o.Logger); saves.run(watching, n) })
	destroyed, left := make(chan struct{}), make(chan struct{})
	running.Go(func() { watchDestroyed(watching, n, destroyed) })
	running.Go(func() { watchLeft(watching, n, left) })
	select {
	case <-ctx.Done():
	case <-destroyed:
	case <-left:
		o.Logger.Info("server.left", "meaning", "all that this node had was handed over; an empty data directory and --join let the machine join again", "data", cfg.Data)
	case <-n.Failed():
		err = n.Failure()
	case err = <-failed:
	}
	stopWatching()
	unpace()
	o.stopping(err)
	err = errors.Join(err, stop(n, pages, cfg.StopTimeout, o.Now))
	running.Wait()
	select {
	case <-destroyed:
		err = erase(err, cfg.Data, o.Logger)
	default:
	}
	o.Logger.Info("server.stopped")
	return err
}

// pagesOf makes the server of the HTTP port.
func pagesOf(shown *backend, cfg *config.Config, known *credentials, watch *logins.Watch, o *Options) *web.Server {
	return web.NewServer(shown, web.Options{
		Logger: o.Logger, Room: node.Room(o.memory), Pprof: cfg.Pprof, Access: known.desk, TLS: known.tls, Logins: watch, MetricsAuth: cfg.MetricsAuth,
		Hosts: cfg.HTTPHosts, OwnHost: ownHosts(cfg, known.own), CORSOrigins: cfg.HTTPCORSOrigins, MaxConnections: cfg.MaxHTTPConnections,
		HeaderTimeout: cfg.HelloTimeout, BodyTimeout: cfg.FrameTimeout, WriteTimeout: cfg.WriteTimeout, IdleTimeout: cfg.HTTPIdleTimeout,
	})
}

// collectors are the metrics of the process.
func collectors(known *credentials, o *Options) []prometheus.Collector {
	all := []prometheus.Collector{known.certs, known.desk, linesLost(o.LinesLost)}
	if known.audit != nil {
		all = append(all, known.audit)
	}
	return all
}

// linesLost is the counter of the lines of the log that could not be written.
func linesLost(lost func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "norn_log_lines_lost_total", Help: "Lines of this node's log that could not be written: nobody reads them, or there is no room.",
	}, func() float64 { return float64(lost()) })
}

// stopping says that a node stops, and a process that does not start it again.
func (o *Options) stopping(why error) {
	o.Logger.Info("server.stopping")
	if !errors.Is(why, node.ErrStartAgain) {
		o.Notify("STOPPING=1", "STATUS=delivering answers")
	}
}

// notStarted is why a node did not start; nil: it was told to stop before it had. Damage is
// logged as it is later.
func notStarted(ctx context.Context, err error, log *slog.Logger) error {
	if errors.Is(err, node.ErrDamaged) {
		log.Error("node.fatal", "error", err)
		return err
	}
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	log.Info("server.stopped")
	return nil
}

// erase deletes what a node kept whose cluster was destroyed, unless it stopped with an
// error, and says what has become of it.
func erase(err error, data string, log *slog.Logger) error {
	if err == nil {
		err = node.Erase(data)
	}
	if err != nil {
		log.Error("server.not_erased", "meaning", "the cluster was destroyed, and what this node kept is not deleted, or not all of it: delete it by hand", "data", data, "error", err)
		return err
	}
	log.Warn("server.destroyed", "meaning", "the cluster was destroyed: what this node kept is deleted", "data", data)
	return nil
}

// warnOpen says which ports anybody may use who reaches them, and which secrets everybody may read.
func warnOpen(cfg *config.Config, known *credentials, log *slog.Logger) {
	warnReadable(cfg, log)
	if exposed(cfg.Listen) && !known.desk.Asks() && cfg.TLSClientCA == "" {
		log.Warn("server.open", "listen", cfg.Listen, "meaning", "everybody who reaches this address may do everything; see auth-token-file and tls-client-ca")
	}
	if exposed(cfg.HTTPListen) && !known.desk.Asks() && cfg.TLSClientCA == "" {
		log.Warn("server.http_open", "http_listen", cfg.HTTPListen, "meaning", "everybody who reaches this address may do everything; see auth-token-file and tls-client-ca")
	}
	if exposed(cfg.PeerListen) && known.peers.TLS == nil {
		log.Warn("server.peers_open", "peer_listen", cfg.PeerListen, "meaning", "who reaches this address can listen to nodes and pass for one; see peer-tls-cert")
	}
	if exposed(cfg.PeerListen) && cfg.GossipKeyFile == "" && len(known.peers.Secrets) == 0 {
		log.Warn("server.gossip_plain", "peer_listen", cfg.PeerListen, "meaning", "gossip: plain; who listens to nodes can spread false hints of who is alive, never false data; see gossip-key-file and peer-secret-file")
	}
	if known.shared && len(cfg.PeerTLSNames) == 0 {
		log.Warn("server.shared_ca", "settings", "tls-client-ca, peer-tls-ca", "meaning",
			"one authority signs the certificates of clients and those of nodes: a client whose certificate is good for servers too can pass for a node; say with peer-tls-names which names nodes have, or have another authority for them")
	}
}

// warnReadable says which files with secrets every user of this machine may read.
func warnReadable(cfg *config.Config, log *slog.Logger) {
	if runtime.GOOS == "windows" { // its rights are not in the mode
		return
	}
	for _, f := range []struct{ setting, file string }{
		{"auth-token-file", cfg.AuthTokenFile}, {"tls-key", cfg.TLSKey}, {"peer-tls-key", cfg.PeerTLSKey},
		{"peer-secret-file", cfg.PeerSecretFile}, {"gossip-key-file", cfg.GossipKeyFile},
	} {
		if f.file == "" {
			continue
		}
		const others = 0o004
		if at, err := os.Stat(f.file); err == nil && at.Mode().Perm()&others != 0 {
			log.Warn("server.readable_secret", "settings", f.setting, "file", f.file, "mode", at.Mode().Perm().String(),
				"meaning", "every user of this machine may read this secret; chmod o-r, or mount it for this user alone")
		}
	}
}

// mayBeOpen refuses to ask nobody who they are where others reach the node, unless that is meant.
func mayBeOpen(cfg *config.Config) error {
	if cfg.Auth != "open" || cfg.InsecureOpen || cfg.TLSClientCA != "" || !exposed(cfg.Listen) && !exposed(cfg.HTTPListen) {
		return nil
	}
	return fmt.Errorf("auth: open lets everybody who reaches %s or %s do everything; say auth: access and give an auth-token-file, listen on 127.0.0.1, or say --insecure-open where nobody else reaches that network", cfg.Listen, cfg.HTTPListen)
}

// mayListen refuses a first start that would let whoever reaches the peer port be a node. A
// directory that is there goes on: it held out before, and must not be kept from its cluster.
func mayListen(cfg *config.Config, known *credentials) error {
	if !exposed(cfg.PeerListen) || known.peers.TLS != nil || len(known.peers.Secrets) > 0 || cfg.InsecurePeers || node.Formatted(cfg.Data) {
		return nil
	}
	return fmt.Errorf("peer-listen: whoever reaches %s could pass for a node, and change and delete everything; give all nodes certificates (peer-tls-cert, peer-tls-key, peer-tls-ca) or at least a secret (peer-secret-file), "+
		"or say --insecure-peers where nobody else reaches that network", cfg.PeerListen)
}

// manyConnections are enough not to be told that there could be more.
const manyConnections = 4096

// sayFitted says that there are fewer connections than asked for.
func sayFitted(asked, fits *config.Config, log *slog.Logger) {
	if fits.MaxConnections < min(asked.MaxConnections, manyConnections) {
		log.Warn("server.few_files", "max_connections", fits.MaxConnections, "max_http_connections", fits.MaxHTTPConnections,
			"meaning", "this process may have too few files open (ulimit -n) for max-connections and max-http-connections: these are lowered, so that the stores can open theirs")
	}
}

// watchDestroyed closes a channel when the cluster has been destroyed for a
// while, in which the other nodes hear of it from this one.
func watchDestroyed(ctx context.Context, n *node.Node, destroyed chan<- struct{}) {
	tick := time.NewTicker(destroyLook)
	defer tick.Stop()
	for seen := 0; seen < destroyLooks; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.Destroyed() {
			seen++
		}
	}
	close(destroyed)
}

// watchLeft closes a channel when the node has left its cluster.
func watchLeft(ctx context.Context, n *node.Node, left chan<- struct{}) {
	tick := time.NewTicker(leftLook)
	defer tick.Stop()
	for !node.Left(n) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	close(left)
}

// stop ends the node, then the pages, so that /readyz tells as long as it can and
// answers are written. Clients that do not read theirs must not hold the process up:
// it takes no longer than within.
func stop(n *node.Node, pages *web.Server, within time.Duration, now <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-now:
			cancel()
		case <-stopped:
		}
	}()
	err := n.Stop(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = nil // connections were cut; nothing acknowledged is lost by that
	}
	return errors.Join(err, pages.Shutdown(ctx))
}

// shut ends the pages of a node that has not started.
func shut(pages *web.Server, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return pages.Shutdown(ctx)
}

// announce logs that the node is ready, once it is.
func announce(ctx context.Context, n *node.Node, pages net.Addr, log *slog.Logger) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if enqueue, claim := n.Ready(); enqueue && claim {
			log.Info("server.ready", "listen", n.Addr().String(), "http", pages.String())
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ownHosts tells which hosts are names of this node: those that its settings have, the
// machine's, and those in its certificate (nil: there is none).
func ownHosts(cfg *config.Config, shown *material) func(host string) bool {
	own := make(map[string]struct{})
	machine, _ := os.Hostname() // a machine without a name has none to be asked by
	for _, at := range []string{machine, cfg.Name, cfg.Listen, cfg.HTTPListen, cfg.PeerListen, cfg.PeerAdvertise} {
		if host, _, err := net.SplitHostPort(at); err == nil {
			at = host
		}
		own[strings.ToLower(strings.TrimSuffix(at, "."))] = struct{}{}
	}
	return func(host string) bool {
		if _, ok := own[host]; ok || shown == nil {
			return ok
		}
		pair, _ := shown.now()
		return pair.Leaf.VerifyHostname(host) == nil
	}
}

// exposed tells whether others than this machine may reach an address.
func exposed(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback())
}
