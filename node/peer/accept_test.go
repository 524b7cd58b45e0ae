package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// say dials the node, says something and gives what is answered until the end.
func (n *testNode) say(b []byte) []byte {
	n.w.t.Helper()
	nc, err := n.w.dial(n.w.t.Context(), n.addr)
	if err != nil {
		n.w.t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(b); err != nil {
		return nil
	}
	answer, _ := io.ReadAll(nc) // any end will do
	return answer
}

// TestGossipIsHandedOn: untouched, first byte included, and it is no longer ours
// to close.
func TestGossipIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		handed := make(chan net.Conn, 1)
		a := w.add(who(1, 0), func(c *Config) { c.Gossip = func(nc net.Conn) { handed <- nc } })
		b := w.add(who(2, 0)) // does not gossip
		defer b.stop()
		nc, err := w.dial(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write([]byte{244, 3, 'a', 'b', 'c'}); err != nil {
			t.Fatal(err)
		}
		theirs := <-handed
		settle(time.Minute) // no time-out of ours
		a.stop()
		got := make([]byte, 5)
		if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, []byte{244, 3, 'a', 'b', 'c'}) {
			t.Errorf("handed on: %v, %v", got, err)
		}
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(nc, got[:1]); err != nil || got[0] != 'x' {
			t.Errorf("back: %q, %v", got[0], err)
		}
		if err := theirs.Close(); err != nil {
			t.Error(err)
		}
		if b.say([]byte{244, 1, 2}); b.log.count("begins with byte 244") != 1 {
			t.Errorf("where nobody gossips: %s", b.log.b.String())
		}
	})
}

// TestFirstFramesBeginWithZero: no frame of ours can be taken for gossip, TLS or
// HTTP.
func TestFirstFramesBeginWithZero(t *testing.T) {
	b := transport.AppendSummed(nil, transport.Frame{Request: 1, Body: make([]byte, maxHello)})
	if b[0] != firstFrame || b[1] > 1 {
		t.Errorf("the largest first frame begins with %v", b[:4])
	}
	if firstGossip == firstFrame || firstTLS == firstFrame {
		t.Error("first bytes are mixed up")
	}
}

// TestGarbage: whatever comes to the port, others are served, and nothing of it
// stays.
func TestGarbage(t *testing.T) {
	frame := func(method nornv1.PeerMethod, flags uint16, m gproto.Message) []byte {
		b, err := gproto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return transport.AppendSummed(nil, transport.Frame{Request: 1, Method: uint16(method), Flags: flags, Body: b})
	}
	hello := frame(nornv1.PeerMethod_PEER_METHOD_HELLO, 0, &nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(who(3, 0)), To: node(who(1, 0)), Cluster: testCluster[:], Lane: 1})
	facts := func(b string) []byte {
		return transport.AppendSummed(nil, transport.Frame{Method: uint16(nornv1.PeerMethod_PEER_METHOD_ROUND), Body: roundOf(nornv1.PeerMethod_PEER_METHOD_FACTS, []byte(b))})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0))
		defer a.stop()
		for _, c := range []struct {
			name, says string // in the answer
			bytes      []byte
		}{
			{name: "nothing"},
			{"half a length", "", []byte{0, 0}},
			{"zeros", "", make([]byte, 100)},
			{"ones", "", bytes.Repeat([]byte{255}, 100)},
			{"text", "nodes of a Norn cluster", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
			{"TLS", "\x15\x03", []byte{22, 3, 1, 2, 0, 1, 0, 1}},
			{"a frame over the limit", "", []byte{0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}},
			{"a frame of the client port", "clients have one of their own", frame(5, 0, &nornv1.RenewRequest{})},
			{"a client's hello", "clients have one of their own", frame(1, 0, &nornv1.Hello{MinVersion: MinVersion, MaxVersion: MaxVersion, ClusterId: testCluster.String()})},
			{"an answer", "none was asked for", frame(1, transport.FlagResponse, &nornv1.PeerHello{})},
			{"an unreadable hello", "", transport.AppendSummed(nil, transport.Frame{Request: 1, Method: 1, Body: []byte{255}})},
			{"an unreadable probe", "", transport.AppendSummed(nil, transport.Frame{Request: 1, Method: 4, Body: []byte{255}})},
			{"an unreadable join", "", transport.AppendSummed(nil, transport.Frame{Request: 1, Method: 3, Body: []byte{255}})},
			{"facts before hello", "cannot come first", facts("")},
			{"signs of life only", "", transport.AppendSummed(nil, transport.Frame{Method: 2})},
			{"a hello, then zeros", "", append(bytes.Clone(hello), make([]byte, 100)...)},
			{"a hello, then a large frame", "", append(bytes.Clone(hello), 0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 32)},
			{"a hello, then another", "", append(bytes.Clone(hello), hello...)},
			{"a hello, then malformed facts", "", append(append(bytes.Clone(hello), facts("\x12\xff")...), facts("\x08\x01")...)},
			{"a hello, then an unknown method", "", append(bytes.Clone(hello), transport.AppendSummed(nil, transport.Frame{Method: 999})...)},
		} {
			answer := a.say(c.bytes)
			if !bytes.Contains(answer, []byte(c.says)) {
				t.Errorf("%s: answer %q", c.name, answer)
			}
		}
		b := w.add(who(2, 0))
		defer b.stop()
		b.Send(who(1, 0), numbered(1))
		settle(time.Second)
		got := a.taken()
		if _, ok := got[0].(*message.Facts); !ok || len(got) != 2 || len(numbers(got)) != 1 {
			t.Errorf("came: %v", got)
		}
		if s := a.Status(); s.Unknown != 2 || s.Malformed < 10 {
			t.Errorf("%+v", s)
		}
		a.Network.mu.Lock()
		defer a.Network.mu.Unlock()
		a.arrivals.mu.Lock()
		defer a.arrivals.mu.Unlock()
		if silent := a.arrivals.lists[strange].Len(); len(a.arrivals.all) != 1 || len(a.sessions) != 1 || silent != 0 {
			t.Errorf("%d connections, %d sessions, %d silent", len(a.arrivals.all), len(a.sessions), silent)
		}
	})
}

// TestSignsOfLifeAreNoHello: whoever said nothing but that it lives kept its place among
// those that are to say who they are, for ever and without the secret.
func TestSignsOfLifeAreNoHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0), func(c *Config) { c.Limits.Greeting = 3 }), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		alive := transport.AppendSummed(nil, transport.Frame{Method: uint16(nornv1.PeerMethod_PEER_METHOD_ALIVE)})
		var open []net.Conn
		for range 3 {
			nc, err := w.dial(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			open = append(open, nc)
		}
		settle(time.Second)
		b.Keep([]register.Member{who(1, 0)})
		for range 30 {
			for _, nc := range open {
				_ = nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
				_, _ = nc.Write(alive) // it may have been cut off
			}
			settle(time.Second)
		}
		if p := b.Status().Peers[0]; !p.Control.Up {
			t.Errorf("after half a minute the other node is kept out: %+v", p)
		}
	})
}

// TestConnectionsAreBounded: those that say nothing do not keep out the others
// for longer than the time-out.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0), func(c *Config) { c.Limits.Greeting = 3; c.Limits.Conns = 4 })
		defer a.stop()
		var open []net.Conn
		for range 5 {
			nc, err := w.dial(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			open = append(open, nc)
		}
		settle(time.Second)
		closed := 0
		for _, nc := range open {
			_ = nc.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := nc.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
				closed++
			}
		}
		if closed != 2 {
			t.Errorf("%d of 5 closed", closed)
		}
		b, c, d := w.add(who(2, 0)), w.add(who(3, 0)), w.add(who(4, 0))
		for _, n := range []*testNode{b, c, d} {
			defer n.stop()
			n.Keep([]register.Member{who(1, 0)})
			n.Send(who(1, 0), bulky(1, 1<<20))
		}
		settle(15 * time.Second)
		up := 0
		for _, n := range []*testNode{b, c, d} {
			for _, l := range []LaneStatus{n.Status().Peers[0].Control, n.Status().Peers[0].Bulk} {
				if l.Up {
					up++
				}
			}
		}
		if up != 4 {
			t.Errorf("%d connections are up, the limit is 4", up)
		}
		if a.log.count("too many connections") == 0 {
			t.Errorf("log: %s", a.log.b.String())
		}
	})
}

// told tells when a message has come.
type told struct {
	*testNode
	came chan struct{}
}

func (h told) Messages(register.Member, []message.PeerMessage) { close(h.came) }

// TestLinkOfASocket: without TLS the link of an accepted connection is of its socket and nothing
// around it, so that package transport reads it directly on Linux.
func TestLinkOfASocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := told{&testNode{}, make(chan struct{})}
	a := New(Config{Self: who(1, 0), Cluster: testCluster, Handler: h})
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	b := New(Config{
		Self: who(2, 0), Cluster: testCluster, Handler: &testNode{},
		Addresses: func(register.Member) []string { return []string{ln.Addr().String()} },
	})
	defer func() {
		b.Close()
		a.Close()
		<-served
	}()
	b.Send(who(1, 0), numbered(1))
	select {
	case <-h.came:
	case <-time.After(10 * time.Second):
		t.Fatal("no message came")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.sessions) == 0 {
		t.Fatal("no session")
	}
	for key, s := range a.sessions {
		if _, ok := s.over.(*net.TCPConn); !ok {
			t.Errorf("the %v connection is of a %T", key.lane, s.over)
		}
	}
}

// identities makes TLS configurations of nodes that know each other, and one of
// a stranger.
func identities(t *testing.T) (member, other *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	make1 := func() *tls.Config {
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(1), DNSNames: []string{"n1", "n2"}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(parsed)
		return &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		}
	}
	member = make1()
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	return member, make1()
}

func TestMutualTLS(t *testing.T) {
	member, other := identities(t)
	for _, c := range []struct {
		name string
		a, b *tls.Config
		is   error
		says string // in the log of a
		b2   string // in the log of b
	}{
		{"both", member, member, nil, "", ""},
		{"only who is dialled", nil, member, transport.ErrPeerTLS, "speaks TLS", "does not speak TLS"},
		{"only who dials", member, nil, nil, "protocol version", "TLS is not configured here"},
		{"a stranger dials", other, member, nil, "", "TLS handshake"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.add(who(1, 0), func(cfg *Config) { cfg.TLS = c.a }), w.add(who(2, 0), func(cfg *Config) { cfg.TLS = c.b })
				defer a.stop()
				defer b.stop()
				a.Send(who(2, 0), numbered(1))
				a.Send(who(2, 0), bulky(1, 3<<20))
				settle(20 * time.Second)
				s := a.Status().Peers[0].Control
				if c.name == "both" {
					if got := b.taken(); len(got) != 2 || !s.Up {
						t.Errorf("%d messages came, %+v", len(got), s)
					}
					return
				}
				if len(b.taken()) > 0 || s.Up || c.is != nil && !errors.Is(s.Err, c.is) || s.Err == nil || !strings.Contains(s.Err.Error(), c.says) {
					t.Errorf("%+v", s)
				}
				if b.log.count(c.b2) == 0 || b.log.count(c.b2) > 2 || a.log.count("lane=control") != 1 {
					t.Errorf("logs: %s\n%s", a.log.b.String(), b.log.b.String())
				}
			})
		})
	}
}

// FuzzPort: whatever comes on a connection, and whoever it says that it is, may cost that
// connection. A member that is connected stays so, and is heard.
func FuzzPort(f *testing.F) {
	said := func(from register.Member) []byte {
		b, err := gproto.Marshal(&nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(from), To: node(who(1, 0)), Cluster: testCluster[:], Lane: 1, Boot: 1, Life: 1})
		if err != nil {
			f.Fatal(err)
		}
		return transport.AppendSummed(nil, transport.Frame{Request: 1, Method: 1, Body: b})
	}
	first := said(who(3, 0))
	f.Add(first)
	f.Add(append(bytes.Clone(first), transport.AppendSummed(nil, transport.Frame{Method: uint16(nornv1.PeerMethod_PEER_METHOD_ROUND), Body: roundOf(nornv1.PeerMethod_PEER_METHOD_FACTS, []byte{8, 1})})...))
	f.Add([]byte{244, 1, 2})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	for _, ask := range []gproto.Message{&nornv1.PeerProbe{MinVersion: MinVersion, MaxVersion: MaxVersion, Spare: node(who(2, 0)), Members: true}, &nornv1.PeerJoin{MinVersion: MinVersion, MaxVersion: MaxVersion, Node: memberProto(recordOf(3, "n3"))}} {
		method := nornv1.PeerMethod_PEER_METHOD_PROBE
		if _, join := ask.(*nornv1.PeerJoin); join {
			method = nornv1.PeerMethod_PEER_METHOD_JOIN
		}
		b, err := gproto.Marshal(ask)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(transport.AppendSummed(nil, transport.Frame{Request: 1, Method: uint16(method), Body: b}))
	}
	h := &testNode{}
	n := New(Config{Self: who(1, 0), Cluster: testCluster, Handler: h, Gossip: func(nc net.Conn) { _ = nc.Close() }, Timing: Timing{Idle: time.Hour}})
	f.Cleanup(n.Close)
	good, theirs := transport.Pipe(0)
	f.Cleanup(func() { _ = good.Close() })
	n.accept(theirs)
	if _, err := good.Write(said(who(2, 0))); err != nil {
		f.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, good) }()
	method, body := encoded(f, numbered(77))
	hears := func(t testing.TB) {
		if _, err := good.Write(transport.AppendSummed(nil, transport.Frame{Method: uint16(nornv1.PeerMethod_PEER_METHOD_ROUND), Body: roundOf(method, body)})); err != nil {
			t.Fatalf("the connection of a member ended: %v", err)
		}
		for began := time.Now(); time.Since(began) < 10*time.Second; runtime.Gosched() {
			if slices.Contains(numbers(h.taken()), 77) {
				return
			}
		}
		t.Fatal("a member is not heard any more")
	}
	hears(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := transport.Pipe(0)
		n.accept(theirs)
		if _, err := ours.Write(b[:min(len(b), 1<<16)]); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
		if err := ours.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, ours) // until the node has closed it
		_ = ours.Close()
		hears(t)
	})
}
