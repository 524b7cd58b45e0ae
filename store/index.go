package store

import (
	"bytes"
	"hash/maphash"
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
