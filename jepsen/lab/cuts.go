package lab

import (
	"time"
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
func (n *nemesis) apart(kind link, cut func(from, to *process) bool) error {
	all := n.members()
	err := n.relink(func(links map[way]link) {
		for _, from := range all {
			for _, to := range all {
				if from != to && cut(from, to) {
					links[way{from.n, to.n}] = kind
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
	return n.relink(func(links map[way]link) { clear(links) })
}

func (n *nemesis) isolated(p *process) error {
	n.does("cut %s off", p.name)
	return n.apart(cut(), func(from, to *process) bool { return from == p || to == p })
}

func (n *nemesis) halves() error {
	left := map[*process]bool{}
	part := n.some(len(n.members()) / 2)
	for _, p := range part {
		left[p] = true
	}
	n.does("cut %s from the others", names(part))
	return n.apart(cut(), func(from, to *process) bool { return left[from] != left[to] })
}

func (n *nemesis) bridged() error {
	all := n.some(len(n.members()))
	bridge, left := all[0], map[*process]bool{}
	for _, p := range all[1 : 1+len(all[1:])/2] {
		left[p] = true
	}
	n.does("halves with %s between", bridge.name)
	return n.apart(cut(), func(from, to *process) bool { return from != bridge && to != bridge && left[from] != left[to] })
}

func (n *nemesis) oneWay() error {
	p := n.one()
	if n.rnd.IntN(2) == 0 {
		n.does("nothing arrives from %s", p.name)
		return n.apart(cut(), func(from, _ *process) bool { return from == p })
	}
	n.does("nothing arrives at %s", p.name)
	return n.apart(cut(), func(_, to *process) bool { return to == p })
}

// ring leaves each node those next to it in a circle, as many as make a majority
// with it.
func (n *nemesis) ring() error {
	all := n.some(len(n.members()))
	at := map[*process]int{}
	for i, p := range all {
		at[p] = i
	}
	reach := max(1, len(all)/4)
	n.does("a ring of %d", len(all))
	return n.apart(cut(), func(from, to *process) bool {
		d := (at[from] - at[to] + len(all)) % len(all)
		if len(all) == 3 { // one link of the three: any circle of three is whole
			return at[from]+at[to] == 1
		}
		return min(d, len(all)-d) > reach
	})
}

func (n *nemesis) protocol() error {
	p, kind := n.one(), link{cutTCP: true}
	if n.rnd.IntN(2) == 0 {
		kind = link{cutUDP: true}
	}
	n.does("%v between %s and the others", kind, p.name)
	return n.apart(kind, func(from, to *process) bool { return from == p || to == p })
}

func (n *nemesis) shutOut() error {
	p := n.one()
	n.does("clients do not reach %s", p.name)
	err := n.relink(func(links map[way]link) {
		links[way{driver, p.n}], links[way{p.n, driver}] = cut(), cut()
	})
	if err != nil {
		return err
	}
	n.wait(2*time.Second, 8*time.Second)
	return n.heal()
}

func (n *nemesis) lossy() error {
	kind := link{loss: 0.01 + 0.29*n.rnd.Float64()}
	n.does("%v between all nodes", kind)
	return n.apart(kind, func(_, _ *process) bool { return true })
}
