package dispatch

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
)

// Bounds of what is made of a client's pings.
const (
	leastPing = time.Second
	mostPing  = 30 * time.Second
	// missedPings are so many that a connection which pings may miss.
	missedPings = 3
	// quietPatience is for how long one that does not ping may be quiet after a grant and
	// be granted more.
	quietPatience = 5 * time.Second
)

// line is what is known of the life of a client's connection. A host that is gone closes
// nothing: its requests wait on, and what they are granted is late by a lease.
type line struct {
	heard int64 // when something came last, mono ns
	ping  int64 // when a ping came last; 0: never
	every int64 // between the last two pings, within bounds; 0: it is not known to ping
	given int64 // when one of its requests was chosen for a grant last; 0: never
	held  bool  // something was given to others meanwhile, because it was quiet
}

// quiet tells whether requests that wait on the connection do not count now: it pings and
// has missed some, or it does not, was granted something and has said nothing since.
func (l *line) quiet(now int64) bool {
	if l.every != 0 {
		return now-l.heard > missedPings*l.every+int64(leastPing)
	}
	return l.given > l.heard && now-l.heard > int64(quietPatience)
}

// PassedOver tells whether the claim requests of a client's connection are passed over now,
// because it is quiet.
func (c *Machine) PassedOver(conn uint64, now clock.Time) bool {
	l := c.Index.lines[conn]
	return l != nil && l.quiet(now.Mono)
}

// Hear notes that something came on a client's connection, and looks at its requests
// again that were passed over.
func (c *Machine) Hear(now clock.Time, conn uint64, ping bool) {
	l := c.Index.lines[conn]
	if l == nil {
		return
	}
	l.heard = now.Mono
	if ping {
		if l.ping != 0 {
			l.every = min(max(now.Mono-l.ping, int64(leastPing)), int64(mostPing))
		}
		l.ping = now.Mono
	}
	if !l.held {
		return
	}
	l.held = false
	var names []string
	for _, w := range c.Index.byConn[conn] { // Any order: sorted below.
		names = append(names, w.names...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if q := c.Index.queues[name]; q != nil && !q.dirty {
			q.dirty = true
			c.Index.dirty = append(c.Index.dirty, q)
		}
		c.remote.resumed(now, name)
	}
}

// first is the longest waiting request of a queue that counts, or nil. Other nodes judge
// their clients themselves.
//
// after, if not nil, is the request after which the search begins. It drops finished entries
// from the front of the line, so a line costs what is in it, and not what has gone through it.
func (d *Index) first(q *queue, now int64, after *claimRequest) *claimRequest {
	for len(q.wait) > 0 && q.wait[0].done {
		q.wait[0] = nil
		q.wait = q.wait[1:]
		q.stale--
	}
	for _, w := range q.wait {
		if w.done || after != nil && w.Number <= after.Number {
			continue
		}
		l := d.lines[w.from.Conn]
		if l != nil && l.quiet(now) {
			l.held = true
			continue
		}
		if l != nil {
			l.given = now
		}
		return w
	}
	return nil
}

// following is who is served after one who was granted nothing: somebody else only where what is
// there may be kept from that one.
func (d *Index) following(q *queue, now int64, w *claimRequest) *claimRequest {
	if len(d.away.Of(takerOf(&w.ask))) == 0 {
		return nil
	}
	return d.first(q, now, w)
}
