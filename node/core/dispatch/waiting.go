package dispatch

import (
	"github.com/norn-dev/norn/clock"
)

// Serve hands new work to the waiters of the queues it came to, first come,
// first served: exactly as many are answered as there is work for.
//
// It goes over the queues of which the best task has changed, and over those only. A grant may
// make further queues dirty; they are served in the same call.
func (c *Machine) Serve(now clock.Time) {
	if c.limited && c.Partitions.Claimed() < c.MaxClaims {
		c.limited = false
		c.Index.wakeAll()
	}
	if c.Index.tenants.Freed() {
		c.Index.wakeAll()
	}
	for i := 0; i < len(c.Index.dirty); i++ {
		q := c.Index.dirty[i]
		q.dirty = false
		for c.Round.Fatal() == nil && q.heads.Len() > 0 {
			w := c.Index.first(q, now.Mono, nil)
			for w != nil && !c.grant(now, w) {
				w = c.Index.following(q, now.Mono, w)
			}
			if w == nil {
				break
			}
			c.Index.drop(w)
		}
		c.Index.dirty[i] = nil
	}
	c.Index.dirty = c.Index.dirty[:0]
}

// Timeouts answers the requests whose wait is over.
func (c *Machine) Timeouts(now clock.Time) {
	for w := c.Index.due(now); w != nil; w = c.Index.due(now) {
		c.Index.drop(w)
		c.giveUp(now, w)
	}
}
