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

// Walk visits ranks over all members in order, until visit says no. next gives
// the rank of a member's place, counted from 1 on after its smallest, or nil at
// its end. What it costs goes with the ranks that are visited, not with the
// members.
func (m *Merge) Walk(next func(member, place int) *Rank, visit func(*Rank) bool) {
	entries := m.heap.entries
	var line walkHeap
	push := func(s walkStop) {
		if s.rank != nil {
			heap.Push(&line, s)
		}
	}
	// A smallest rank is not reached before that of its parent in the heap.
	smallest := func(at int) {
		if at < len(entries) {
			push(walkStop{&entries[at].min, entries[at].member, 0, at})
		}
	}
	smallest(0)
	for len(line) > 0 {
		s := heap.Pop(&line).(walkStop)
		if !visit(s.rank) {
			return
		}
		push(walkStop{next(s.member, s.place+1), s.member, s.place + 1, s.at})
		if s.place == 0 {
			smallest(2*s.at + 1)
			smallest(2*s.at + 2)
		}
	}
}

// walkStop is a rank that a walk may come to next.
type walkStop struct {
	rank          *Rank
	member, place int
	at            int // of the member in the merge's heap
}

type walkHeap []walkStop

func (h walkHeap) Len() int           { return len(h) }
func (h walkHeap) Less(i, j int) bool { return h[i].rank.Compare(h[j].rank) < 0 }
func (h walkHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *walkHeap) Push(x any)        { *h = append(*h, x.(walkStop)) }
func (h *walkHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
