package node

import (
	"sync"
)

// inbox is where events wait for the loop. What frees or keeps work (renewals,
// completions, failures, releases) goes before what adds work, so that load
// from producers cannot cost workers their claims.
type inbox struct {
	wake chan struct{} // holds one token when there is something to do

	mu    sync.Mutex // guards everything below
	first []any
	rest  []any
	bytes int // request bytes that wait
	limit int
}

func newInbox(limit int) *inbox {
	return &inbox{wake: make(chan struct{}, 1), limit: limit}
}

// delivery is a batch of events of one sender.
type delivery struct {
	first, rest []any
	bytes       int
}

func (d *delivery) empty() bool { return len(d.first) == 0 && len(d.rest) == 0 }

func (d *delivery) reset() {
	clear(d.first)
	clear(d.rest)
	d.first, d.rest, d.bytes = d.first[:0], d.rest[:0], 0
}

// put adds the events of a delivery.
func (in *inbox) put(d *delivery) {
	in.mu.Lock()
	in.first = append(in.first, d.first...)
	in.rest = append(in.rest, d.rest...)
	in.bytes += d.bytes
	in.mu.Unlock()
	in.signal()
}

// post adds one event that must not be refused.
func (in *inbox) post(event any) {
	in.mu.Lock()
	in.first = append(in.first, event)
	in.mu.Unlock()
	in.signal()
}

// full tells whether requests of this size do not fit any more. What frees or
// keeps work is let in up to twice the limit.
func (in *inbox) full(size int, urgent bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	limit := in.limit
	if urgent {
		limit *= 2
	}
	return in.bytes+size > limit
}

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take swaps the waiting events for empty slices.
func (in *inbox) take(first, rest []any) ([]any, []any) {
	in.mu.Lock()
	defer in.mu.Unlock()
	first, in.first = in.first, first[:0]
	rest, in.rest = in.rest, rest[:0]
	in.bytes = 0
	return first, rest
}
