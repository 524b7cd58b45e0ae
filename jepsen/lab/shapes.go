package lab

import "time"

// shapes are the faults of the network that take a proxy (F4).
func shapes() []Fault {
	return []Fault{
		{Name: "delay", About: "packets between nodes take up to half a second (F4)", shaped: true, run: func(n *nemesis) error {
			return n.shaped(link{delay: n.upTo(400 * time.Millisecond), jitter: n.upTo(100 * time.Millisecond)})
		}},
		{Name: "duplicate", About: "packets of gossip come twice (F4)", shaped: true, run: func(n *nemesis) error {
			return n.shaped(link{duplicate: 0.05 + 0.45*n.rnd.Float64()})
		}},
		{Name: "reorder", About: "packets of gossip overtake each other, connections take turns (F4)", shaped: true, run: func(n *nemesis) error {
			return n.shaped(link{reorder: 0.1 + 0.4*n.rnd.Float64(), jitter: 20 * time.Millisecond})
		}},
		{Name: "slow", About: "links carry 32 to 512 KiB a second (F4)", shaped: true, run: func(n *nemesis) error {
			return n.shaped(link{rate: (32 << 10) << n.rnd.IntN(5)})
		}},
		{Name: "bad-links", About: "some links are late, lossy, slow or cut, each in its own way, one way (F4)", shaped: true, run: (*nemesis).bad},
	}
}

// upTo draws a time, at least a tenth of the longest.
func (n *nemesis) upTo(most time.Duration) time.Duration {
	return most/10 + time.Duration(n.rnd.Int64N(int64(most-most/10)))
}

func (n *nemesis) shaped(kind link) error {
	n.does("%v between all nodes", kind)
	return n.apart(kind, func(_, _ *process) bool { return true })
}

// bad draws a link for each direction between nodes; a third of them stay good.
func (n *nemesis) bad() error {
	kinds := []link{
		{}, {}, {}, {}, cut(), {delay: n.upTo(300 * time.Millisecond)}, {loss: 0.2}, {rate: 64 << 10},
		{loss: 0.05, duplicate: 0.2, reorder: 0.3, jitter: 50 * time.Millisecond}, {cutUDP: true},
	}
	drawn := map[way]link{}
	for _, from := range n.members() {
		for _, to := range n.members() {
			if from == to {
				continue
			}
			if kind := kinds[n.rnd.IntN(len(kinds))]; kind != (link{}) {
				drawn[way{from.n, to.n}] = kind
				n.does("%s to %s: %v", from.name, to.name, kind)
			}
		}
	}
	err := n.relink(func(links map[way]link) {
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
