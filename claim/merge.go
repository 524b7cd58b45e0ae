package claim

import "container/heap"

// Merge keeps the best head of one queue over many partitions in reach: the
// partition with the smallest rank first. Members are small integers chosen by
// the caller (partition numbers).
type Merge struct {
	heap   mergeHeap
	places map[int]int // member -> place in the heap
	line   walkHeap    // of the last walk, for its memory
	front  front
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
	m.front.touch(member)
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

// Has tells whether a member has something.
func (m *Merge) Has(member int) bool {
	_, has := m.places[member]
	return has
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
	m.walk(next, func(_ int, r *Rank) bool { return visit(r) })
}

func (m *Merge) walk(next func(member, place int) *Rank, visit func(int, *Rank) bool) {
	entries := m.heap.entries
	line := m.line[:0] // a heap by rank
	m.line = nil       // a walk within this one has its own
	defer func() { m.line = line }()
	// A smallest rank is not reached before that of its parent in the heap.
	smallest := func(at int) {
		if at < len(entries) {
			line = line.push(walkStop{&entries[at].min, entries[at].member, 0, at})
		}
	}
	smallest(0)
	for len(line) > 0 {
		s := line[0]
		if !visit(s.member, s.rank) {
			return
		}
		if rank := next(s.member, s.place+1); rank != nil {
			line[0] = walkStop{rank, s.member, s.place + 1, s.at}
		} else {
			line[0] = line[len(line)-1]
			line = line[:len(line)-1]
		}
		line.sink()
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

// walkHeap is a binary heap by rank. It is not container/heap's: a walk goes over
// hundreds of ranks two hundred times a second, and that one boxes each of them.
type walkHeap []walkStop

func (h walkHeap) push(s walkStop) walkHeap {
	h = append(h, s)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].rank.Compare(h[i].rank) <= 0 {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
	return h
}

// sink puts the first stop where it belongs.
func (h walkHeap) sink() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].rank.Compare(h[least].rank) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		h[least], h[i] = h[i], h[least]
		i = least
	}
}
