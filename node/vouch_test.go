package node

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/metrics"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
)

// TestWhoIsVouchedForIsLetIn: a node whose register does not name a caller asks back, and
// goes by the voters it knows, by whoever is at an address to join, and where it knows
// nobody, by the caller at its own address. What a caller says of itself is not enough.
func TestWhoIsVouchedForIsLetIn(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	n, late := r.nodes[0], r.nodes[2]
	now := n.members.group.Load().State()
	old, alone := now, now
	old.Nodes, alone.Nodes = nil, nil
	for _, have := range now.Nodes {
		if have.Member != late.self {
			old.Nodes = append(old.Nodes, have)
		}
		if have.Member == n.self {
			alone.Nodes = append(alone.Nodes, have)
		}
	}
	hello := peer.Hello{From: late.self, Generation: now.Generation, Revision: 1, Addresses: late.record().Addresses}
	stranger := peer.Hello{From: register.Member{Node: "x", Incarnation: register.Incarnation{9}}, Generation: now.Generation, Revision: 1 << 40, Addresses: late.record().Addresses}
	for _, c := range []struct {
		name  string
		state register.State
		known func(*membership) map[register.Member]register.Node
		join  []string
		hello peer.Hello
		in    bool
	}{
		{"by a voter", old, nil, nil, hello, true},
		{"a stranger, by a voter", old, nil, nil, stranger, false},
		{"by nobody", old, func(*membership) map[register.Member]register.Node { return nil }, nil, hello, false},
		{"by an address to join", old, func(*membership) map[register.Member]register.Node { return nil }, []string{late.PeerAddr().String()}, hello, true},
		{"a stranger, by an address to join", old, func(*membership) map[register.Member]register.Node { return nil }, []string{late.PeerAddr().String()}, stranger, false},
		{"by itself, where nobody else is known", alone, func(*membership) map[register.Member]register.Node { return nil }, nil, hello, true},
		{"a stranger at another's address", alone, func(*membership) map[register.Member]register.Node { return nil }, nil, stranger, false},
	} {
		cfg := *n.cfg
		cfg.Join = c.join
		m := newMembership(&Node{cfg: &cfg, ctx: n.ctx, self: n.self, cluster: n.cluster, ports: n.ports, dir: n.dir, log: n.log, opts: n.opts, metrics: metrics.New()})
		m.group.Store(n.members.group.Load())
		for _, have := range c.state.Nodes {
			m.nodes[have.Member] = have
		}
		if c.known != nil {
			m.nodes = c.known(m)
		}
		if in := m.vouched.knows(m, &c.state, &c.hello); in != c.in {
			t.Errorf("%s: let in %t", c.name, in)
		}
		began := time.Now()
		m.vouched.knows(m, &c.state, &stranger) // whoever calls, they are not asked again at once
		if m.vouched.next.After(began.Add(vouchPause)) {
			t.Errorf("%s: the others were asked twice", c.name)
		}
		m.network.Close()
	}
}
