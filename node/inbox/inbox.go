package inbox

import (
	"sync"
	"sync/atomic"

	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/message"
)

// What the loop takes at once: enough for one sync to cover much, and little
// enough for a renewal that comes in meanwhile to be handled in its time.
const (
	TakeEvents = 4096    // events of one line
	TakeBytes  = 4 << 20 // of their weights
	// keepEvents and keepDelivery are the longest lines whose memory is kept.
	keepEvents   = 4 * TakeEvents
	keepDelivery = 64
)

// Inbox is where events wait for the loop. What frees or keeps work (renewals,
// completions, failures, releases) goes before what adds work, so that load
// from producers cannot cost workers their claims: the loop takes from both
// lines in turns, and never so much that one of them waits for long.
type Inbox struct {
	Wake  chan struct{} // holds one token when there is something to do
	limit int64
	Bytes atomic.Int64 // requests that were admitted and not taken
	Peers atomic.Int64 // likewise messages of other nodes

	mu    sync.Mutex // guards everything below
	first line
	rest  line
}

// Waiting is an event in the inbox. weight is 0 for what is not a request; held is what its
// connection has here, nil where that is not counted.
type Waiting struct {
	Event  any
	Weight int
	Held   *atomic.Int64
}

// Cancelled is a cancel frame. Its connection may have only so many of them
// here: it is counted off when it is taken.
type Cancelled struct {
	Cancel message.Cancel
	Count  *atomic.Int32
}

// New makes one that admits so many bytes.
func New(limit int) *Inbox {
	return &Inbox{Wake: make(chan struct{}, 1), limit: int64(limit)}
}

// Delivery is a batch of events of one sender.
type Delivery struct{ First, Rest []Waiting }

// Empty tells that there is nothing in it.
func (d *Delivery) Empty() bool { return len(d.First) == 0 && len(d.Rest) == 0 }

// Reset empties the delivery. A connection that was busy once does not keep the
// memory.
func (d *Delivery) Reset() {
	d.First, d.Rest = emptied(d.First), emptied(d.Rest)
}

func emptied(events []Waiting) []Waiting {
	if cap(events) > keepDelivery {
		return nil
	}
	clear(events)
	return events[:0]
}

// Admit reserves room for a request of somebody who holds so many bytes here (nil: it is
// their only one), or says that there is none for them. What frees or keeps work is let in
// up to twice the limit. One request always fits an empty inbox. What is admitted must be
// put, or given back with leave.
func (in *Inbox) Admit(held *atomic.Int64, weight int, urgent bool) bool {
	limit, own := in.limit, int64(0)
	if urgent {
		limit *= 2
	}
	if held != nil {
		own = held.Load()
	}
	for {
		total := in.Bytes.Load()
		if !portion.Fits(limit, total, own, int64(weight)) {
			return false
		}
		if in.Bytes.CompareAndSwap(total, total+int64(weight)) {
			break
		}
	}
	if held != nil {
		held.Add(int64(weight))
	}
	return true
}

// AdmitPeer reserves room for a message of another node. They have twice as much
// as clients, of their own: what they say is often what clients wait for.
func (in *Inbox) AdmitPeer(weight int) bool {
	if now := in.Peers.Add(int64(weight)); now > 2*in.limit && now > int64(weight) {
		in.Peers.Add(-int64(weight))
		return false
	}
	return true
}

// Leave gives back what admit has reserved.
func (in *Inbox) Leave(held *atomic.Int64, weight int) {
	in.Bytes.Add(-int64(weight))
	if held != nil {
		held.Add(-int64(weight))
	}
}

// Put adds the events of a delivery, all of them admitted.
func (in *Inbox) Put(d *Delivery) {
	in.mu.Lock()
	in.first.events = append(in.first.events, d.First...)
	in.rest.events = append(in.rest.events, d.Rest...)
	in.mu.Unlock()
	in.signal()
}

// Follow adds one event that must not be refused and that concerns requests of
// its sender in the same line: it must not overtake them, or a cancel would find
// nothing to cancel.
func (in *Inbox) Follow(event any) {
	in.mu.Lock()
	in.rest.events = append(in.rest.events, Waiting{Event: event})
	in.mu.Unlock()
	in.signal()
}

// Gone adds the end of a connection, behind its requests in both lines: the core may
// hear of it twice, and never before them.
func (in *Inbox) Gone(conn uint64) {
	end := Waiting{Event: message.Gone{Conn: conn}}
	in.mu.Lock()
	if !in.first.empty() {
		in.first.events = append(in.first.events, end)
	}
	in.rest.events = append(in.rest.events, end)
	in.mu.Unlock()
	in.signal()
}

// Post adds one event of the node's own that must not be refused.
func (in *Inbox) Post(event any) {
	in.mu.Lock()
	in.first.events = append(in.first.events, Waiting{Event: event})
	in.mu.Unlock()
	in.signal()
}

// Lines is how many events wait in each line.
func (in *Inbox) Lines() (first, rest int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.first.events) - in.first.from, len(in.rest.events) - in.rest.from
}

// Hold keeps everybody from the lines until it is let go of: a test has the loop and the readers
// stand still.
func (in *Inbox) Hold() (letGo func()) {
	in.mu.Lock()
	return in.mu.Unlock
}

func (in *Inbox) signal() {
	select {
	case in.Wake <- struct{}{}:
	default:
	}
}

// Take moves what the loop shall handle next into two empty slices, and gives its weight. When
// something is left, the inbox asks to be looked at again.
func (in *Inbox) Take(first, rest []any) ([]any, []any, int) {
	in.mu.Lock()
	first, taken := in.first.take(first[:0])
	rest, more := in.rest.take(rest[:0])
	taken.add(more)
	left := !in.first.empty() || !in.rest.empty()
	in.mu.Unlock()
	in.Bytes.Add(-int64(taken.requests))
	in.Peers.Add(-int64(taken.messages))
	if left {
		in.signal()
	}
	return first, rest, taken.requests + taken.messages
}

// line is a queue of events.
type line struct {
	events []Waiting
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
	for n := 0; n < TakeEvents && weight.requests+weight.messages < TakeBytes && !l.empty(); n++ {
		w := &l.events[l.from]
		event := w.Event
		if w.Held != nil {
			w.Held.Add(-int64(w.Weight))
		}
		if c, ok := event.(Cancelled); ok {
			c.Count.Add(-1)
			event = c.Cancel
		}
		out = append(out, event)
		if _, ok := event.(*message.FromPeer); ok {
			weight.messages += w.Weight
		} else {
			weight.requests += w.Weight
		}
		*w = Waiting{}
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
