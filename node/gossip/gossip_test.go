package gossip

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/norn-dev/norn/register"
)

// patience is how long anything may take on a busy machine.
const patience = 60 * time.Second

// interval is between two probes in tests.
const interval = 100 * time.Millisecond

// TestMain wants that nothing is left, in the end. A probe of memberlist's may be
// under way when its member is closed.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		limit := time.After(patience)
		for err := goleak.Find(); err != nil; err = goleak.Find() {
			select {
			case <-limit:
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			case <-time.After(interval):
			}
		}
	}
	os.Exit(code)
}

// node is a gossip with its peer port, on which other connections come in too.
type node struct {
	*Gossip
	address  string
	listener net.Listener
	accepted sync.WaitGroup
	told     chan []Peer // the latest that OnChange was told
	log      *lines
}

// lines keeps the log.
type lines struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var ourCluster = register.UUID{1, 2, 3}

func member(name string, incarnation byte) register.Member {
	return register.Member{Node: name, Incarnation: register.Incarnation{incarnation, 0xfe}}
}

// ports opens TCP and UDP on one port. Somebody else may have one of them for a
// moment.
func ports(t testing.TB, address string) (net.Listener, net.PacketConn) {
	t.Helper()
	limit, tick := time.After(patience), time.Tick(interval)
	for {
		l, err := net.Listen("tcp", address)
		if err == nil {
			var p net.PacketConn
			if p, err = net.ListenPacket("udp", l.Addr().String()); err == nil {
				return l, p
			}
			_ = l.Close()
		}
		select {
		case <-tick:
		case <-limit:
			t.Fatalf("no port is free for TCP and UDP: %v", err)
		}
	}
}

// start starts a node at an address, and changes its configuration before.
func startNode(t testing.TB, self register.Member, address string, change ...func(*Config)) *node {
	t.Helper()
	l, p := ports(t, address)
	n := &node{address: l.Addr().String(), listener: l, told: make(chan []Peer, 1), log: &lines{}}
	c := Config{
		Self: self, Cluster: ourCluster, Packets: p, Client: "client-of-" + self.Node + ":1", Zone: "zone-" + self.Node, Interval: interval,
		Logger: slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnChange: func(alive []Peer) {
			select {
			case <-n.told:
			default:
			}
			n.told <- alive
		},
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if n.Gossip, err = New(c); err != nil {
		t.Fatal(err)
	}
	n.accepted.Go(n.accept)
	t.Cleanup(n.stop)
	return n
}

// accept hands streams of gossip in and closes the others.
func (n *node) accept() {
	for {
		c, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.accepted.Go(func() {
			_ = c.SetReadDeadline(time.Now().Add(patience))
			r := bufio.NewReader(c)
			if first, err := r.Peek(1); err != nil || first[0] != StreamByte {
				_ = c.Close()
				return
			}
			_ = n.Ingest(peeked{c, r})
		})
	}
}

// peeked gives bytes again that were looked at.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// stop ends a node without a word to the others.
func (n *node) stop() {
	_ = n.listener.Close()
	_ = n.Close()
	n.accepted.Wait()
}

func seeds(addresses ...string) func(*Config) { return func(c *Config) { c.Seeds = addresses } }

// cluster starts nodes n1.. of which all know the first.
func cluster(t testing.TB, count int, change ...func(*Config)) []*node {
	t.Helper()
	nodes := []*node{startNode(t, member("n1", 1), "127.0.0.1:0", change...)}
	for i := 2; i <= count; i++ {
		nodes = append(nodes, startNode(t, member(fmt.Sprintf("n%d", i), 1), "127.0.0.1:0", append(change, seeds(nodes[0].address))...))
	}
	return nodes
}

// eventually asks until a condition holds.
func eventually(t testing.TB, what string, nodes []*node, holds func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !holds() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			for _, n := range nodes {
				t.Logf("%s sees %v\n%s", n.address, n.Alive(), n.log.String())
			}
			t.Fatalf("never: %s", what)
		}
	}
}

// names gives who is seen alive, with the first byte of the incarnation.
func names(peers []Peer) []string {
	var out []string
	for _, p := range peers {
		out = append(out, fmt.Sprintf("%s#%d", p.Member.Node, p.Member.Incarnation[0]))
	}
	return out
}

// sees waits until a node sees exactly these.
func sees(t *testing.T, n *node, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s sees %v", n.address, want), []*node{n}, func() bool { return slices.Equal(names(n.Alive()), want) })
}

func TestAllSeeEachOther(t *testing.T) {
	nodes := cluster(t, 5)
	for i, n := range nodes {
		var want []string
		for j := range nodes {
			if i != j {
				want = append(want, fmt.Sprintf("n%d#1", j+1))
			}
		}
		sees(t, n, want...)
		eventually(t, "OnChange tells what Alive says", nodes, func() bool {
			select {
			case told := <-n.told:
				n.told <- told
				return slices.Equal(told, n.Alive())
			default:
				return false
			}
		})
	}
	got := nodes[4].Alive()[0]
	want := Peer{Member: member("n1", 1), Address: nodes[0].address, Client: "client-of-n1:1", Zone: "zone-n1"}
	if got != want {
		t.Errorf("n5 knows %+v, want %+v", got, want)
	}
	// Addresses come by streams: all may be known before the first probe.
	eventually(t, "n1 counts packets and streams", nodes, func() bool {
		s := nodes[0].Stats()
		return s.PacketsIn > 0 && s.PacketsOut > 0 && s.StreamsIn > 0
	})
	if s := nodes[0].Stats(); s.PacketsRefused != 0 || s.StreamsRefused != 0 {
		t.Errorf("n1 counts %+v", s)
	}
}

func TestDeathIsNoticed(t *testing.T) {
	nodes := cluster(t, 3)
	sees(t, nodes[0], "n2#1", "n3#1")
	sees(t, nodes[1], "n1#1", "n3#1")
	nodes[2].stop()
	sees(t, nodes[0], "n2#1")
	sees(t, nodes[1], "n1#1")
}

// TestLeaveIsHeard wants that nobody has to find out: with these probes it
// would take minutes.
func TestLeaveIsHeard(t *testing.T) {
	slow := func(c *Config) { c.Interval = 20 * time.Second }
	nodes := cluster(t, 3, slow)
	sees(t, nodes[0], "n2#1", "n3#1")
	sees(t, nodes[1], "n1#1", "n3#1")
	if err := nodes[2].Leave(patience); err != nil {
		t.Error(err)
	}
	began := time.Now()
	nodes[2].stop()
	if took := time.Since(began); took > 15*time.Second { // a probe takes 20
		t.Errorf("Close took %s", took)
	}
	sees(t, nodes[0], "n2#1")
	sees(t, nodes[1], "n1#1")
	if err := nodes[2].Leave(patience); !errors.Is(err, ErrClosed) {
		t.Errorf("Leave after Close: %v", err)
	}
}

// TestReturns starts a dead node again: in the same incarnation, in another one
// at the same address, and in that one at another address.
func TestReturns(t *testing.T) {
	nodes := cluster(t, 3)
	first, last := nodes[0], nodes[2]
	sees(t, first, "n2#1", "n3#1")
	last.stop()
	last = startNode(t, member("n3", 1), last.address, seeds(first.address))
	sees(t, last, "n1#1", "n2#1")
	sees(t, first, "n2#1", "n3#1")

	last.stop()
	last = startNode(t, member("n3", 2), last.address, seeds(first.address))
	sees(t, first, "n2#1", "n3#2") // not n3#1: nobody answers by that name
	sees(t, nodes[1], "n1#1", "n3#2")

	last.stop()
	last = startNode(t, member("n3", 2), "127.0.0.1:0", seeds(first.address))
	eventually(t, "n1 knows the new address", nodes, func() bool {
		alive := first.Alive()
		return len(alive) == 2 && alive[1].Address == last.address
	})
	sees(t, last, "n1#1", "n2#1")
}

// TestSeedsChange starts a node that knows nobody, then somebody who is not
// there yet.
func TestSeedsChange(t *testing.T) {
	a, b := startNode(t, member("a", 1), "127.0.0.1:0"), startNode(t, member("b", 1), "127.0.0.1:0")
	l, p := ports(t, "127.0.0.1:0")
	later := l.Addr().String()
	if err := errors.Join(l.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	b.SetSeeds([]string{later, b.address, "no.such.host.invalid:1", "nonsense"})
	c := startNode(t, member("c", 1), later)
	sees(t, b, "c#1")
	sees(t, a)
	b.SetSeeds([]string{a.address})
	sees(t, a, "b#1", "c#1")
	sees(t, c, "a#1", "b#1")
}

// TestCutNetworkHeals cuts three nodes apart until all have forgotten each
// other, and lets them talk again.
func TestCutNetworkHeals(t *testing.T) {
	var cuts []*cut
	nodes := cluster(t, 3, func(c *Config) {
		w := &cut{PacketConn: c.Packets}
		cuts = append(cuts, w)
		c.Packets, c.Dial = w, w.dial
	})
	sees(t, nodes[0], "n2#1", "n3#1")
	for _, n := range nodes[1:] {
		n.SetSeeds([]string{nodes[0].address, nodes[1].address, nodes[2].address})
	}
	nodes[0].SetSeeds([]string{nodes[0].address, nodes[1].address, nodes[2].address})
	for _, w := range cuts {
		w.set(true)
	}
	for _, n := range nodes {
		sees(t, n)
	}
	forgotten := time.After(40 * interval) // GossipToTheDeadTime is 30 of them
	<-forgotten
	for _, w := range cuts {
		w.set(false)
	}
	sees(t, nodes[0], "n2#1", "n3#1")
	sees(t, nodes[1], "n1#1", "n3#1")
	sees(t, nodes[2], "n1#1", "n2#1")
}

// cut is a network that can be off: nothing goes out.
type cut struct {
	net.PacketConn
	mu  sync.Mutex // guards off
	off bool
}

func (c *cut) set(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

func (c *cut) is() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

func (c *cut) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.is() {
		return len(b), nil
	}
	return c.PacketConn.WriteTo(b, to)
}

func (c *cut) dial(ctx context.Context, address string) (net.Conn, error) {
	if c.is() {
		return nil, errors.New("cut")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// TestOthersAreRefused lets a node of another cluster, and one with another
// key, knock.
func TestOthersAreRefused(t *testing.T) {
	secret, other := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	ours := startNode(t, member("a", 1), "127.0.0.1:0", func(c *Config) { c.Keys = [][]byte{secret} })
	strangers := []*node{
		startNode(t, member("cluster", 1), "127.0.0.1:0", seeds(ours.address), func(c *Config) { c.Cluster, c.Keys = register.UUID{9}, [][]byte{secret} }),
		startNode(t, member("key", 1), "127.0.0.1:0", seeds(ours.address), func(c *Config) { c.Keys = [][]byte{other} }),
		startNode(t, member("none", 1), "127.0.0.1:0", seeds(ours.address)),
	}
	friend := startNode(t, member("b", 1), "127.0.0.1:0", seeds(ours.address), func(c *Config) { c.Keys = [][]byte{other, secret} })
	// The friend seals with what only it knows: one half of a change of keys.
	eventually(t, "all have knocked", append(strangers, ours), func() bool {
		return ours.Stats().StreamsIn >= 4 && strings.Contains(ours.log.String(), "gossip.key")
	})
	for _, n := range append(strangers, ours, friend) {
		if alive := n.Alive(); len(alive) != 0 {
			t.Errorf("%s sees %v", n.address, alive)
		}
	}
	for _, n := range strangers {
		eventually(t, "the stranger knocks again, and in vain", strangers, func() bool { return n.Stats().StreamsOut >= 3 })
	}
	if alive := ours.Alive(); len(alive) != 0 {
		t.Errorf("it sees %v", alive)
	}
}

// TestKeyIsChanged has nodes in two steps of a change.
func TestKeyIsChanged(t *testing.T) {
	before, after := []byte("0123456789abcdef"), []byte("0123456789abcdef01234567")
	a := startNode(t, member("a", 1), "127.0.0.1:0", func(c *Config) { c.Keys = [][]byte{before, after} })
	b := startNode(t, member("b", 1), "127.0.0.1:0", seeds(a.address), func(c *Config) { c.Keys = [][]byte{after, before} })
	sees(t, a, "b#1")
	sees(t, b, "a#1")
}

func TestStreamByte(t *testing.T) {
	b, err := memberlist.AddLabelHeaderToPacket(nil, ourCluster.String())
	if err != nil || b[0] != StreamByte || len(b) != labelHeader+len(ourCluster.String()) {
		t.Errorf("got %v, %v", b, err)
	}
}

func TestBadConfigurations(t *testing.T) {
	for want, change := range map[error]func(*Config){
		ErrConfig:  func(c *Config) { c.Keys = [][]byte{[]byte("short")} },
		ErrMeta:    func(c *Config) { c.Self.Node = "" },
		ErrAddress: func(c *Config) { c.Advertise = "no.such.host.invalid:1" },
	} {
		p, err := net.ListenPacket("udp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Self: member("a", 1), Cluster: ourCluster, Packets: p, Advertise: "127.0.0.1:1"}
		change(&c)
		if _, err := New(c); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if err := p.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v: the socket is still open", want)
		}
	}
	p, err := net.ListenPacket("udp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Self: member("a", 1), Cluster: ourCluster, Packets: p}); !errors.Is(err, ErrAddress) {
		t.Errorf("a wildcard and nothing advertised: %v", err)
	}
	if _, err := New(Config{Self: member("a", 1), Cluster: ourCluster}); !errors.Is(err, ErrConfig) {
		t.Errorf("no socket: %v", err)
	}
}
