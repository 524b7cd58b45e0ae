package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/seldom"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"
)

// Network is this node's connections to the others. Its methods may be called
// from any goroutine.
type Network struct {
	cfg     Config
	life    uint64 // random, of this process
	memory  *transport.Memory
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines
	raft    RaftPort
	cluster atomic.Pointer[register.UUID]
	joins   joins
	asking  chan struct{} // a token per hello that is asked back about
	journal journal
	counts  counts
	hushed  atomic.Bool // no connections, for a while
	hellos  hellos

	refusals seldom.Line // in the log: anybody can cause them
	unjoined seldom.Line // likewise: requests to join that were refused

	arrivals arrivals // accepted connections, until they are closed or handed over

	mu        sync.Mutex // guards the fields below
	closing   bool
	peers     map[register.Member]*peer
	listeners map[net.Listener]struct{}
	sessions  map[sessionKey]*session
	lives     map[register.Incarnation]life
}

// peer is a node that is sent to.
type peer struct {
	control, bulk *lane
	kept          bool // by Keep
}

func (p *peer) lane(which Lane) *lane {
	if which == Bulk {
		return p.bulk
	}
	return p.control
}

// lastSend is when something was sent last, wall ns.
func (p *peer) lastSend() int64 { return max(p.control.last.Load(), p.bulk.last.Load()) }

// New makes a network. It dials from the first Send or Keep on; [Network.Serve]
// lets others in.
func New(cfg Config) *Network {
	cfg = cfg.withDefaults()
	n := &Network{
		cfg:       cfg,
		memory:    transport.NewMemory(cfg.Limits.ReadBytes),
		joins:     joins{most: [2]int{joinsUnreached * cfg.Limits.Joins, cfg.Limits.Joins}},
		asking:    make(chan struct{}, maxAsking),
		peers:     make(map[register.Member]*peer),
		listeners: make(map[net.Listener]struct{}),
		arrivals:  newArrivals(cfg.Limits.Conns, cfg.Limits.Greeting),
		sessions:  make(map[sessionKey]*session),
		lives:     make(map[register.Incarnation]life),
		hellos:    hellos{said: make(map[uint64]struct{})},
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	n.life = binary.LittleEndian.Uint64(b[:])
	n.raft.n = n
	n.cluster.Store(&cfg.Cluster)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.spawn(n.forget)
	n.spawn(func() { keepWatch(n) })
	return n
}

// Cluster is the cluster this node belongs to; zero: none yet.
func (n *Network) Cluster() register.UUID { return *n.cluster.Load() }

// SetCluster makes this node a member of a cluster, once: others are dialled and
// let in from now on.
func (n *Network) SetCluster(c register.UUID) { n.cluster.Store(&c) }

// Send hands over a message; it must not change afterwards. It never blocks.
// false means that the message was dropped; true does not mean that it arrives.
func (n *Network) Send(to register.Member, m message.PeerMessage) bool {
	return n.SendAll([]message.Send{{To: to, Message: m}}) > 0
}

// SendAll hands over messages as Send does; those to one peer share a frame as far as they
// are small, and leave in one write. It gives the number of frames.
func (n *Network) SendAll(all []message.Send) (frames int) {
	var out outgoings
	for i := range all {
		if e, which, ok := n.encode(&all[i]); ok {
			out.add(all[i].To, which, e)
		}
	}
	lanes := make([]*lane, 0, len(out.all))
	for i := range out.all {
		o := &out.all[i]
		if l := n.queue(o.to, nornv1.PeerMethod_PEER_METHOD_ROUND, &o.round, o.which); l != nil {
			frames++
			if !slices.Contains(lanes, l) {
				lanes = append(lanes, l)
			}
		}
	}
	links := make([]*transport.Link, 0, len(lanes))
	for _, l := range lanes {
		if link := l.up(); link != nil {
			links = append(links, link)
		}
	}
	transport.FlushAll(links)
	return frames
}

// encode makes an entry of a message.
func (n *Network) encode(s *message.Send) (e entry, which Lane, ok bool) {
	method, p, which, err := encode(s.Message)
	if err == nil && p.Size() > MaxMessage {
		err = fmt.Errorf("%w: %d bytes, over %d", ErrTooLarge, p.Size(), MaxMessage)
	}
	if err != nil {
		n.counts.unsent.Add(1)
		if n.journal.once("unsent " + err.Error()) {
			n.cfg.Logger.Error("peer.unsent", "peer", s.To.Node, "error", err)
		}
		return e, which, false
	}
	return entry{method, p}, which, true
}

func (n *Network) queue(to register.Member, method nornv1.PeerMethod, p packet, which Lane) *lane {
	at := n.peer(to)
	if at == nil {
		n.counts.unsent.Add(1)
		return nil
	}
	l := at.lane(which)
	if which == Bulk { // the control connection has the signs of life
		at.control.start()
	}
	if l.hold(method, p) {
		return l
	}
	return nil
}

// peer finds a peer, or makes it. It gives nil for this node itself, for too
// many peers and after Close.
func (n *Network) peer(to register.Member) *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[to]
	if p != nil || n.closing || to == n.cfg.Self || len(n.peers) >= n.cfg.Limits.Peers {
		return p
	}
	p = &peer{control: newLane(n, to, Control), bulk: newLane(n, to, Bulk)}
	n.peers[to] = p
	return p
}

// Keep names the peers to which a control connection is kept at all times, as
// far as they can be reached: all other members. Those that are no longer named
// are forgotten some time after the last message to them.
func (n *Network) Keep(members []register.Member) {
	for _, m := range members {
		n.arrivals.learn(n.cfg.Addresses(m))
		if p := n.peer(m); p != nil {
			p.control.start()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now().UnixNano()
	for m, p := range n.peers {
		keeps := slices.Contains(members, m)
		if p.kept && !keeps {
			p.control.last.Store(max(now, p.lastSend()))
		}
		p.kept = keeps
	}
}

// Home tells whether members are known to be at an address.
func (n *Network) Home(at netip.Addr) bool { return n.arrivals.isHome(at.Unmap()) }

// forget is the goroutine that ends the lanes of peers that nobody needs.
func (n *Network) forget() {
	tick := time.NewTicker(n.cfg.Timing.Forget / 2)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case now := <-tick.C:
			n.mu.Lock()
			for m, p := range n.peers {
				if !p.kept && p.lastSend() < now.Add(-n.cfg.Timing.Forget).UnixNano() {
					delete(n.peers, m)
					p.control.cancel()
					p.bulk.cancel()
				}
			}
			n.mu.Unlock()
		}
	}
}

// spawn starts a goroutine, unless the network is closed.
func (n *Network) spawn(fn func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		return false
	}
	n.running.Go(fn)
	return true
}

// Close ends all connections and listeners; what waits is dropped. No call of
// the Handler is under way when it returns. It must not be called from one.
func (n *Network) Close() {
	n.mu.Lock()
	n.closing = true
	n.cancel() // first: who finds something closed looks whether it is over
	for ln := range n.listeners {
		_ = ln.Close() // Serve sees it
	}
	n.arrivals.close()
	n.mu.Unlock()
	n.running.Wait()
	n.refusals.Close()
	n.unjoined.Close()
}

// up and down pass on that a control connection came and went.
func (n *Network) up(l *lane) {
	n.cfg.Logger.Log(n.ctx, level(l, slog.LevelInfo), "peer.up", "peer", l.to.Node, "incarnation", l.to.Incarnation.String(), "lane", l.which.String(), "address", l.address)
	if l.which == Control {
		n.cfg.Handler.Up(l.to)
	}
}

func (n *Network) down(l *lane) {
	if l.which == Control {
		n.cfg.Handler.Down(l.to)
	}
}

// level is that of a line about a lane: two connections come and go together, and
// a line about one of them is enough.
func level(l *lane, of slog.Level) slog.Level {
	if l.which == Bulk {
		return slog.LevelDebug
	}
	return of
}

// say logs why a lane has no connection.
func (n *Network) say(l *lane, err error) {
	n.cfg.Logger.Log(n.ctx, level(l, slog.LevelWarn), "peer.down", "peer", l.to.Node, "incarnation", l.to.Incarnation.String(), "lane", l.which.String(), "reason", err)
}

// linkConfig is that of a connection on which so many bytes may wait.
func (n *Network) linkConfig(queue int) transport.LinkConfig {
	t := &n.cfg.Timing
	return transport.LinkConfig{
		MaxFrame: maxFrame(Bulk), MaxOutboxBytes: queue, HelloTimeout: t.Hello,
		FrameTimeout: t.Frame, WriteTimeout: t.Write, IdleTimeout: t.Idle, Memory: n.memory,
	}
}

// maxFrame bounds what is read on a lane.
func maxFrame(l Lane) int {
	if l == Control {
		return maxOrdered + 1<<10
	}
	return MaxMessage + 1<<10
}

// counts are what a network has counted.
type counts struct {
	unsent, received, unknown, malformed, damaged, crowded, refused atomic.Uint64
}

// Status is what a network knows of itself.
type Status struct {
	Received  uint64       // messages of the core
	Unsent    uint64       // messages that had no peer to wait for
	Unknown   uint64       // frames of methods that this build does not know
	Malformed uint64       // frames and connections that broke a rule
	Damaged   uint64       // frames that did not fit their sums
	Crowded   uint64       // frames passed over because they were too large, or while others were
	Refused   uint64       // connections that were refused
	Peers     []PeerStatus // in order of name and incarnation
}

// PeerStatus is what a network knows of a peer that it sends to.
type PeerStatus struct {
	Member        register.Member
	Control, Bulk LaneStatus
}

// LaneStatus is one of the connections to a peer.
type LaneStatus struct {
	Up      bool
	Address string // of the connection, or of the last one
	Queued  int    // bytes that wait
	Sent    uint64 // messages taken
	Bytes   uint64 // of these
	Dropped uint64 // messages that did not fit, or had no connection
	Err     error  // why there is no connection; nil: there is, or it was not tried
}

// Status gives the state of all peers that are sent to.
func (n *Network) Status() Status {
	c := &n.counts
	s := Status{
		Received: c.received.Load(), Unsent: c.unsent.Load(), Unknown: c.unknown.Load(),
		Malformed: c.malformed.Load(), Damaged: c.damaged.Load(), Crowded: c.crowded.Load(), Refused: c.refused.Load(),
	}
	n.mu.Lock()
	peers := maps.Clone(n.peers)
	n.mu.Unlock()
	for m, p := range peers { // a lane locks before the network does, never after
		s.Peers = append(s.Peers, PeerStatus{Member: m, Control: p.control.status(), Bulk: p.bulk.status()})
	}
	slices.SortFunc(s.Peers, func(a, b PeerStatus) int {
		return cmp.Or(cmp.Compare(a.Member.Node, b.Member.Node), slices.Compare(a.Member.Incarnation[:], b.Member.Incarnation[:]))
	})
	return s
}

func (l *lane) status() LaneStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LaneStatus{
		Up: l.state == laneUp, Address: l.address, Queued: l.waiting,
		Sent: l.sent.Load(), Bytes: l.bytes.Load(), Dropped: l.dropped.Load(), Err: l.err,
	}
	if l.link != nil {
		s.Queued = l.link.Queued()
	}
	return s
}
