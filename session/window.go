package session

// maxAbove bounds the pushes that a window remembers one by one. A dispatcher
// has far fewer open for one worker; past it the oldest gap is given up.
const maxAbove = 4096

// window remembers which pushes of one association were decided, so that each is
// looked at once, in the memory of a few gaps.
//
// Invariant: everything up to floor is decided, floor+1 is not.
type window struct {
	floor uint64
	above map[uint64]struct{}
}

// decided tells whether push n was seen, or given up.
func (w *window) decided(n uint64) bool {
	_, seen := w.above[n]
	return n <= w.floor || seen
}

// decide notes push n. A gap that is given up because there are too many behind
// it is safe: should that push still come it is dropped, and the dispatcher asks.
func (w *window) decide(n uint64) {
	if w.decided(n) {
		return
	}
	if w.above == nil {
		w.above = make(map[uint64]struct{})
	}
	w.above[n] = struct{}{}
	if len(w.above) > maxAbove {
		lowest := n
		for k := range w.above {
			lowest = min(lowest, k)
		}
		w.floor = lowest - 1
	}
	for {
		if _, ok := w.above[w.floor+1]; !ok {
			return
		}
		delete(w.above, w.floor+1)
		w.floor++
	}
}
