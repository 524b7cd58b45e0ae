package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/norn-dev/norn/internal/seldom"
)

// Limits of what comes in.
const (
	// maxPacket is more than any packet of ours: memberlist fills 1,400 bytes.
	maxPacket = 2048
	// maxStream holds the descriptions of register.MaxNodes nodes, at most a
	// KiB each, and as many dead ones.
	maxStream = 2 << 20
	// maxStreams incoming at a time. Past it the oldest one of a stranger gives way: who
	// opens streams and is silent would keep out nodes. A node whose stream is cut asks
	// again, or somebody else.
	maxStreams = 32
)

// ErrBusy is returned when too many streams are open already.
var ErrBusy = errors.New("gossip: too many streams")

// ErrClosed is returned after [Gossip.Close].
var ErrClosed = errors.New("gossip: closed")

// transport carries memberlist's packets and streams.
type transport struct {
	label   string
	plain   bool
	home    func(netip.Addr) bool
	conn    net.PacketConn
	dial    func(ctx context.Context, address string) (net.Conn, error)
	self    netip.AddrPort
	log     *slog.Logger
	stats   counters
	strange seldom.Line // in the log

	packets chan *memberlist.Packet
	streams chan net.Conn
	ctx     context.Context // ends with Shutdown
	cancel  context.CancelFunc
	reader  sync.WaitGroup

	mu       sync.Mutex // guards open, incoming, ended
	open     map[*stream]struct{}
	incoming []*stream // of open, the oldest first
	ended    bool
}

// counters are what [Stats] shows.
type counters struct {
	packetsIn, packetsOut, packetsRefused, bytesOut, streamsIn, streamsOut, streamsRefused atomic.Uint64
}

var _ memberlist.Transport = (*transport)(nil)

func newTransport(c *Config, self netip.AddrPort) *transport {
	t := &transport{
		label: c.Cluster.String(), plain: len(c.Keys) == 0, home: c.Home, conn: c.Packets, dial: c.Dial, self: self, log: c.Logger,
		strange: seldom.Line{Every: throttled}, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), open: make(map[*stream]struct{}),
	}
	if t.home == nil {
		t.home = func(netip.Addr) bool { return false }
	}
	if t.dial == nil {
		var d net.Dialer
		t.dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start begins to read packets.
func (t *transport) start() { t.reader.Go(t.read) }

// read hands on packets that look like ours.
func (t *transport) read() {
	b := make([]byte, maxPacket+1)
	for {
		n, from, err := t.conn.ReadFrom(b)
		now := time.Now()
		if err != nil {
			select {
			case <-t.ctx.Done():
				return
			case <-time.After(readPause): // a socket that fails must not take a processor
			}
			continue
		}
		if err := checkPacket(b[:n], t.label, t.plain); err != nil {
			t.stats.packetsRefused.Add(1)
			t.strange.Say(func(times int) {
				t.log.Warn("gossip.refused", "remote", from.String(), "bytes", n, "reason", err, "times", times)
			})
			continue
		}
		t.stats.packetsIn.Add(1)
		select {
		case t.packets <- &memberlist.Packet{Buf: append([]byte(nil), b[:n]...), From: from, Timestamp: now}:
		case <-t.ctx.Done():
			return
		}
	}
}

const readPause = 10 * time.Millisecond

// FinalAdvertiseAddr gives the address that was found at the start.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.self.Addr().AsSlice(), int(t.self.Port()), nil
}

// WriteTo sends a packet.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return time.Time{}, err
	}
	t.stats.packetsOut.Add(1)
	t.stats.bytesOut.Add(uint64(len(b)))
	_, err = t.conn.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// PacketCh gives incoming packets.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh gives incoming streams.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout opens a stream to a peer.
func (t *transport) DialTimeout(address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	c, err := t.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	// The label is written before memberlist sets a deadline.
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s, err := t.track(c, "", false)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	t.stats.streamsOut.Add(1)
	return s, nil
}

// ingest takes over an incoming stream.
func (t *transport) ingest(c net.Conn) error {
	s, err := t.track(c, t.label, true)
	if err != nil {
		t.stats.streamsRefused.Add(1)
		return errors.Join(err, c.Close())
	}
	t.stats.streamsIn.Add(1)
	select {
	case t.streams <- s:
		return nil
	case <-t.ctx.Done():
		return errors.Join(ErrClosed, s.Close())
	}
}

// track remembers an open stream, so that Shutdown can close it.
func (t *transport) track(c net.Conn, label string, incoming bool) (*stream, error) {
	s := &stream{Conn: c, label: label, plain: t.plain, home: incoming && t.home(addressOf(c))}
	s.closed = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.forget(s)
	}
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return nil, ErrClosed
	}
	var victim *stream
	if incoming && len(t.incoming) >= maxStreams {
		at := slices.IndexFunc(t.incoming, func(o *stream) bool { return !o.home })
		if at < 0 && s.home {
			at = 0
		}
		if at < 0 {
			t.mu.Unlock()
			return nil, ErrBusy
		}
		victim = t.incoming[at]
		t.forget(victim)
	}
	t.open[s] = struct{}{}
	if incoming {
		t.incoming = append(t.incoming, s)
	}
	t.mu.Unlock()
	if victim != nil {
		t.stats.streamsRefused.Add(1)
		_ = victim.Close() // it has said nothing that counts
	}
	return s, nil
}

// forget takes a stream out; mu is held.
func (t *transport) forget(s *stream) {
	delete(t.open, s)
	t.incoming = slices.DeleteFunc(t.incoming, func(o *stream) bool { return o == s })
}

// addressOf is where a connection comes from; zero: nowhere that is known.
func addressOf(c net.Conn) netip.Addr {
	at := c.RemoteAddr()
	if at == nil {
		return netip.Addr{}
	}
	from, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap()
}

// Shutdown closes the socket and all streams. It returns when nothing is read
// any more.
func (t *transport) Shutdown() error {
	t.mu.Lock()
	t.ended = true
	var open []*stream
	for s := range t.open { // Any order: all are closed.
		open = append(open, s)
	}
	t.mu.Unlock()
	t.cancel()
	err := t.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	for _, s := range open {
		_ = s.Close() // nobody waits for what it had to say
	}
	t.reader.Wait()
	t.strange.Close()
	return err
}

// Reach finds where the socket that is bound to local is reached: at the address that is
// advertised, HOST:PORT, else at its own. Errors wrap [ErrAddress], and [ErrLookUp] where the
// name may lead somewhere later.
func Reach(ctx context.Context, advertise string, local net.Addr, lookUp LookUp) (netip.AddrPort, error) {
	bound, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return netip.AddrPort{}, errors.Join(ErrAddress, err)
	}
	bound = netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port())
	if advertise == "" {
		if bound.Addr().IsUnspecified() {
			return netip.AddrPort{}, ErrAddress
		}
		return bound, nil
	}
	found, err := lookUp(ctx, advertise)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", ErrLookUp, err)
	}
	return nearest(found, bound), nil
}

// nearest picks of the addresses behind a name the one at which the socket is reached:
// its own, else one of its family. A name has addresses of both families where the
// machine does, and a socket that is bound to one address hears nothing of the other.
func nearest(found []netip.AddrPort, bound netip.AddrPort) netip.AddrPort {
	if bound.Addr().IsUnspecified() {
		return found[0]
	}
	if at := slices.IndexFunc(found, func(a netip.AddrPort) bool { return a.Addr() == bound.Addr() }); at >= 0 {
		return found[at]
	}
	at := slices.IndexFunc(found, func(a netip.AddrPort) bool { return a.Addr().Is4() == bound.Addr().Is4() })
	return found[max(at, 0)]
}
