package core

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
)

// serve hands new work to the waiters of the queues it came to, first come,
// first served: exactly as many are answered as there is work for.
func (c *Core) serve(now clock.Time) {
	if c.limited && c.vnodes.Claimed() < c.cfg.MaxClaims {
		c.limited = false
		c.readyIndex.wakeAll()
	}
	if c.readyIndex.tenants.Freed() {
		c.readyIndex.wakeAll()
	}
	for i := 0; i < len(c.readyIndex.dirty); i++ {
		q := c.readyIndex.dirty[i]
		q.dirty = false
		for c.round.Fatal() == nil && q.heads.Len() > 0 {
			w := c.readyIndex.first(q, now.Mono, nil)
			for w != nil && !c.grant(now, w) {
				w = c.readyIndex.following(q, now.Mono, w)
			}
			if w == nil {
				break
			}
			c.readyIndex.drop(w)
		}
		c.readyIndex.dirty[i] = nil
	}
	c.readyIndex.dirty = c.readyIndex.dirty[:0]
}

// timeouts answers the requests whose wait is over.
func (c *Core) timeouts(now clock.Time) {
	for w := c.readyIndex.due(now); w != nil; w = c.readyIndex.due(now) {
		c.readyIndex.drop(w)
		c.giveUp(now, w)
	}
	c.round.Ready.Reads = append(c.round.Ready.Reads, c.logs.timeouts(now)...)
}

// cancel answers a waiting request that its client gave up: each request gets
// exactly one reply.
func (c *Core) cancel(from message.Origin) {
	c.routes.Cancel(from)
	c.sessions.Cancel(from)
	for _, o := range c.fetches.forsake(func(o message.Origin) bool { return message.NumberOf(o) == message.NumberOf(from) }) {
		c.round.Refuse(o, refusal.Cancelled())
	}
	for _, h := range c.freshnessProbes.take(func(h *freshnessProbe) bool { return message.NumberOf(h.r.From) == message.NumberOf(from) }) {
		c.round.Refuse(h.r.From, refusal.Cancelled())
	}
	if w := c.readyIndex.byConn[from.Conn][from.Request]; w != nil {
		c.readyIndex.drop(w)
		c.round.Refuse(w.from, refusal.Cancelled())
	}
	if w := c.offers.waiting[message.NumberOf(from)]; w != nil {
		w.cancelled = true
	}
	for _, w := range c.offers.recall(func(w *claimRequest) bool { return message.NumberOf(w.from) == message.NumberOf(from) }) {
		c.round.Refuse(w.from, refusal.Cancelled())
	}
	if w := c.logs.of(from); w != nil {
		c.logs.drop(w)
		if !w.reading {
			c.round.Refuse(w.from, refusal.Cancelled())
		}
	}
}

// gone forgets the waiting requests of a closed connection.
func (c *Core) gone(conn uint64) {
	c.routes.Gone(conn)
	delete(c.readyIndex.lines, conn)
	c.fetches.forsake(func(o message.Origin) bool { return o.Conn == conn })
	c.freshnessProbes.take(func(h *freshnessProbe) bool { return h.r.From.Conn == conn })
	c.sessions.Gone(c.round.Now, conn)
	for _, w := range c.readyIndex.of(conn) {
		c.readyIndex.drop(w)
	}
	for _, w := range c.offers.waiting { // Any order: each by itself.
		w.cancelled = w.cancelled || w.from.Conn == conn
	}
	c.offers.recall(func(w *claimRequest) bool { return w.from.Conn == conn })
	for _, w := range c.logs.all(slices.Values([]uint64{conn})) {
		c.logs.drop(w)
	}
}

// drain sends waiting requests away and refuses new ones, for a reason.
func (c *Core) drain(why *proto.Error) {
	c.closed = why
	c.freshnessProbes.drain()
	for len(c.readyIndex.byTime) > 0 {
		w := c.readyIndex.byTime[0]
		c.readyIndex.drop(w)
		c.round.Refuse(w.from, why)
	}
	for _, w := range c.offers.recall(func(*claimRequest) bool { return true }) {
		c.round.Refuse(w.from, why)
	}
	for _, w := range c.logs.all(maps.Keys(c.logs.byConn)) {
		c.logs.drop(w)
		if !w.reading {
			c.round.Refuse(w.from, why)
		}
	}
	c.sessions.Drain(why)
}
