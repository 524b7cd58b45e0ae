package peer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// counted counts what goes over a connection, in either direction.
type counted struct {
	net.Conn
	times *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.times.Add(1)
	}
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	c.times.Add(1)
	return c.Conn.Write(b)
}

// together is so many nodes that start at once, each of which keeps all others.
type together struct {
	nodes []*testNode
	all   []register.Member
	times atomic.Int64 // that something went over a connection
	dials atomic.Int64
}

func newTogether(w *world, n int) *together {
	g := &together{}
	for i := range n {
		g.all = append(g.all, who(i+1, 0))
	}
	for _, m := range g.all {
		g.nodes = append(g.nodes, w.add(m, func(cfg *Config) {
			cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := w.dial(ctx, addr)
				if err != nil {
					return nil, err
				}
				g.dials.Add(1)
				return &counted{nc, &g.times}, nil
			}
		}))
	}
	for _, n := range g.nodes {
		n.Keep(g.all)
	}
	return g
}

func (g *together) stop() {
	for _, n := range g.nodes {
		n.stop()
	}
}

// open is how many connections there are.
func (g *together) open() (n int) {
	for _, o := range g.nodes {
		o.arrivals.mu.Lock()
		n += len(o.arrivals.all)
		o.arrivals.mu.Unlock()
	}
	return n
}

// tell has each node say something to each other one.
func (g *together) tell(m message.PeerMessage) {
	for i, n := range g.nodes {
		for j, to := range g.all {
			if i != j {
				n.Send(to, m)
			}
		}
	}
}

func (g *together) downs() (n int) {
	for _, o := range g.nodes {
		n += strings.Count(o.seen(), "down")
	}
	return n
}

// TestTwoNodesAreWatchedInOnePlace: each of two nodes says that it lives over one connection, and
// a bulk connection is closed after a minute without use. There were four connections between
// two nodes, which stayed, with four signs of life a second on each.
func TestTwoNodesAreWatchedInOnePlace(t *testing.T) {
	const nodes, pairs, seconds = 5, 10, 30
	synctest.Test(t, func(t *testing.T) {
		g := newTogether(newWorld(t), nodes)
		defer g.stop()
		settle(5 * time.Second)
		idle := func(when string) {
			t.Helper()
			if n := g.open(); n != 2*pairs {
				t.Errorf("%s: %d connections between %d pairs of nodes", when, n, pairs)
			}
			before := g.times.Load()
			settle(seconds * time.Second)
			if n := float64(g.times.Load()-before) / (pairs * seconds); n > 2.1 || n < 1 {
				t.Errorf("%s: %.1f frames a second and pair", when, n)
			}
		}
		idle("in the beginning")
		for range 3 {
			g.tell(&message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}})
			settle(10 * time.Second)
		}
		if n := g.open(); n != 4*pairs {
			t.Errorf("after bulk messages: %d connections between %d pairs of nodes", n, pairs)
		}
		for i, n := range g.nodes {
			if got := len(n.taken()); got != 3*(nodes-1) {
				t.Errorf("node %d has %d messages", i+1, got)
			}
		}
		settle(2 * time.Minute)
		idle("two minutes after the last bulk message")
		g.tell(&message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}})
		g.tell(numbered(7))
		settle(time.Second)
		for i, n := range g.nodes {
			if got := len(n.taken()); got != 2*(nodes-1) {
				t.Errorf("node %d has %d messages afterwards", i+1, got)
			}
		}
		if n := g.downs(); n != 0 {
			t.Errorf("%d times a node was out of reach", n)
		}
	})
}

// TestWhatIsSentIsASignOfLife: where both say something there is nothing else to send.
func TestWhatIsSentIsASignOfLife(t *testing.T) {
	const pairs, seconds = 3, 20
	synctest.Test(t, func(t *testing.T) {
		g := newTogether(newWorld(t), 3)
		defer g.stop()
		settle(5 * time.Second)
		before := g.times.Load()
		for range 5 * seconds {
			g.tell(numbered(1))
			settle(200 * time.Millisecond)
		}
		if n := float64(g.times.Load()-before) / (pairs * seconds); n > 10.2 { // five each way
			t.Errorf("%.1f frames a second and pair, of which 10 are messages", n)
		}
		if n := g.downs(); n != 0 {
			t.Errorf("%d times a node was out of reach", n)
		}
	})
}

// TestACutIsSeenByBoth: whichever direction is cut, both nodes know within the time-out, and all
// connections between them end.
func TestACutIsSeenByBoth(t *testing.T) {
	for _, c := range []struct {
		name      string
		from, to1 bool // of n1, to n1
	}{{"both", true, true}, {"from n1", true, false}, {"to n1", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				links := make([][]*frozen, 2)
				var refuses atomic.Bool
				var mu sync.Mutex // guards links
				add := func(i int) *testNode {
					return w.add(who(i, 0), func(cfg *Config) {
						cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
							if refuses.Load() {
								return nil, context.DeadlineExceeded
							}
							nc, err := w.dial(ctx, addr)
							if err != nil {
								return nil, err
							}
							f := &frozen{Conn: nc}
							mu.Lock()
							defer mu.Unlock()
							links[i-1] = append(links[i-1], f)
							return f, nil
						}
					})
				}
				a, b := add(1), add(2)
				defer a.stop()
				defer b.stop()
				a.Send(who(2, 0), numbered(1))
				settle(time.Second)
				b.Send(who(1, 0), numbered(1))
				a.Send(who(2, 0), &message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}})
				settle(time.Second)
				refuses.Store(true)
				mu.Lock()
				for _, l := range links[0] {
					l.freeze(c.to1, c.from)
				}
				for _, l := range links[1] {
					l.freeze(c.from, c.to1)
				}
				mu.Unlock()
				settle(3 * time.Second)
				for i, n := range []*testNode{a, b} {
					if !strings.HasSuffix(n.seen(), fmt.Sprintf("down n%d", 2-i)) {
						t.Errorf("three seconds later node %d has seen %q", i+1, n.seen())
					}
					for _, p := range n.Status().Peers {
						if p.Control.Up || p.Bulk.Up {
							t.Errorf("a connection is up: %+v", p)
						}
					}
				}
			})
		})
	}
}

// TestNobodyElseSaysThatANodeLives: who only knows the secret and says that it is a member that is
// silent does not hide that.
func TestNobodyElseSaysThatANodeLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var last *frozen
		a := w.add(who(1, 0), func(cfg *Config) {
			cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := w.dial(ctx, addr)
				if err != nil {
					return nil, err
				}
				last = &frozen{Conn: nc}
				return last, nil
			}
		})
		b := w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		a.Keep([]register.Member{who(2, 0)})
		settle(time.Second)
		w.mu.Lock()
		delete(w.at, "n2") // it is frozen: nobody answers there
		w.mu.Unlock()
		last.freeze(true, true)
		liar := w.add(who(2, 0))
		w.mu.Lock()
		delete(w.at, "n2")
		w.mu.Unlock()
		defer liar.stop()
		for range 30 {
			liar.Send(who(1, 0), numbered(1))
			settle(100 * time.Millisecond)
		}
		if a.seen() != "up n2, down n2" {
			t.Errorf("a saw %q", a.seen())
		}
	})
}

// TestWhoCannotBeAskedBackIsSpokenTo: a node that does not answer where it is known to be has signs
// of life on each connection, as nodes of older versions have.
func TestWhoCannotBeAskedBackIsSpokenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var cut atomic.Bool
		a := w.add(who(1, 0))
		b := w.add(who(2, 0), func(c *Config) {
			c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				if cut.Load() {
					return nil, context.DeadlineExceeded
				}
				return w.dial(ctx, addr)
			}
		})
		defer a.stop()
		defer b.stop()
		b.Keep([]register.Member{who(1, 0)})
		settle(time.Second)
		cut.Store(true)
		a.Keep([]register.Member{who(2, 0)})
		a.Send(who(2, 0), &message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}})
		settle(time.Minute)
		if a.seen() != "up n2" || b.seen() != "up n1" || len(b.taken()) != 1 {
			t.Errorf("a saw %q, b %q", a.seen(), b.seen())
		}
	})
}

// TestWhoIsBusyEndsNoConnection: while a node works on what has come it reads nothing, and that is
// no silence of the other one.
func TestWhoIsBusyEndsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTogether(newWorld(t), 2)
		defer g.stop()
		settle(time.Second)
		hold := make(chan struct{})
		g.nodes[1].hold = hold
		g.tell(numbered(1))
		settle(20 * time.Second)
		close(hold)
		settle(20 * time.Second)
		if n := g.downs(); n != 0 {
			t.Errorf("%d times a node was out of reach", n)
		}
	})
}
