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
		x.slots = make([]int32, max(minSlots, 2*len(x.slots)))
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

func (x *index) reset() {
	if len(x.slots) > maxSlots {
		x.slots, x.last, x.hash = nil, nil, nil
	}
	clear(x.slots)
	x.last, x.hash = x.last[:0], x.hash[:0]
}

// sorted is the keys of an index in order, brought up to date by scans only.
type sorted struct {
	keys  []int32 // numbers of keys in the index
	spare []int32
	known int // keys of the index that are in it
	walks int // scans under way
}

// few is the number of new keys up to which each is inserted by itself.
const few = 8

// update sorts in the keys that are new since the last scan.
func (s *sorted) update(b *Batch, x *index) {
	n := len(x.last) - s.known
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
		for ; s.known < len(x.last); s.known++ {
			at, _ := slices.BinarySearchFunc(s.keys, int32(s.known), compare)
			s.keys = slices.Insert(s.keys, at, int32(s.known))
		}
		return
	}
	old := len(s.keys)
	for ; s.known < len(x.last); s.known++ {
		s.keys = append(s.keys, int32(s.known))
	}
	fresh := s.keys[old:]
	slices.SortFunc(fresh, compare)
	if old == 0 {
		return
	}
	merged := s.spare[:0]
	for i, j := 0, 0; i < old || j < len(fresh); {
		if j == len(fresh) || i < old && compare(s.keys[i], fresh[j]) < 0 {
			merged = append(merged, s.keys[i])
			i++
		} else {
			merged = append(merged, fresh[j])
			j++
		}
	}
	s.keys, s.spare = merged, s.keys
}

// between gives the keys of a range.
func (s *sorted) between(b *Batch, x *index, lower, upper []byte) []int32 {
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
		s.keys, s.spare = nil, nil
	}
	s.keys, s.known = s.keys[:0], 0
}
