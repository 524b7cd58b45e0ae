package store

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// index finds the last write of a key in a batch: an open-addressed hash table
// whose keys lie in the batch, so that a new key costs no allocation. Keys are
// chosen by users; the seeded hash keeps them from choosing collisions.
type index struct {
	seed  maphash.Seed
	slots []int32  // number of a key in last, plus one; 0 is free
	last  []int32  // by key in order of first write: its last write in the batch
	hash  []uint64 // of the same key
}

const (
	minSlots = 64
	// maxSlots is the largest table kept for reuse; emptying it costs its size.
	maxSlots = 128 << 10
)

// find gives the number of a key, and its hash for add.
func (x *index) find(b *Batch, key []byte) (at int, hash uint64, ok bool) {
	hash = maphash.Bytes(x.seed, key)
	if len(x.last) == 0 {
		return 0, hash, false
	}
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; x.slots[i] != 0; i = (i + 1) & mask {
		at := int(x.slots[i]) - 1
		if x.hash[at] == hash && bytes.Equal(b.keyOf(int(x.last[at])), key) {
			return at, hash, true
		}
	}
	return 0, hash, false
}

// add enters a key that find does not know.
func (x *index) add(hash uint64, write int32) {
	x.last = append(x.last, write)
	x.hash = append(x.hash, hash)
	if 2*len(x.last) > len(x.slots) { // at most half full: probes stay short
		if size := max(minSlots, 2*len(x.slots)); size <= cap(x.slots) {
			x.slots = x.slots[:size]
			clear(x.slots)
		} else {
			x.slots = make([]int32, size)
		}
		for at := range x.last {
			x.enter(at)
		}
		return
	}
	x.enter(len(x.last) - 1)
}

func (x *index) enter(at int) {
	mask := uint64(len(x.slots) - 1)
	i := x.hash[at] & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = int32(at + 1)
}

// reset forgets the keys. A table that was mostly empty becomes smaller, so that
// a large batch does not make the small ones after it dear.
func (x *index) reset() {
	if len(x.slots) > maxSlots {
		x.slots, x.last, x.hash = nil, nil, nil
	}
	clear(x.slots)
	if size := len(x.slots) / 2; size >= minSlots && 4*len(x.last) < size {
		x.slots = x.slots[:size]
	}
	x.last, x.hash = x.last[:0], x.hash[:0]
}

// orders is the keys of an index in order, apart by first byte: a scan sorts the
// keys of the table it reads and leaves those of the others alone.
type orders struct {
	groups [256]sorted
	used   []byte // groups with keys
}

func group(key []byte) byte {
	if len(key) == 0 {
		return 0
	}
	return key[0]
}

// add notes a new key.
func (o *orders) add(key []byte, at int32) {
	g := group(key)
	s := &o.groups[g]
	if len(s.keys) == 0 && len(s.fresh) == 0 {
		o.used = append(o.used, g)
	}
	s.fresh = append(s.fresh, at)
}

// between gives the keys of a range, and the groups to leave alone meanwhile.
func (o *orders) between(b *Batch, x *index, lower, upper []byte) (keys []int32, first, last byte) {
	first, last = group(lower), 255
	switch {
	case len(upper) == 1 && upper[0] > 0:
		last = upper[0] - 1
	case upper != nil:
		last = group(upper)
	}
	if first >= last {
		s := &o.groups[first]
		s.update(b, x)
		return s.between(b, x, lower, upper), first, first
	}
	for g := int(first); g <= int(last); g++ {
		s := &o.groups[g]
		s.update(b, x)
		keys = append(keys, s.between(b, x, lower, upper)...)
	}
	return keys, first, last
}

// walk counts the walks under way over some groups.
func (o *orders) walk(first, last byte, by int) {
	for g := int(first); g <= int(last); g++ {
		o.groups[g].walks += by
	}
}

func (o *orders) reset() {
	for _, g := range o.used {
		o.groups[g].reset()
	}
	o.used = o.used[:0]
}

// sorted is keys of an index in order, brought up to date by scans only.
type sorted struct {
	keys  []int32 // numbers of keys in the index
	fresh []int32 // of those that are to be sorted in
	spare []int32
	walks int // scans under way
}

// few is the number of new keys up to which each is inserted by itself.
const few = 8

// update sorts in the keys that are new since the last scan.
func (s *sorted) update(b *Batch, x *index) {
	n := len(s.fresh)
	if n == 0 {
		return
	}
	if s.walks > 0 { // somebody reads the old order: leave it alone
		s.keys, s.spare = slices.Clone(s.keys), nil
	}
	compare := func(i, j int32) int {
		return bytes.Compare(b.keyOf(int(x.last[i])), b.keyOf(int(x.last[j])))
	}
	if n <= few {
		for _, at := range s.fresh {
			i, _ := slices.BinarySearchFunc(s.keys, at, compare)
			s.keys = slices.Insert(s.keys, i, at)
		}
		s.fresh = s.fresh[:0]
		return
	}
	slices.SortFunc(s.fresh, compare)
	if len(s.keys) == 0 {
		s.keys, s.fresh = append(s.keys, s.fresh...), s.fresh[:0]
		return
	}
	merged := s.spare[:0]
	for i, j := 0, 0; i < len(s.keys) || j < n; {
		if j == n || i < len(s.keys) && compare(s.keys[i], s.fresh[j]) < 0 {
			merged = append(merged, s.keys[i])
			i++
		} else {
			merged = append(merged, s.fresh[j])
			j++
		}
	}
	s.keys, s.spare, s.fresh = merged, s.keys, s.fresh[:0]
}

// between gives the keys of a range.
func (s *sorted) between(b *Batch, x *index, lower, upper []byte) []int32 {
	if len(s.keys) == 0 {
		return nil
	}
	search := func(key []byte) int {
		at, _ := slices.BinarySearchFunc(s.keys, key, func(i int32, key []byte) int {
			return bytes.Compare(b.keyOf(int(x.last[i])), key)
		})
		return at
	}
	from, to := search(lower), len(s.keys)
	if upper != nil {
		to = max(from, search(upper))
	}
	return s.keys[from:to]
}

func (s *sorted) reset() {
	if cap(s.keys) > maxKeptOps {
		s.keys, s.spare, s.fresh = nil, nil, nil
	}
	s.keys, s.fresh = s.keys[:0], s.fresh[:0]
}
