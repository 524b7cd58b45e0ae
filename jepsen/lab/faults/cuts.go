package faults

import (
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
)

// cuts are the faults of the network that drop packets (F3, and loss of F4).
func cuts() []Fault {
	return []Fault{
		{Name: "isolate", About: "cut one node off from all others, both ways (F3)", run: func(n *nemesis) error { return n.isolated(n.one()) }},
		{Name: "halves", About: "split the nodes in two (F3)", run: (*nemesis).halves},
		{Name: "bridge", About: "two halves that only one node reaches (F3)", run: (*nemesis).bridged},
		{Name: "one-way", About: "what one node sends arrives nowhere, or nothing arrives at it (F3)", run: (*nemesis).oneWay},
		{Name: "ring", About: "every node reaches a majority, no two the same (F3)", run: (*nemesis).ring},
		{Name: "protocol", About: "TCP is cut and UDP is not, or the other way round (F3)", run: (*nemesis).protocol},
		{Name: "clients", About: "clients do not reach one node, which the others do (F3)", run: (*nemesis).shutOut},
		{Name: "loss", About: "1 to 30 % of all packets between nodes get lost (F4)", run: (*nemesis).lossy},
	}
}

// apart cuts the links between nodes that a function wants cut, for a while.
func (n *nemesis) apart(kind network.Link, cut func(from, to *cluster.Process) bool) error {
	all := n.Members()
	err := n.Relink(func(links map[network.Way]network.Link) {
		for _, from := range all {
			for _, to := range all {
				if from != to && cut(from, to) {
					links[network.Way{From: from.N, To: to.N}] = kind
				}
			}
		}
	})
	if err != nil {
		return err
	}
	n.wait(2*time.Second, 12*time.Second)
	return n.heal()
}

// heal makes all links good.
func (n *nemesis) heal() error {
	n.does("heal")
	return n.Relink(func(links map[network.Way]network.Link) { clear(links) })
}

func (n *nemesis) isolated(p *cluster.Process) error {
	n.does("cut %s off", p.Name)
	return n.apart(network.Cut(), func(from, to *cluster.Process) bool { return from == p || to == p })
}

func (n *nemesis) halves() error {
	left := map[*cluster.Process]bool{}
	part := n.some(len(n.Members()) / 2)
	for _, p := range part {
		left[p] = true
	}
	n.does("cut %s from the others", cluster.Names(part))
	return n.apart(network.Cut(), func(from, to *cluster.Process) bool { return left[from] != left[to] })
}

func (n *nemesis) bridged() error {
	all := n.some(len(n.Members()))
	bridge, left := all[0], map[*cluster.Process]bool{}
	for _, p := range all[1 : 1+len(all[1:])/2] {
		left[p] = true
	}
	n.does("halves with %s between", bridge.Name)
	return n.apart(network.Cut(), func(from, to *cluster.Process) bool { return from != bridge && to != bridge && left[from] != left[to] })
}

func (n *nemesis) oneWay() error {
	p := n.one()
	if n.Rnd.IntN(2) == 0 {
		n.does("nothing arrives from %s", p.Name)
		return n.apart(network.Cut(), func(from, _ *cluster.Process) bool { return from == p })
	}
	n.does("nothing arrives at %s", p.Name)
	return n.apart(network.Cut(), func(_, to *cluster.Process) bool { return to == p })
}

// ring leaves each node those next to it in a circle, as many as make a majority
// with it.
func (n *nemesis) ring() error {
	all := n.some(len(n.Members()))
	at := map[*cluster.Process]int{}
	for i, p := range all {
		at[p] = i
	}
	reach := max(1, len(all)/4)
	n.does("a ring of %d", len(all))
	return n.apart(network.Cut(), func(from, to *cluster.Process) bool {
		d := (at[from] - at[to] + len(all)) % len(all)
		if len(all) == 3 { // one link of the three: any circle of three is whole
			return at[from]+at[to] == 1
		}
		return min(d, len(all)-d) > reach
	})
}

func (n *nemesis) protocol() error {
	p, kind := n.one(), network.Link{CutTCP: true}
	if n.Rnd.IntN(2) == 0 {
		kind = network.Link{CutUDP: true}
	}
	n.does("%v between %s and the others", kind, p.Name)
	return n.apart(kind, func(from, to *cluster.Process) bool { return from == p || to == p })
}

func (n *nemesis) shutOut() error {
	p := n.one()
	n.does("clients do not reach %s", p.Name)
	err := n.Relink(func(links map[network.Way]network.Link) {
		links[network.Way{From: network.Driver, To: p.N}], links[network.Way{From: p.N, To: network.Driver}] = network.Cut(), network.Cut()
	})
	if err != nil {
		return err
	}
	n.wait(2*time.Second, 8*time.Second)
	return n.heal()
}

func (n *nemesis) lossy() error {
	kind := network.Link{Loss: 0.01 + 0.29*n.Rnd.Float64()}
	n.does("%v between all nodes", kind)
	return n.apart(kind, func(_, _ *cluster.Process) bool { return true })
}
