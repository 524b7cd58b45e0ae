package claim

import "slices"

// Ranked is a rank and whose it is.
type Ranked struct {
	Rank   Rank
	Member int
}

// front keeps the first ranks of a merge from one look to the next: a member that has changed
// since is read again, and nobody else. Of hundreds of partitions with a few tasks each, some
// change between two looks.
type front struct {
	// Invariant: all ranks up to bound are here, in order, but for those of touched members.
	ranks, spare []Ranked
	bound        Rank
	touched      map[int]bool // members that were set since; nil: nothing is kept
	most         int          // of them: with more, nothing is kept any more
}

// Front gives the first n ranks over all members in order, or more, or as many as there are. next
// is that of [Merge.Walk]. They are valid until the next change, and the next look.
//
// It holds what Walk would visit, where [Merge.Set] is called after each change of a member's
// ranks, also one that leaves the smallest as it is.
func (m *Merge) Front(n int, next func(member, place int) *Rank) []Ranked {
	f := &m.front
	if f.touched != nil {
		f.update(m, next)
	}
	if f.touched != nil && len(f.ranks) >= n {
		if len(f.ranks) > 4*n {
			f.ranks = f.ranks[:2*n]
			f.bound = f.ranks[2*n-1].Rank
		}
		return f.ranks
	}
	f.ranks = f.ranks[:0]
	m.walk(next, func(member int, r *Rank) bool {
		f.ranks = append(f.ranks, Ranked{*r, member})
		return len(f.ranks) < 2*n
	})
	f.touched = nil
	if len(f.ranks) >= n {
		f.bound, f.touched, f.most = f.ranks[len(f.ranks)-1].Rank, make(map[int]bool), n
	}
	return f.ranks
}

// touch notes that a member has changed.
func (f *front) touch(member int) {
	if f.touched == nil {
		return
	}
	if f.touched[member] = true; len(f.touched) > f.most {
		*f = front{} // nobody looks
	}
}

// update reads the members again that have changed.
func (f *front) update(m *Merge, next func(member, place int) *Rank) {
	if len(f.touched) == 0 {
		return
	}
	rest := slices.DeleteFunc(f.ranks, func(r Ranked) bool { return f.touched[r.Member] })
	fresh := f.spare[:0]
	for member := range f.touched { // Any order: they are sorted.
		at, has := m.places[member]
		if !has {
			continue
		}
		r := &m.heap.entries[at].min
		for place := 1; r != nil && r.Compare(&f.bound) <= 0; place++ {
			fresh = append(fresh, Ranked{*r, member})
			r = next(member, place)
		}
	}
	clear(f.touched)
	slices.SortFunc(fresh, func(a, b Ranked) int { return a.Rank.Compare(&b.Rank) })
	f.spare = fresh
	// From the back, so that each is moved once.
	i, j := len(rest)-1, len(fresh)-1
	rest = append(rest, fresh...)
	for to := len(rest) - 1; j >= 0; to-- {
		if i >= 0 && rest[i].Rank.Compare(&fresh[j].Rank) > 0 {
			rest[to] = rest[i]
			i--
		} else {
			rest[to] = fresh[j]
			j--
		}
	}
	f.ranks = rest
}
