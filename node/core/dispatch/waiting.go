package dispatch

import (
	"github.com/norn-dev/norn/clock"
)

// Serve hands new work to the waiters of the queues it came to, first come,
// first served: exactly as many are answered as there is work for.
func (c *Machine) Serve(now clock.Time) {
	if c.limited && c.Partitions.Claimed() < c.MaxClaims {
		c.limited = false
		c.index.wakeAll()
	}
	if c.index.tenants.Freed() {
		c.index.wakeAll()
	}
	for i := 0; i < len(c.index.dirty); i++ {
		q := c.index.dirty[i]
		q.dirty = false
		for c.Round.Fatal() == nil && q.heads.Len() > 0 {
			w := c.index.first(q, now.Mono, nil)
			for w != nil && !c.grant(now, w) {
				w = c.index.following(q, now.Mono, w)
			}
			if w == nil {
				break
			}
			c.index.drop(w)
		}
		c.index.dirty[i] = nil
	}
	c.index.dirty = c.index.dirty[:0]
}

// Timeouts answers the requests whose wait is over.
func (c *Machine) Timeouts(now clock.Time) {
	for w := c.index.due(now); w != nil; w = c.index.due(now) {
		c.index.drop(w)
		c.giveUp(now, w)
	}
}
