package core

import (
	"container/heap"

	"github.com/norn-dev/norn/clock"
)

// timed is what a request that waits has to be found by its time.
type timed struct {
	until  int64  // mono ns
	number uint64 // by arrival: the first of one instant goes first
	place  int    // in its byTime
}

func (t *timed) time() *timed { return t }

// byTime is requests that wait, the one whose time is over first in front.
type byTime[T interface{ time() *timed }] []T

// next is the first deadline, mono ns; Never when nobody waits.
func (h byTime[T]) next() int64 {
	if len(h) == 0 {
		return clock.Never
	}
	return h[0].time().until
}

func (h *byTime[T]) add(x T)    { heap.Push(h, x) }
func (h *byTime[T]) remove(x T) { heap.Remove(h, x.time().place) }
func (h byTime[T]) Len() int    { return len(h) }
func (h byTime[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].time().place, h[j].time().place = i, j
}

// Less is part of heap.Interface.
func (h byTime[T]) Less(i, j int) bool {
	a, b := h[i].time(), h[j].time()
	return a.until < b.until || a.until == b.until && a.number < b.number
}

// Push is part of heap.Interface.
func (h *byTime[T]) Push(x any) {
	x.(T).time().place = len(*h)
	*h = append(*h, x.(T))
}

// Pop is part of heap.Interface.
func (h *byTime[T]) Pop() any {
	var none T
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = none
	*h = old[:len(old)-1]
	return last
}
