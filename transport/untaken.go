package transport

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// What waits for a client that does not take it is bounded for each connection by its
// outbox, and for all connections of a server by a budget: so many times the one would be
// more than any machine has.
const (
	// ownBytes is what may wait for a connection without being counted: one for which no
	// more does is never ended for the others, and touches nothing that they share.
	ownBytes = 16 << 10
	// frameCost is what a queued frame takes beside its bytes.
	frameCost = 256
	// stuckAfter is for how long a connection takes nothing until it is the first to end.
	stuckAfter = time.Second
)

// recount has the budget hold what waits in the outbox beyond ownBytes, which is nothing
// once it is closed; o.mu is held. It tells whether that is more than before, and with what
// the others hold too much: then [Server.relieve] is due, without the lock.
func (o *outbox) recount() (over bool) {
	if o.budget == nil {
		return false
	}
	holds := 0
	if !o.closed {
		holds = max(0, int(o.bytes.Load())+o.frames*frameCost-ownBytes)
	}
	more := holds - int(o.shared.Load())
	if more == 0 {
		return false
	}
	if more < 0 || holds == more {
		o.took = time.Now()
	}
	o.shared.Store(int64(holds))
	return o.budget.move(more) && more > 0
}

// waits is a connection with what waits for it.
type waits struct {
	c     *Conn
	bytes int64
	stuck bool
}

// relieve ends connections until what waits for all of them is within the budget: those that
// take nothing, and then those for which the most waits. One that is alone may have its
// outbox full.
func (s *Server) relieve() {
	var ended []waits
	s.mu.Lock()
	total := s.untaken.taken.Load()
	if total > s.untaken.limit {
		all := s.waiting()
		for len(all) > 1 && s.untaken.taken.Load() > s.untaken.limit {
			w := all[0]
			all = all[1:]
			// It takes what is counted out of the budget at once.
			w.c.Close(fmt.Errorf("%w: %d bytes wait for it and %d for all connections, the limit is %d", ErrSlowReader, w.bytes, total, s.untaken.limit))
			ended = append(ended, w)
		}
	}
	s.mu.Unlock()
	for _, w := range ended {
		s.sayRefused(w.c, *w.c.cause.Load())
	}
}

// waiting gives the connections that hold something of the budget, in the order in which they
// are to end; s.mu is held.
func (s *Server) waiting() []waits {
	var all []waits
	since := time.Now().Add(-stuckAfter)
	for c := range s.conns {
		if c.out.shared.Load() == 0 {
			continue
		}
		c.out.mu.Lock()
		w := waits{c, c.out.shared.Load(), !c.out.took.After(since)}
		c.out.mu.Unlock()
		if w.bytes > 0 {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b waits) int {
		switch {
		case a.stuck && !b.stuck:
			return -1
		case b.stuck && !a.stuck:
			return 1
		}
		return cmp.Compare(b.bytes, a.bytes)
	})
	return all
}

// pressed says whether half of the budget is taken, and some of it by this connection: then
// nothing more is read of it until it has taken what waits.
func (c *Conn) pressed() bool {
	return c.out.shared.Load() > 0 && c.srv.untaken.taken.Load() >= c.srv.untaken.limit/2
}
