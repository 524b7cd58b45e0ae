package node

import (
	"sync"
	"sync/atomic"

	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/message"
)

// What the loop takes at once: enough for one sync to cover much, and little
// enough for a renewal that comes in meanwhile to be handled in its time.
const (
	takeEvents = 4096
	takeBytes  = 4 << 20
	// keepEvents and keepDelivery are the longest lines whose memory is kept.
	keepEvents   = 4 * takeEvents
	keepDelivery = 64
)

// inbox is where events wait for the loop. What frees or keeps work (renewals,
// completions, failures, releases) goes before what adds work, so that load
// from producers cannot cost workers their claims: the loop takes from both
// lines in turns, and never so much that one of them waits for long.
type inbox struct {
	wake  chan struct{} // holds one token when there is something to do
	limit int64
	bytes atomic.Int64 // requests that were admitted and not taken
	peers atomic.Int64 // likewise messages of other nodes

	mu    sync.Mutex // guards everything below
	first line
	rest  line
}

// waiting is an event in the inbox. weight is 0 for what is not a request; held is what its
// connection has here, nil where that is not counted.
type waiting struct {
	event  any
	weight int
	held   *atomic.Int64
}

// cancelled is a cancel frame. Its connection may have only so many of them
// here.
type cancelled struct {
	cancel message.Cancel
	owner  *client
}

func newInbox(limit int) *inbox {
	return &inbox{wake: make(chan struct{}, 1), limit: int64(limit)}
}

// delivery is a batch of events of one sender.
type delivery struct{ first, rest []waiting }

func (d *delivery) empty() bool { return len(d.first) == 0 && len(d.rest) == 0 }

// reset empties the delivery. A connection that was busy once does not keep the
// memory.
func (d *delivery) reset() {
	d.first, d.rest = emptied(d.first), emptied(d.rest)
}

func emptied(events []waiting) []waiting {
	if cap(events) > keepDelivery {
		return nil
	}
	clear(events)
	return events[:0]
}

// admit reserves room for a request of somebody who holds so many bytes here (nil: it is
// their only one), or says that there is none for them. What frees or keeps work is let in
// up to twice the limit. One request always fits an empty inbox. What is admitted must be
// put, or given back with leave.
func (in *inbox) admit(held *atomic.Int64, weight int, urgent bool) bool {
	limit, own := in.limit, int64(0)
	if urgent {
		limit *= 2
	}
	if held != nil {
		own = held.Load()
	}
	for {
		total := in.bytes.Load()
		if !portion.Fits(limit, total, own, int64(weight)) {
			return false
		}
		if in.bytes.CompareAndSwap(total, total+int64(weight)) {
			break
		}
	}
	if held != nil {
		held.Add(int64(weight))
	}
	return true
}

// admitPeer reserves room for a message of another node. They have twice as much
// as clients, of their own: what they say is often what clients wait for.
func (in *inbox) admitPeer(weight int) bool {
	if now := in.peers.Add(int64(weight)); now > 2*in.limit && now > int64(weight) {
		in.peers.Add(-int64(weight))
		return false
	}
	return true
}

// leave gives back what admit has reserved.
func (in *inbox) leave(held *atomic.Int64, weight int) {
	in.bytes.Add(-int64(weight))
	if held != nil {
		held.Add(-int64(weight))
	}
}

// put adds the events of a delivery, all of them admitted.
func (in *inbox) put(d *delivery) {
	in.mu.Lock()
	in.first.events = append(in.first.events, d.first...)
	in.rest.events = append(in.rest.events, d.rest...)
	in.mu.Unlock()
	in.signal()
}

// follow adds one event that must not be refused and that concerns requests of
// its sender in the same line: it must not overtake them, or a cancel would find
// nothing to cancel.
func (in *inbox) follow(event any) {
	in.mu.Lock()
	in.rest.events = append(in.rest.events, waiting{event: event})
	in.mu.Unlock()
	in.signal()
}

// gone adds the end of a connection, behind its requests in both lines: the core may
// hear of it twice, and never before them.
func (in *inbox) gone(conn uint64) {
	end := waiting{event: message.Gone{Conn: conn}}
	in.mu.Lock()
	if !in.first.empty() {
		in.first.events = append(in.first.events, end)
	}
	in.rest.events = append(in.rest.events, end)
	in.mu.Unlock()
	in.signal()
}

// post adds one event of the node's own that must not be refused.
func (in *inbox) post(event any) {
	in.mu.Lock()
	in.first.events = append(in.first.events, waiting{event: event})
	in.mu.Unlock()
	in.signal()
}

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take moves what the loop shall handle next into two empty slices. When
// something is left, the inbox asks to be looked at again.
func (in *inbox) take(first, rest []any) ([]any, []any) {
	in.mu.Lock()
	first, taken := in.first.take(first[:0])
	rest, more := in.rest.take(rest[:0])
	taken.add(more)
	left := !in.first.empty() || !in.rest.empty()
	in.mu.Unlock()
	in.bytes.Add(-int64(taken.requests))
	in.peers.Add(-int64(taken.messages))
	if left {
		in.signal()
	}
	return first, rest
}

// line is a queue of events.
type line struct {
	events []waiting
	from   int // the first that was not taken
}

func (l *line) empty() bool { return l.from == len(l.events) }

// weights are what events weigh.
type weights struct{ requests, messages int }

func (w *weights) add(o weights) {
	w.requests += o.requests
	w.messages += o.messages
}

// take appends the next events to out and gives what they weigh.
func (l *line) take(out []any) (_ []any, weight weights) {
	for n := 0; n < takeEvents && weight.requests+weight.messages < takeBytes && !l.empty(); n++ {
		w := &l.events[l.from]
		event := w.event
		if w.held != nil {
			w.held.Add(-int64(w.weight))
		}
		if c, ok := event.(cancelled); ok {
			c.owner.cancels.Add(-1)
			event = c.cancel
		}
		out = append(out, event)
		if _, ok := event.(*message.FromPeer); ok {
			weight.messages += w.weight
		} else {
			weight.requests += w.weight
		}
		*w = waiting{}
		l.from++
	}
	switch {
	case l.empty():
		if cap(l.events) > keepEvents {
			l.events = nil // a flood has passed
		}
		l.events, l.from = l.events[:0], 0
	case l.from > len(l.events)/2:
		n := copy(l.events, l.events[l.from:])
		clear(l.events[n:])
		l.events, l.from = l.events[:n], 0
	}
	return out, weight
}
