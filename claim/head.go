package claim

import (
	"bytes"
	"iter"
	"sort"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
)

// Ready is one entry of the ready order.
type Ready struct {
	Rank Rank
	// Fresh says that the task was never claimed, so that its enqueue fact is
	// all there is to read when it is granted.
	Fresh bool
	// Body is the task's enqueue fact, so that granting it needs no read; nil
	// when it is not in memory. Only small ones are kept.
	Body []byte
	// CRC is that of the fact, 0: none.
	CRC uint32
}

// Head is a bounded, sorted window on the beginning of one queue's ready index
// in one partition.
//
// Invariant: every key of the index that is not greater than the bound is in
// the window; without a bound the window is the whole index. So the smallest
// entry of the window is the smallest of the index, and filling up starts at
// the bound and never walks over what was claimed before it (protocol (g)).
type Head struct {
	entries []Ready // sorted; entries[first:] are live
	first   int
	limit   int
	bound   Rank // the index may hold keys above this one
	bounded bool
	low     Rank // no key of the index is below this one
	hasLow  bool
}

// NewHead makes the window of an empty index that keeps at most limit entries
// in memory.
func NewHead(limit int) *Head { return &Head{limit: max(limit, 2)} }

// OpenHead makes the window of an index that may hold keys at or above low.
func OpenHead(limit int, low Rank) *Head {
	h := NewHead(limit)
	h.low, h.hasLow = low, true
	h.bound, h.bounded = before(low), true
	return h
}

// before is the greatest rank below r, or the zero rank.
func before(r Rank) Rank {
	for i := len(r) - 1; i >= 0; i-- {
		r[i]--
		if r[i] != 0xff {
			return r
		}
	}
	return Rank{}
}

// Len is the number of entries in memory.
func (h *Head) Len() int { return len(h.entries) - h.first }

// Min is the best entry, or nil when the window is empty. Call [Head.Hungry]
// first: an empty window does not mean an empty index.
func (h *Head) Min() *Ready {
	if h.Len() == 0 {
		return nil
	}
	return &h.entries[h.first]
}

// Insert adds an entry that was just written to the index. It keeps a copy of the body: what
// a node was sent shares one buffer with all that came with it.
func (h *Head) Insert(e Ready) {
	if !h.hasLow || e.Rank.Compare(&h.low) < 0 {
		h.low, h.hasLow = e.Rank, true
	}
	if h.bounded && e.Rank.Compare(&h.bound) > 0 && !mutant.HeadBeyond.On() {
		return // beyond the window: filling up will find it
	}
	e.Body = bytes.Clone(e.Body)
	at := h.search(&e.Rank)
	if at < len(h.entries) && h.entries[at].Rank == e.Rank {
		h.entries[at] = e
		return
	}
	h.compact()
	at = h.search(&e.Rank)
	h.entries = append(h.entries, Ready{})
	copy(h.entries[at+1:], h.entries[at:])
	h.entries[at] = e
	if h.Len() > h.limit {
		h.entries[len(h.entries)-1].Body = nil
		h.entries = h.entries[:len(h.entries)-1]
		h.bound, h.bounded = h.entries[len(h.entries)-1].Rank, true
	}
}

// Remove takes out an entry whose key was just deleted from the index.
func (h *Head) Remove(r *Rank) {
	at := h.search(r)
	if at == len(h.entries) || h.entries[at].Rank != *r {
		return
	}
	if at == h.first {
		h.entries[at].Body = nil
		h.first++
		h.low, h.hasLow = *r, true
		return
	}
	h.entries = append(h.entries[:at], h.entries[at+1:]...)
}

// Hungry says that the window is empty but the index may not be: fill it up.
func (h *Head) Hungry() bool { return h.Len() == 0 && h.bounded }

// After is where filling up starts: the first key to read is the one after it.
func (h *Head) After() Rank { return h.bound }

// Fill adds entries from the index, which must come in order and start right
// after [Head.After].
func (h *Head) Fill(index iter.Seq[Ready]) {
	clear(h.entries)
	h.entries, h.first = h.entries[:0], 0
	for e := range index {
		if len(h.entries) == h.limit {
			h.bound, h.bounded = h.entries[len(h.entries)-1].Rank, true
			h.low, h.hasLow = h.entries[0].Rank, true
			return
		}
		h.entries = append(h.entries, e)
	}
	h.bounded = false
	if len(h.entries) > 0 {
		h.low, h.hasLow = h.entries[0].Rank, true
	}
}

// nearBest is how many entries behind the best one [Head.Find] looks at when the
// order alone does not lead to a task: tasks are claimed from the beginning.
const nearBest = 8

// Find gives the entry of a task, or nil when it is not in the window or not
// where tasks are claimed: at the place of its ID among those of the best
// entry's priority, or near the best entry. It is good until the next change.
func (h *Head) Find(task id.ID) *Ready {
	live := h.entries[h.first:]
	if len(live) == 0 {
		return nil
	}
	guess := NewRank(live[0].Rank.Priority(), task.Order(), task)
	if at := h.search(&guess); at < len(h.entries) && h.entries[at].Rank == guess {
		return &h.entries[at]
	}
	for i := range live[:min(len(live), nearBest)] {
		if live[i].Rank.Task() == task {
			return &live[i]
		}
	}
	return nil
}

// Entries gives the window for changes to Fresh and Body.
func (h *Head) Entries() []Ready { return h.entries[h.first:] }

// At gives the entry of a rank, of none the best one, or nil where it is not in memory.
func (h *Head) At(r *Rank) *Ready {
	if r == nil {
		return h.Min()
	}
	if at := h.search(r); at < len(h.entries) && h.entries[at].Rank == *r {
		return &h.entries[at]
	}
	return nil
}

// Oldest is the order of the entry that was admitted first, whatever its priority;
// ok is false when there is none. Entries of one priority are sorted by age, so it
// looks at the first of each priority.
func (h *Head) Oldest() (order [8]byte, ok bool) {
	for live := h.Entries(); len(live) > 0; ok = true {
		first := &live[0].Rank
		if at := first.Order(); !ok || bytes.Compare(at[:], order[:]) < 0 {
			order = at
		}
		live = live[sort.Search(len(live), func(i int) bool { return live[i].Rank.Priority() < first.Priority() }):]
	}
	return order, ok
}

// Bounded tells whether the index may hold entries beyond the window.
func (h *Head) Bounded() bool { return h.bounded }

// Low is a lower bound of all keys in the index, kept with the counters so
// that the first fill after a restart starts there. ok is false when nothing
// was ever inserted.
func (h *Head) Low() (low Rank, ok bool) { return h.low, h.hasLow }

func (h *Head) search(r *Rank) int {
	live := h.entries[h.first:]
	if n := len(live); n > 0 && live[n-1].Rank.Compare(r) < 0 {
		return len(h.entries) // the common case: new tasks come last
	}
	return h.first + sort.Search(len(live), func(i int) bool { return live[i].Rank.Compare(r) >= 0 })
}

// compact moves the live entries to the front once the dead ones outnumber
// them, so that the cost of moving is paid once per entry.
func (h *Head) compact() {
	if h.first > 0 && h.first >= h.Len() {
		n := copy(h.entries, h.entries[h.first:])
		clear(h.entries[n:])
		h.entries, h.first = h.entries[:n], 0
	}
}
