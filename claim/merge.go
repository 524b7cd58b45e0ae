package claim

import "container/heap"

// Merge keeps the best head of one queue over many partitions in reach: the
// partition with the smallest rank first. Members are small integers chosen by
// the caller (partition numbers).
type Merge struct {
	heap   mergeHeap
	places map[int]int // member -> place in the heap
}

type mergeEntry struct {
	member int
	min    Rank
}

type mergeHeap struct {
	entries []mergeEntry
	moved   func(member, place int)
}

// NewMerge makes an empty merge.
func NewMerge() *Merge {
	m := &Merge{places: make(map[int]int)}
	m.heap.moved = func(member, place int) { m.places[member] = place }
	return m
}

// Set tells the smallest rank of a member; nil takes the member out.
func (m *Merge) Set(member int, min *Rank) {
	place, known := m.places[member]
	switch {
	case min == nil && known:
		heap.Remove(&m.heap, place)
		delete(m.places, member)
	case min == nil:
	case known:
		if m.heap.entries[place].min != *min {
			m.heap.entries[place].min = *min
			heap.Fix(&m.heap, place)
		}
	default:
		m.places[member] = len(m.heap.entries)
		heap.Push(&m.heap, mergeEntry{member, *min})
	}
}

// Best is the member with the smallest rank. ok is false when there is none.
func (m *Merge) Best() (member int, min *Rank, ok bool) {
	if len(m.heap.entries) == 0 {
		return 0, nil, false
	}
	return m.heap.entries[0].member, &m.heap.entries[0].min, true
}

// Len is the number of members that have something ready.
func (m *Merge) Len() int { return len(m.heap.entries) }

func (h *mergeHeap) Len() int { return len(h.entries) }
func (h *mergeHeap) Less(i, j int) bool {
	return h.entries[i].min.Compare(&h.entries[j].min) < 0
}
func (h *mergeHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.moved(h.entries[i].member, i)
	h.moved(h.entries[j].member, j)
}
func (h *mergeHeap) Push(x any) { h.entries = append(h.entries, x.(mergeEntry)) }
func (h *mergeHeap) Pop() any {
	last := h.entries[len(h.entries)-1]
	h.entries = h.entries[:len(h.entries)-1]
	return last
}
