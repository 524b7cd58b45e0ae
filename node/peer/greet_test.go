package peer

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// refusalCase is why a is not let in by b, at the address n2.
type refusalCase struct {
	name string
	to   register.Member // whom a wants to reach; zero: b
	a, b func(*Config)
	is   error
	says string // in the log of b, and in what a is told
}

func refusals() []refusalCase {
	other := register.UUID{8}
	return []refusalCase{
		{name: "other cluster", a: func(c *Config) { c.Cluster = other }, is: ErrOtherCluster, says: "belongs to cluster"},
		{name: "secret missing", b: func(c *Config) { c.Secrets = []string{"s"} }, is: ErrSecret, says: "secret is missing"},
		{name: "secret wrong", a: func(c *Config) { c.Secrets = []string{"t"} }, b: func(c *Config) { c.Secrets = []string{"s"} }, is: ErrSecret, says: "secret is wrong"},
		{name: "secret not expected", a: func(c *Config) { c.Secrets = []string{"t"} }, is: ErrSecret, says: "not set on the node that was dialled"},
		{name: "other incarnation", to: who(2, 5), is: ErrOtherNode, says: "it was formatted anew"},
		{name: "other node", to: who(3, 0), is: ErrOtherNode, says: "was meant"},
		{name: "copied directory", a: func(c *Config) { c.Self.Incarnation = who(2, 0).Incarnation }, is: ErrSelf, says: "have the same incarnation"},
		{name: "removed", b: func(c *Config) {
			c.Admit = func(h Hello) error {
				if h.From == who(1, 0) && h.To == who(2, 0) && h.Remote != "" && h.Generation == 3 && h.Revision == 7 {
					return errors.New("node n1 was removed")
				}
				return nil
			}
		}, a: func(c *Config) {
			c.Generation, c.Revision = func() uint64 { return 3 }, func() uint64 { return 7 }
		}, is: ErrNotAdmitted, says: "node n1 was removed"},
		{name: "no member yet", b: func(c *Config) { c.Cluster = register.UUID{} }, is: ErrNotReady, says: "not a member of a cluster yet"},
	}
}

// TestRefusals: every reason is seen by both sides, logged once by each, and
// tried again until it has gone.
func TestRefusals(t *testing.T) {
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				pass := func(*Config) {}
				if c.a == nil {
					c.a = pass
				}
				if c.b == nil {
					c.b = pass
				}
				if c.to == (register.Member{}) {
					c.to = who(2, 0)
				}
				a := w.add(who(1, 0), c.a, func(cfg *Config) { cfg.Addresses = func(register.Member) []string { return []string{"n2"} } })
				b := w.add(who(2, 0), c.b)
				defer a.stop()
				a.Send(c.to, numbered(1))
				settle(time.Minute)
				s := a.Status().Peers[0].Control
				if !errors.Is(s.Err, c.is) || s.Up || a.seen() != "" || len(b.taken()) > 0 {
					t.Errorf("a: %v, up %v, saw %q", s.Err, s.Up, a.seen())
				}
				if s.Dropped != 1 || s.Sent != 1 {
					t.Errorf("%d sent, %d dropped", s.Sent, s.Dropped)
				}
				want := 1
				if c.is == ErrNotReady { // it passes by itself
					want = 0
				}
				if a.log.count(c.says) != want || b.log.count(c.says) != want {
					t.Errorf("logged %d and %d times:\n%s%s", a.log.count(c.says), b.log.count(c.says), a.log.b.String(), b.log.b.String())
				}
				if n := b.Status().Refused; n < 20 || n > 60 {
					t.Errorf("%d attempts in a minute", n)
				}
				// Whoever is meant comes to the address: at once all is well.
				b.stop()
				b = w.add(c.to, c.a, c.b, func(cfg *Config) {
					cfg.Self, cfg.Admit = c.to, nil
					cfg.Cluster, cfg.Secrets = a.Cluster(), a.cfg.Secrets
				})
				defer b.stop()
				w.mu.Lock()
				w.at["n2"] = w.at[b.addr]
				w.mu.Unlock()
				settle(3 * time.Second)
				if c.is == ErrSelf {
					return // of two copies there is no right one
				}
				if a.seen() != "up "+c.to.Node {
					t.Errorf("a saw %q; %v", a.seen(), a.Status().Peers[0].Control.Err)
				}
			})
		})
	}
}

func TestVersionsMustOverlap(t *testing.T) {
	for _, c := range []struct {
		low, high uint32
		ok        bool
	}{{3, 3, true}, {0, 3, true}, {1, 9, true}, {4, 9, true}, {5, 9, false}, {0, 0, false}, {1, 2, false}} {
		v, refusal := speak(c.low, c.high)
		if (refusal == nil) != c.ok || c.ok && v != min(c.high, MaxVersion) {
			t.Errorf("%d to %d: version %d, %v", c.low, c.high, v, refusal)
		}
		if refusal != nil && !errors.Is(refusal, ErrVersion) {
			t.Errorf("%d to %d: %v", c.low, c.high, refusal)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.add(who(2, 0))
		defer b.stop()
		reply := b.raw(&nornv1.PeerHello{MinVersion: 7, MaxVersion: 9, From: node(who(1, 0)), To: node(who(2, 0)), Cluster: testCluster[:], Lane: nornv1.PeerLane_PEER_LANE_BULK})
		if reply.GetRefusal() != nornv1.PeerRefusal_PEER_REFUSAL_VERSION || reply.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE {
			t.Errorf("answer %v", reply)
		}
		if len(reply.GetCluster()) > 0 || len(reply.GetSecret()) > 0 {
			t.Errorf("told to a stranger: %v", reply)
		}
	})
}

// raw dials with a hello made by hand and gives the answer.
func (n *testNode) raw(h *nornv1.PeerHello) *nornv1.PeerHelloReply {
	n.w.t.Helper()
	nc, err := n.w.dial(n.w.t.Context(), n.addr)
	if err != nil {
		n.w.t.Fatal(err)
	}
	link := transport.NewLink(nc, transport.LinkConfig{})
	if err := sendProto(link, nornv1.PeerMethod_PEER_METHOD_HELLO, 0, 1, h); err != nil {
		n.w.t.Fatal(err)
	}
	var reply nornv1.PeerHelloReply
	if err := link.Read(&question{nornv1.PeerMethod_PEER_METHOD_HELLO, &reply}); !errors.Is(err, errAnswered) {
		n.w.t.Fatal(err)
	}
	return &reply
}

// TestASecretIsReplaced: nodes that are one step apart talk, whoever dials; those that know
// none of each other's do not.
func TestASecretIsReplaced(t *testing.T) {
	steps := [][]string{{"old"}, {"old", "new"}, {"new", "old"}, {"new"}}
	for i, a := range steps {
		for k, b := range steps {
			apart := max(i-k, k-i)
			if apart == 2 {
				continue // one says what the other one accepts, and not the other way round
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				dialer := w.add(who(1, 0), func(c *Config) {
					c.Secrets = a
					c.Addresses = func(register.Member) []string { return []string{"n2"} }
				})
				defer w.add(who(2, 0), func(c *Config) { c.Secrets = b }).stop()
				defer dialer.stop()
				dialer.Send(who(2, 0), numbered(1))
				settle(time.Minute)
				if s := dialer.Status().Peers[0].Control; s.Up != (apart < 2) || errors.Is(s.Err, ErrSecret) != (apart > 1) {
					t.Errorf("%q dials %q: connected %v, %v", a, b, s.Up, s.Err)
				}
			})
		}
	}
}

// TestTheSecretIsProvedBothWays: who dials does not trust a node that lets
// anyone in.
func TestTheSecretIsProvedBothWays(t *testing.T) {
	n := New(Config{Self: who(1, 0), Cluster: testCluster, Security: Security{Secrets: []string{"s"}}})
	defer n.Close()
	reply := &nornv1.PeerHelloReply{Version: MaxVersion, From: node(who(2, 0)), Cluster: testCluster[:]}
	for _, c := range []struct {
		change func(*nornv1.PeerHelloReply)
		is     error
	}{
		{func(r *nornv1.PeerHelloReply) {}, ErrSecret},
		{func(r *nornv1.PeerHelloReply) { r.Secret = []byte("S") }, ErrSecret},
		{func(r *nornv1.PeerHelloReply) { r.Secret = []byte("s") }, nil},
		{func(r *nornv1.PeerHelloReply) { r.Secret, r.Version = []byte("s"), MaxVersion+1 }, ErrVersion},
		{func(r *nornv1.PeerHelloReply) { r.Secret, r.Cluster = []byte("s"), nil }, ErrOtherCluster},
		{func(r *nornv1.PeerHelloReply) { r.Secret, r.Cluster = []byte("s"), []byte("x") }, ErrMalformed},
		{func(r *nornv1.PeerHelloReply) { r.Secret, r.From = []byte("s"), nil }, ErrMalformed},
		{func(r *nornv1.PeerHelloReply) { r.Secret, r.From = []byte("s"), node(who(2, 1)) }, ErrOtherNode},
		{func(r *nornv1.PeerHelloReply) { r.Refusal = 99 }, ErrNotAdmitted},
	} {
		r := gproto.Clone(reply).(*nornv1.PeerHelloReply)
		c.change(r)
		if err := n.agree(who(2, 0), r); !errors.Is(err, c.is) || (c.is == nil) != (err == nil) {
			t.Errorf("%v: %v, not %v", r, err, c.is)
		}
	}
}

// TestOnlyTheLatestStartIsLetIn: an old copy of a directory, and a second
// process on one, are told apart from a node that was started again.
func TestOnlyTheLatestStartIsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.add(who(2, 0))
		defer b.stop()
		for i, c := range []struct {
			boot, life uint64
			ok         bool
		}{{5, 1, true}, {5, 1, true}, {5, 2, false}, {4, 1, false}, {0, 9, true}, {6, 3, true}, {5, 1, false}, {6, 3, true}} {
			reply := b.raw(&nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(who(1, 0)), To: node(who(2, 0)), Cluster: testCluster[:], Lane: 1, Boot: c.boot, Life: c.life})
			if ok := reply.GetRefusal() == 0; ok != c.ok || !ok && reply.GetRefusal() != nornv1.PeerRefusal_PEER_REFUSAL_OLD_LIFE && reply.GetRefusal() != nornv1.PeerRefusal_PEER_REFUSAL_SET_BACK {
				t.Errorf("hello %d: %v", i, reply)
			}
		}
	})
}

// TestACopyDoesNotTakeThePlaceOfALivingNode: a later start of a data directory is
// let in when the connection of the one before has ended, not earlier; whoever
// is not let in hears so.
func TestACopyDoesNotTakeThePlaceOfALivingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.add(who(2, 0))
		defer b.stop()
		to := func(c *Config) { c.Addresses = func(register.Member) []string { return []string{"n2"} } }
		a := w.add(who(1, 0), to, func(c *Config) { c.Boot = 5 })
		a.Send(who(2, 0), numbered(1))
		settle(time.Second)
		var told atomic.Int64
		copied := w.add(who(1, 0), to, func(c *Config) {
			c.Boot, c.Outdated = 6, func(by register.Member, err error) {
				if by == who(2, 0) && errors.Is(err, ErrOldLife) {
					told.Add(1)
				}
			}
		})
		copied.Send(who(2, 0), numbered(2))
		settle(time.Minute)
		if got := numbers(b.taken()); !slices.Equal(got, []uint64{1}) || told.Load() < 20 {
			t.Errorf("b took %v, the copy was told %d times", got, told.Load())
		}
		a.Send(who(2, 0), numbered(3))
		settle(time.Second)
		if got := numbers(b.taken()); !slices.Equal(got, []uint64{3}) {
			t.Errorf("the original is not heard: %v", got)
		}
		a.stop()
		settle(10 * time.Second)
		copied.Send(who(2, 0), numbered(4))
		settle(time.Second)
		if got := numbers(b.taken()); !slices.Equal(got, []uint64{4}) {
			t.Errorf("the later start is not let in: %v", got)
		}
		copied.stop()
	})
}

// TestMalformedHellos: nothing that breaks a rule gets further than the first
// frame, and its sender is told.
func TestMalformedHellos(t *testing.T) {
	good := func() *nornv1.PeerHello {
		return &nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(who(1, 0)), To: node(who(2, 0)), Cluster: testCluster[:], Lane: 1}
	}
	long := string(make([]byte, 256))
	for i, change := range []func(*nornv1.PeerHello){
		func(h *nornv1.PeerHello) { h.Lane = 0 },
		func(h *nornv1.PeerHello) { h.Lane = 257 },
		func(h *nornv1.PeerHello) { h.Cluster = []byte("abc") },
		func(h *nornv1.PeerHello) { h.From = nil },
		func(h *nornv1.PeerHello) { h.From.Incarnation = nil },
		func(h *nornv1.PeerHello) { h.From.Name = long },
		func(h *nornv1.PeerHello) { h.To.Incarnation = []byte(long) },
		func(h *nornv1.PeerHello) { h.Addresses = make([]string, 1) },
		func(h *nornv1.PeerHello) { h.Addresses = []string{long} },
		func(h *nornv1.PeerHello) {
			for i := range 9 {
				h.Addresses = append(h.Addresses, fmt.Sprint(i))
			}
		},
	} {
		h := good()
		if _, err := helloOf(h); err != nil {
			t.Fatalf("the good one: %v", err)
		}
		change(h)
		if _, err := helloOf(h); !errors.Is(err, ErrMalformed) {
			t.Errorf("hello %d was read: %v", i, err)
		}
	}
}
