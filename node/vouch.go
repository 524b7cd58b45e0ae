package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
)

const (
	vouchPause = time.Second // between two times that the others are asked, whoever calls
	vouchTime  = time.Second // for their answers
)

// vouches are the members that the register here does not name, by the word of those it
// does. A node that was away may not know the member that leads the register by now, and
// hears of it from nobody else; but whoever calls can say that he is one. So this node
// asks back, over connections that it dials itself: the voters it knows, and whoever is
// at an address that it was told to join.
type vouches struct {
	mu   sync.Mutex // guards what follows; held while the others are asked
	next time.Time  // they are not asked again before
	of   map[register.Member]bool
}

// voucher is where to ask, and whom; a zero member: whoever is there.
type voucher struct {
	addr string
	who  register.Member
}

// knows tells whether a caller that the register here does not name is a member.
func (v *vouches) knows(m *membership, state *register.State, h *peer.Hello) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); !v.of[h.From] && !now.Before(v.next) {
		v.next = now.Add(vouchPause)
		v.ask(m, state, h)
	}
	return v.of[h.From]
}

// ask asks all of them at once.
func (v *vouches) ask(m *membership, state *register.State, h *peer.Hello) {
	ctx, cancel := context.WithTimeout(m.n.ctx, vouchTime)
	defer cancel()
	at := m.vouchers(state, h)
	answers := make(chan []register.Node, len(at))
	for _, of := range at {
		go func() {
			who, nodes, err := m.network.Dialer().Members(ctx, of.addr)
			switch {
			case err != nil || who.Cluster != m.n.cluster.ID || who.Member == m.n.self || of.who != (register.Member{}) && who.Member != of.who:
				nodes = nil
			case len(state.Nodes) > 0 && who.Generation != state.Generation:
				nodes = nil
			case of.who == h.From && !slices.ContainsFunc(nodes, func(n register.Node) bool { return n.Member == m.n.self }):
				nodes = nil // it may call itself a member, and not of where this node is
			}
			answers <- nodes
		}()
	}
	v.of = make(map[register.Member]bool)
	for range at {
		for _, n := range <-answers {
			v.of[n.Member] = true
		}
	}
}

// vouchers are those whose word counts: the voters that are known here, and the addresses
// to join. A joiner that nobody has filled knows those of whom it heard when it was let
// in. One that knows nobody else may have been set back to when it was alone: who calls
// is asked itself, where it says it is, whether this node is a member with it.
func (m *membership) vouchers(state *register.State, h *peer.Hello) (all []voucher) {
	status := m.group.Load().Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	for who, node := range m.nodes { // Any order: all are asked at once.
		filled := len(state.Nodes) > 0
		if who == m.n.self || filled && !slices.Contains(status.Voters, who) && !slices.Contains(status.Outgoing, who) {
			continue
		}
		for _, addr := range node.Addresses {
			all = append(all, voucher{addr, who})
		}
	}
	if aloneIn(state) {
		for _, addr := range h.Addresses {
			all = append(all, voucher{addr, h.From})
		}
	}
	for _, addr := range m.n.cfg.Join {
		all = append(all, voucher{addr: addr})
	}
	own := m.n.record().Addresses
	return slices.DeleteFunc(all, func(of voucher) bool { return slices.Contains(own, of.addr) })
}

// members are all that the register here names.
func (m *membership) members() []register.Node {
	if g := m.group.Load(); g != nil {
		return g.State().Nodes
	}
	return nil
}
