package claim

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

func rankOf(n uint16) Rank {
	var order [8]byte
	binary.BigEndian.PutUint16(order[6:], n)
	return NewRank(0, order, id.ID{})
}

func TestRankOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p1, p2 := rapid.Int32().Draw(t, "p1"), rapid.Int32().Draw(t, "p2")
		o1, o2 := rapid.Uint64().Draw(t, "o1"), rapid.Uint64().Draw(t, "o2")
		var b1, b2 [8]byte
		binary.BigEndian.PutUint64(b1[:], o1)
		binary.BigEndian.PutUint64(b2[:], o2)
		r1, r2 := NewRank(p1, b1, id.ID{1}), NewRank(p2, b2, id.ID{2})
		first := p1 > p2 || p1 == p2 && o1 <= o2
		if got := r1.Compare(&r2) < 0; got != first {
			t.Fatalf("rank (%d, %d) before (%d, %d): %v, want %v", p1, o1, p2, o2, got, first)
		}
		if r1.Priority() != p1 || r1.Order() != b1 || r1.Task() != (id.ID{1}) {
			t.Fatalf("parts of the rank: %d %x %x", r1.Priority(), r1.Order(), r1.Task())
		}
	})
}

// headModel is the ready index and its window, driven as a vnode drives it.
type headModel struct {
	index map[Rank]bool
	head  *Head
}

func (m *headModel) sorted() []Rank {
	var all []Rank
	for r := range m.index {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Rank) int { return a.Compare(&b) })
	return all
}

func (m *headModel) fill() {
	if !m.head.Hungry() {
		return
	}
	from := m.head.After()
	m.head.Fill(func(yield func(Ready) bool) {
		for _, r := range m.sorted() {
			if r.Compare(&from) > 0 && !yield(Ready{Rank: r}) {
				return
			}
		}
	})
}

func (m *headModel) check(t *rapid.T) {
	m.fill()
	all := m.sorted()
	min := m.head.Min()
	switch {
	case len(all) == 0 && min != nil:
		t.Fatalf("the index is empty, the head has %x", min.Rank)
	case len(all) > 0 && (min == nil || min.Rank != all[0]):
		t.Fatalf("the head's best is %v, the index begins with %x", min, all[0])
	}
	if low, ok := m.head.Low(); len(all) > 0 && (!ok || low.Compare(&all[0]) > 0) {
		t.Fatalf("low-water %x (%v) is above the first key %x", low, ok, all[0])
	}
	if m.head.Len() > m.head.limit {
		t.Fatalf("%d entries in memory, limit %d", m.head.Len(), m.head.limit)
	}
}

// TestHeadIsTheBeginningOfTheIndex: whatever is inserted, removed and reopened,
// the head's best entry is the first key of the index.
func TestHeadIsTheBeginningOfTheIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &headModel{index: map[Rank]bool{}, head: NewHead(rapid.IntRange(2, 6).Draw(t, "limit"))}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				r := rankOf(rapid.Uint16Range(1, 60).Draw(t, "rank"))
				m.index[r] = true
				m.head.Insert(Ready{Rank: r})
			},
			"claim": func(t *rapid.T) {
				m.fill()
				if e := m.head.Min(); e != nil {
					r := e.Rank
					delete(m.index, r)
					m.head.Remove(&r)
				}
			},
			"remove": func(t *rapid.T) {
				r := rankOf(rapid.Uint16Range(1, 60).Draw(t, "rank"))
				delete(m.index, r)
				m.head.Remove(&r)
			},
			"reopen": func(t *rapid.T) {
				low, ok := m.head.Low()
				limit := m.head.limit
				m.head = NewHead(limit)
				if ok && len(m.index) > 0 {
					m.head = OpenHead(limit, low)
				}
			},
			"": m.check,
		})
	})
}

// TestOldestOfAHead: it is the first to be admitted, whatever its priority.
func TestOldestOfAHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, want, known := NewHead(1000), uint64(0), false
		for i, n := range rapid.SliceOfN(rapid.Uint32Range(1, 500), 0, 40).Draw(t, "admitted") {
			var order [8]byte
			binary.BigEndian.PutUint32(order[4:], n)
			h.Insert(Ready{Rank: NewRank(int32(rapid.IntRange(-3, 3).Draw(t, "priority")), order, id.ID{byte(i)})})
			if !known || uint64(n) < want {
				want, known = uint64(n), true
			}
		}
		got, ok := h.Oldest()
		if ok != known || binary.BigEndian.Uint64(got[:]) != want {
			t.Fatalf("%x, %t; want %d, %t", got, ok, want, known)
		}
	})
}

// TestAHeadKeepsNothingButItsBodies: enqueues that came from another node in one message shared
// its buffer, so that the window's first tasks kept all of it in memory.
func TestAHeadKeepsNothingButItsBodies(t *testing.T) {
	message := []byte("a body, and all that came with it")
	h := NewHead(10)
	for range 2 { // new, and once more
		h.Insert(Ready{Rank: rankOf(1), Body: message[:6]})
		if got := h.Min().Body; string(got) != "a body" || &got[0] == &message[0] {
			t.Errorf("%q shares the message: %t", got, &got[0] == &message[0])
		}
	}
}

func TestMergeKeepsTheBestInFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, model := NewMerge(), map[int]Rank{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				member, r := rapid.IntRange(0, 9).Draw(t, "member"), rankOf(rapid.Uint16().Draw(t, "rank"))
				m.Set(member, &r)
				model[member] = r
			},
			"unset": func(t *rapid.T) {
				member := rapid.IntRange(0, 9).Draw(t, "member")
				m.Set(member, nil)
				delete(model, member)
			},
			"": func(t *rapid.T) {
				member, min, ok := m.Best()
				if ok != (len(model) > 0) || m.Len() != len(model) {
					t.Fatalf("best %v of %d, model has %d", ok, m.Len(), len(model))
				}
				for other, r := range model {
					if r.Compare(min) < 0 {
						t.Fatalf("member %d has %x, better than %d with %x", other, r, member, *min)
					}
				}
				if ok && model[member] != *min {
					t.Fatalf("member %d has %x, not %x", member, model[member], *min)
				}
			},
		})
	})
}
