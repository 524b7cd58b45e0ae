package faults

import (
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
)

// shapes are the faults of the network that take a proxy (F4).
func shapes() []Fault {
	return []Fault{
		{Name: "delay", About: "packets between nodes take up to half a second (F4)", Shaped: true, run: func(n *nemesis) error {
			return n.shaped(network.Link{Delay: n.upTo(400 * time.Millisecond), Jitter: n.upTo(100 * time.Millisecond)})
		}},
		{Name: "duplicate", About: "packets of gossip come twice (F4)", Shaped: true, run: func(n *nemesis) error {
			return n.shaped(network.Link{Duplicate: 0.05 + 0.45*n.Rnd.Float64()})
		}},
		{Name: "reorder", About: "packets of gossip overtake each other, connections take turns (F4)", Shaped: true, run: func(n *nemesis) error {
			return n.shaped(network.Link{Reorder: 0.1 + 0.4*n.Rnd.Float64(), Jitter: 20 * time.Millisecond})
		}},
		{Name: "slow", About: "links carry 32 to 512 KiB a second (F4)", Shaped: true, run: func(n *nemesis) error {
			return n.shaped(network.Link{Rate: (32 << 10) << n.Rnd.IntN(5)})
		}},
		{Name: "bad-links", About: "some links are late, lossy, slow or cut, each in its own way, one way (F4)", Shaped: true, run: (*nemesis).bad},
	}
}

// upTo draws a time, at least a tenth of the longest.
func (n *nemesis) upTo(most time.Duration) time.Duration {
	return most/10 + time.Duration(n.Rnd.Int64N(int64(most-most/10)))
}

func (n *nemesis) shaped(kind network.Link) error {
	n.does("%v between all nodes", kind)
	return n.apart(kind, func(_, _ *cluster.Process) bool { return true })
}

// bad draws a link for each direction between nodes; a third of them stay good.
func (n *nemesis) bad() error {
	kinds := []network.Link{
		{}, {}, {}, {}, network.Cut(), {Delay: n.upTo(300 * time.Millisecond)}, {Loss: 0.2}, {Rate: 64 << 10},
		{Loss: 0.05, Duplicate: 0.2, Reorder: 0.3, Jitter: 50 * time.Millisecond}, {CutUDP: true},
	}
	drawn := map[network.Way]network.Link{}
	for _, from := range n.Members() {
		for _, to := range n.Members() {
			if from == to {
				continue
			}
			if kind := kinds[n.Rnd.IntN(len(kinds))]; kind != (network.Link{}) {
				drawn[network.Way{From: from.N, To: to.N}] = kind
				n.does("%s to %s: %v", from.Name, to.Name, kind)
			}
		}
	}
	err := n.Relink(func(links map[network.Way]network.Link) {
		for w, kind := range drawn { // Any order: each is set.
			links[w] = kind
		}
	})
	if err != nil {
		return err
	}
	n.wait(2*time.Second, 12*time.Second)
	return n.heal()
}
