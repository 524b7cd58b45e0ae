package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/norn-dev/norn/register"
)

// Config says who gossips, and how.
type Config struct {
	// Self is this node.
	Self register.Member
	// Cluster is whose gossip it is; not zero.
	Cluster register.UUID
	// Packets is the UDP socket of the peer port. New takes it over: Close closes
	// it, and New itself when it fails.
	Packets net.PacketConn
	// Advertise is what others are told of where they reach the peer port, HOST:PORT; "" is
	// the socket's own address.
	Advertise string
	// At is the address that Advertise leads to, as [Reach] finds it; zero: it has one in
	// it, or is "".
	At netip.AddrPort
	// Client is where clients reach this node, HOST:PORT; may be "".
	Client string
	// Zone of this node; may be "".
	Zone string
	// Keys are shared by all nodes: 16, 24 or 32 bytes each. The first one
	// encrypts, all decrypt: a key is changed by adding the new one last on all
	// nodes, then moving it to the front, then removing the old one. None: all
	// is in plain.
	Keys [][]byte
	// Home tells whether nodes are known to be at an address: their streams give way to
	// no stranger's. nil: no address is.
	Home func(netip.Addr) bool
	// Seeds are what [Gossip.SetSeeds] takes, to begin with.
	Seeds []string
	// Interval is between two probes of this node; 0 is one second. A peer that
	// does not answer is dead to the others after seven to ten of them, and all
	// other intervals follow from it.
	Interval time.Duration
	// LookUp finds the addresses of seeds; nil: those with a name are not asked.
	LookUp LookUp
	// Dial opens a stream to a peer; nil dials TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Logger gets the events; nil: nothing is logged.
	Logger *slog.Logger
	// OnChange gets the other members that seem to be alive, by name and
	// incarnation, whenever they have changed; never two calls at a time. Changes
	// wait while it runs, and so does Close. A node that was wiped is listed in
	// both incarnations until the old one is found dead. nil: nobody is told.
	OnChange func(alive []Peer)
}

var (
	// ErrConfig is returned when a Config lacks something, or a key has a wrong length.
	ErrConfig = errors.New("gossip: bad configuration")
	// ErrAddress is returned when there is no address to tell others.
	ErrAddress = errors.New("gossip: the peer port listens on every address and none is advertised")
	// ErrLookUp is returned when the name that is advertised leads nowhere now.
	ErrLookUp = errors.New("gossip: the advertised name cannot be looked up")
)

// LookUp finds the addresses behind HOST:PORT, at least one.
type LookUp func(ctx context.Context, address string) ([]netip.AddrPort, error)

// addressed takes HOST:PORT with an address for host.
func addressed(_ context.Context, address string) ([]netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	return []netip.AddrPort{at}, nil
}

// Awareness is by how much a node that is slow itself stretches its probes, at
// most: on a machine without processor time it is the prober that is late.
const Awareness = 4

// Gossip is a running member. Make one with [New].
type Gossip struct {
	log       *slog.Logger
	lookUp    LookUp
	transport *transport
	watch     *watcher
	list      *memberlist.Memberlist
	search    chan struct{} // room for one: seeds have changed
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu    sync.Mutex // guards seeds
	seeds []string
	end   sync.Mutex // one Leave or Close at a time; guards ended
	ended bool
}

// Check tells whether New would take a configuration, whatever its names lead to. Errors
// wrap [ErrConfig] or [ErrMeta].
func (c *Config) Check() error {
	if c.Packets == nil {
		return fmt.Errorf("%w: no socket", ErrConfig)
	}
	if _, err := parseName(memberName(c.Self)); err != nil {
		return err
	}
	if c.Cluster == (register.UUID{}) || c.Interval < 0 {
		return fmt.Errorf("%w: it needs a cluster, and no negative interval", ErrConfig)
	}
	if _, err := keyring(c); err != nil {
		return err
	}
	_, err := c.meta(c.Packets.LocalAddr().String())
	return err
}

// meta is what others are told of this node; at is its address where none is advertised.
func (c *Config) meta(at string) ([]byte, error) {
	return appendMeta(nil, Peer{Address: cmp.Or(c.Advertise, at), Client: c.Client, Zone: c.Zone})
}

// New starts to gossip. It waits for nobody. Errors wrap [ErrConfig], [ErrAddress] or
// [ErrMeta].
func New(c Config) (*Gossip, error) {
	if c.Packets == nil {
		return nil, c.Check()
	}
	g, err := start(c)
	if err != nil {
		return nil, errors.Join(err, c.Packets.Close())
	}
	return g, nil
}

func start(c Config) (*Gossip, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.LookUp == nil {
		c.LookUp = addressed
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	name, self := memberName(c.Self), c.At
	ring, err := keyring(&c)
	if err == nil && !self.IsValid() {
		self, err = Reach(context.Background(), c.Advertise, c.Packets.LocalAddr(), addressed)
	}
	if errors.Is(err, ErrLookUp) {
		err = fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if err != nil {
		return nil, err
	}
	meta, err := c.meta(self.String())
	if err != nil {
		return nil, err
	}
	g := &Gossip{log: c.Logger, lookUp: c.LookUp, transport: newTransport(&c, self), watch: newWatcher(name, meta, c.Logger), search: make(chan struct{}, 1)}
	if g.list, err = memberlist.Create(g.settings(&c, name, ring)); err != nil {
		g.transport.cancel()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.SetSeeds(c.Seeds)
	running, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.transport.start()
	g.running.Go(func() { g.seek(running) })
	if c.OnChange != nil {
		g.running.Go(func() { g.watch.tell(running, c.OnChange) })
	}
	return g, nil
}

// keyring holds the keys; nil: there are none.
func keyring(c *Config) (*memberlist.Keyring, error) {
	if len(c.Keys) == 0 {
		return nil, nil
	}
	ring, err := memberlist.NewKeyring(c.Keys, c.Keys[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return ring, nil
}

// settings are memberlist's. Everything follows from the probe interval; the
// proportions are those of its defaults for a local network.
func (g *Gossip) settings(c *Config, name string, ring *memberlist.Keyring) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Name, m.Transport, m.Label = name, g.transport, c.Cluster.String()
	m.Keyring, m.GossipVerifyIncoming, m.GossipVerifyOutgoing = ring, true, true
	m.BindPort = int(g.transport.self.Port()) // for what comes without a port: nothing of ours
	m.ProbeInterval, m.ProbeTimeout = c.Interval, c.Interval/2
	m.GossipInterval, m.PushPullInterval = c.Interval/5, 15*c.Interval
	m.GossipToTheDeadTime = 30 * c.Interval
	// A small cluster has one accuser only: wait a little longer for the refutation.
	m.SuspicionMult = 5
	m.AwarenessMaxMultiplier = Awareness
	m.TCPTimeout = streamTime
	// A dead member may return at another address as soon as it is known dead:
	// its incarnation says that it is the same one.
	m.DeadNodeReclaimTime = time.Nanosecond
	m.EnableCompression = false // messages are small and encrypted
	m.Delegate, m.Events, m.Alive = g.watch, g.watch, g.watch
	m.Logger = log.New(&chatter{log: c.Logger}, "", 0)
	return m
}

// streamTime bounds each step of a stream: dial, read, write.
const streamTime = 5 * time.Second

// Ingest takes over an incoming connection that begins with [StreamByte]. If
// that byte was read already, the connection must give it again. It returns at
// once; the connection is closed when it has served, also on an error, which is
// [ErrBusy] or [ErrClosed].
func (g *Gossip) Ingest(c net.Conn) error { return g.transport.ingest(c) }

// Alive lists the other members that seem to be alive, by name and incarnation.
func (g *Gossip) Alive() []Peer { return g.watch.peers() }

// Stats counts since the start.
type Stats struct {
	PacketsIn, PacketsOut, PacketsRefused uint64
	BytesOut                              uint64 // in packets
	StreamsIn, StreamsOut, StreamsRefused uint64
}

// Stats gives the counts.
func (g *Gossip) Stats() Stats {
	s := &g.transport.stats
	return Stats{
		PacketsIn: s.packetsIn.Load(), PacketsOut: s.packetsOut.Load(), PacketsRefused: s.packetsRefused.Load(), BytesOut: s.bytesOut.Load(),
		StreamsIn: s.streamsIn.Load(), StreamsOut: s.streamsOut.Load(), StreamsRefused: s.streamsRefused.Load(),
	}
}

// Leave tells the others that this node goes, so that they need not find out.
// It waits until they were told, at most for the limit, which must be over
// zero. After it only Close is of use.
func (g *Gossip) Leave(limit time.Duration) error {
	g.end.Lock()
	defer g.end.Unlock()
	if g.ended {
		return ErrClosed
	}
	g.cancel() // nobody is looked for any more
	if err := g.list.Leave(max(limit, time.Millisecond)); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	return nil
}

// Close stops. Others find out by themselves unless Leave has told them. It
// waits for a call of OnChange that is under way.
func (g *Gossip) Close() error {
	g.end.Lock()
	defer g.end.Unlock()
	if g.ended {
		return nil
	}
	g.ended = true
	g.cancel()
	err := g.list.Shutdown()
	g.running.Wait()
	return err
}
