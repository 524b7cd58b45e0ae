package peer

import (
	"context"
	"fmt"
	"net"
	"strings"
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

// TestTwoNodesHaveOneConnectionOfALane: either node dials, both say what they have over it, and
// a bulk connection is closed after a minute without use. There were four connections between
// two nodes, which stayed, with eight signs of life a second on each.
func TestTwoNodesHaveOneConnectionOfALane(t *testing.T) {
	const nodes, pairs, seconds = 5, 10, 30
	synctest.Test(t, func(t *testing.T) {
		g := newTogether(newWorld(t), nodes)
		defer g.stop()
		settle(5 * time.Second)
		idle := func(when string) {
			t.Helper()
			if n := g.open(); n != pairs {
				t.Errorf("%s: %d connections between %d pairs of nodes", when, n, pairs)
			}
			before := g.times.Load()
			settle(seconds * time.Second)
			if n := float64(g.times.Load()-before) / (pairs * seconds); n > 4.5 {
				t.Errorf("%s: %.1f frames a second and pair", when, n)
			}
		}
		idle("in the beginning")
		for range 3 {
			g.tell(&message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}})
			settle(10 * time.Second)
		}
		if n := g.open(); n != 2*pairs {
			t.Errorf("after bulk messages: %d connections between %d pairs of nodes", n, pairs)
		}
		for i, n := range g.nodes {
			if got := len(n.taken()); got < 2*(nodes-1) {
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

// TestACutIsSeenByBoth: whichever direction is cut, both nodes know within the time-out, and
// both connections end: no more than one of them is watched.
func TestACutIsSeenByBoth(t *testing.T) {
	for _, c := range []struct {
		name    string
		in, out bool
	}{{"both", true, true}, {"to the peer", false, true}, {"from the peer", true, false}} {
		for _, dials := range []int{1, 2} { // the lesser incarnation, or the other one
			t.Run(fmt.Sprintf("%s, dialled by %d", c.name, dials), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					var links []*frozen
					refuses := false
					freezes := func(cfg *Config) {
						cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
							if refuses {
								return nil, context.DeadlineExceeded
							}
							nc, err := w.dial(ctx, addr)
							if err != nil {
								return nil, err
							}
							links = append(links, &frozen{Conn: nc})
							return links[len(links)-1], nil
						}
					}
					a := w.add(who(dials, 0), freezes)
					b := w.add(who(3-dials, 0), freezes)
					defer a.stop()
					defer b.stop()
					a.Send(who(3-dials, 0), numbered(1))
					settle(time.Second)
					b.Send(who(dials, 0), numbered(1))
					a.Send(who(3-dials, 0), &message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}})
					settle(time.Second)
					refuses = true
					for _, l := range links {
						l.freeze(c.in, c.out)
					}
					settle(3 * time.Second)
					for i, n := range []*testNode{a, b} {
						if !strings.HasSuffix(n.seen(), fmt.Sprintf("down n%d", []int{3 - dials, dials}[i])) {
							t.Errorf("three seconds later a node has seen %q", n.seen())
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
}
