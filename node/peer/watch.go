package peer

import (
	"errors"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"
)

// errUnused ends a bulk connection that nothing was sent over for long.
var errUnused = errors.New("peer: not used")

// watched is what the watch knows of a connection.
type watched struct {
	link  *transport.Link
	sent  uint64    // messages, when it looked last
	since time.Time // when that has changed last
	alive time.Time // when it sent a sign of life last
}

// look notes what was sent since the last look.
func (w *watched) look(link *transport.Link, sent uint64, now time.Time) {
	if w.link != link {
		*w = watched{link: link, sent: sent, since: now, alive: now}
	}
	if w.sent != sent {
		w.sent, w.since, w.alive = sent, now, now
	}
}

// pair are the connections between this node and another one.
type pair struct {
	peer     *peer       // what this node has dialled; nil: it sends nothing there
	sessions [2]*session // what the other one has dialled: control, bulk
}

// keepWatch is the goroutine that tells others that this node lives, and ends the connections with
// who is silent. Between two nodes whatever is sent is a sign of life, on whichever connection,
// and what one of them has to say without other words goes over the control connection that it
// has dialled. A connection of an older version, or of a node that nobody could ask back, has
// signs of life and a time-out of its own.
func keepWatch(n *Network) {
	t := &n.cfg.Timing
	every := max(min(t.Alive/4, t.Idle/25), time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	pairs := make(map[register.Member]pair)
	last := time.Now()
	ran := last // since when this process has run without a long pause
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(last) > t.Idle/2 {
			ran = now // the silence was this node's own
		}
		last = now
		pairsOf(n, pairs)
		var links []*transport.Link
		for _, p := range pairs {
			links = look(n, links, p, now, ran)
		}
		transport.FlushAll(links)
	}
}

// pairsOf has all connections by the node at their other end.
func pairsOf(n *Network, all map[register.Member]pair) {
	clear(all)
	n.mu.Lock()
	defer n.mu.Unlock()
	for m, p := range n.peers {
		all[m] = pair{peer: p}
	}
	for k, s := range n.sessions {
		if s.live.Load() {
			p := all[k.from]
			p.sessions[k.lane-1] = s
			all[k.from] = p
		}
	}
}

// look ends the connections of a pair where the other node is silent, and otherwise appends those
// over which it is told that this one lives.
func look(n *Network, links []*transport.Link, p pair, now, ran time.Time) []*transport.Link {
	var shared []*transport.Link
	says := false // over a connection of its own
	if p.peer != nil {
		for _, l := range []*lane{p.peer.control, p.peer.bulk} {
			link, version := l.current()
			if link == nil {
				continue
			}
			l.watched.look(link, l.sent.Load(), now)
			if version >= shares {
				shared = append(shared, link)
				says = says || l.which == Control
				if l.which == Bulk && now.Sub(l.watched.since) >= n.cfg.Timing.Forget {
					l.rest()
				}
			}
			if version < shares || l.which == Control {
				links = sign(n, links, &l.watched, now)
			}
		}
	}
	for i, s := range p.sessions {
		if s == nil {
			continue
		}
		s.watched.look(s.link, 0, now)
		if s.version >= shares {
			shared = append(shared, s.link)
		}
		if s.version < shares || (!says && Lane(i+1) == Control) {
			links = sign(n, links, &s.watched, now)
		}
	}
	heard := ran
	for _, l := range shared {
		if at := l.Heard(); at.After(heard) {
			heard = at
		}
	}
	if now.Sub(heard) >= n.cfg.Timing.Idle {
		for _, l := range shared {
			l.Close(transport.ErrIdleTimeout)
		}
	}
	return links
}

// sign queues a sign of life where nothing was said for long, and appends the connection.
func sign(n *Network, links []*transport.Link, w *watched, now time.Time) []*transport.Link {
	if now.Sub(w.alive) < n.cfg.Timing.Alive {
		return links
	}
	w.alive = now
	if w.link.Hold(transport.Frame{Method: uint16(nornv1.PeerMethod_PEER_METHOD_ALIVE)}, nil) != nil {
		return links
	}
	return append(links, w.link)
}

// current is the connection and the version that is spoken on it; nil: there is none.
func (l *lane) current() (*transport.Link, uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link, l.version
}

// rest closes a connection that is not used; the next message opens another one.
func (l *lane) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != laneUp || l.link.Queued() > 0 || l.sent.Load() != l.watched.sent {
		return
	}
	l.link.Close(errUnused)
	l.state, l.link = laneIdle, nil
}
