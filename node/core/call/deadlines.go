package call

import (
	"container/heap"

	"github.com/norn-dev/norn/clock"
)

// Deadline is what a request that waits has to be found by its time.
type Deadline struct {
	Until  int64  // mono ns
	Number uint64 // by arrival: the first of one instant goes first
	place  int    // in its ByTime, from 1; 0: it is in none
}

// Time is what it is found by.
func (t *Deadline) Time() *Deadline { return t }

// Waits tells whether it is among those that are found by their time.
func (t *Deadline) Waits() bool { return t.place > 0 }

// ByTime is requests that wait, the one whose time is over first in front.
type ByTime[T interface{ Time() *Deadline }] []T

// Next is the first deadline, mono ns; Never when nobody waits.
func (h ByTime[T]) Next() int64 {
	if len(h) == 0 {
		return clock.Never
	}
	return h[0].Time().Until
}

// Add adds one.
func (h *ByTime[T]) Add(x T) { heap.Push(h, x) }

// Remove takes one out.
func (h *ByTime[T]) Remove(x T) { heap.Remove(h, x.Time().place-1) }

// Len is part of heap.Interface.
func (h ByTime[T]) Len() int { return len(h) }

// Swap is part of heap.Interface.
func (h ByTime[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].Time().place, h[j].Time().place = i+1, j+1
}

// Less is part of heap.Interface.
func (h ByTime[T]) Less(i, j int) bool {
	a, b := h[i].Time(), h[j].Time()
	return a.Until < b.Until || a.Until == b.Until && a.Number < b.Number
}

// Push is part of heap.Interface.
func (h *ByTime[T]) Push(x any) {
	*h = append(*h, x.(T))
	x.(T).Time().place = len(*h)
}

// Pop is part of heap.Interface.
func (h *ByTime[T]) Pop() any {
	var none T
	old := *h
	last := old[len(old)-1]
	last.Time().place, old[len(old)-1] = 0, none
	*h = old[:len(old)-1]
	return last
}

// Latest is the last one that came of those that may be sent away; nil: none may.
func Latest[W interface {
	comparable
	Time() *Deadline
}](all map[uint64]W, may func(W) bool) (last W) {
	var none W
	// Any order: the numbers differ.
	for _, w := range all {
		if may(w) && (last == none || w.Time().Number > last.Time().Number) {
			last = w
		}
	}
	return last
}
