package core

import "github.com/norn-dev/norn/ring"

// Available is what this node can do for clients, as far as it knows.
type Available struct {
	// Seen goes up whenever the rest may have changed.
	Seen uint64
	// Enqueue and Claim tell whether tasks can be added, and handed out: through a
	// node that is alone all of them, else some.
	Enqueue, Claim bool
	// Enqueueable has a bit for each partition that takes enqueues now, in the
	// order of nornv1.Placement.
	Enqueueable []byte
}

// Available gives what this node can do now, nil when that is what it was at
// the given Seen.
func (c *Core) Available(seen uint64) *Available {
	now := c.routes.seen<<16 | uint64(c.Leading())
	if seen == now {
		return nil
	}
	a := &Available{Seen: now, Enqueueable: make([]byte, (len(c.cells)+7)/8)}
	takes, led := 0, 0
	for p, v := range c.vnodes.each() {
		m, ok := c.routes.leader(ring.Partition(p))
		if ok = ok && c.joined && !c.moves.dismissed && (m != c.cfg.Self || v.Leading() != 0); ok {
			led++
			if c.routes.takes(ring.Partition(p)) {
				takes++
				a.Enqueueable[p/8] |= 1 << (p % 8)
			}
		}
	}
	if c.routes.alone {
		a.Enqueue, a.Claim = takes == len(c.cells), led == len(c.cells)
	} else {
		a.Enqueue, a.Claim = takes > 0, led > 0
	}
	return a
}
