package store

import (
	"bytes"
	"slices"
)

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
	if len(s.chunks) == 0 && len(s.fresh) == 0 {
		o.used = append(o.used, g)
	}
	s.fresh = append(s.fresh, at)
}

// between gives the keys of a range, ascending (way 1) or descending (way -1), and the
// groups to leave alone meanwhile.
func (o *orders) between(b *Batch, x *index, lower, upper []byte, way int) (keys keyWalk, first, last byte) {
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
		return s.between(b, x, lower, upper, way), first, first
	}
	var chunks [][]int32
	for g := int(first); g <= int(last); g++ {
		s := &o.groups[g]
		s.update(b, x)
		part := s.between(b, x, lower, upper, 1)
		for ; part.more(); part.pass() {
			chunks = append(chunks, part.now)
		}
	}
	return newKeyWalk(chunks, 0, -1, way), first, last
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

// sorted is keys of an index in order, brought up to date by scans only. They lie in
// chunks, so that one more among many does not move all that come after it.
type sorted struct {
	chunks [][]int32 // numbers of keys in the index; none is empty
	fresh  []int32   // of those that are to be sorted in
	spare  [][]int32 // chunks for later
	walks  int       // scans under way
}

const (
	// maxChunk is the number of keys in one chunk at most.
	maxChunk = 512
	// few is the number of writes below which it does not matter how a batch lies.
	few = 8
)

// update sorts in the keys that are new since the last scan.
func (s *sorted) update(b *Batch, x *index) {
	if len(s.fresh) == 0 {
		return
	}
	compare := func(i, j int32) int {
		return bytes.Compare(b.keyOf(int(x.last[i])), b.keyOf(int(x.last[j])))
	}
	slices.SortFunc(s.fresh, compare)
	if s.walks > 0 { // somebody reads the old order: leave it alone
		s.chunks = slices.Clone(s.chunks)
	}
	rest := s.fresh
	if len(s.chunks) == 0 {
		s.chunks, rest = append(s.chunks, append(s.chunk(), rest[0])), rest[1:]
	}
	for len(rest) > 0 {
		i := s.chunkOf(func(at int32) int { return compare(at, rest[0]) })
		n := len(rest)
		if i+1 < len(s.chunks) {
			n, _ = slices.BinarySearchFunc(rest, s.chunks[i+1][0], compare)
		}
		if n = min(n, maxChunk-len(s.chunks[i])); n == 0 {
			s.split(i)
			continue
		}
		if s.walks > 0 { // as above
			s.chunks[i] = append(s.chunk(), s.chunks[i]...)
		}
		s.chunks[i] = insert(s.chunks[i], rest[:n], compare)
		rest = rest[n:]
	}
	s.fresh = s.fresh[:0]
}

// chunkOf gives the last chunk that does not begin after a place, or the first one.
func (s *sorted) chunkOf(compare func(at int32) int) int {
	n, _ := slices.BinarySearchFunc(s.chunks, 0, func(c []int32, _ int) int {
		if compare(c[0]) > 0 {
			return 1
		}
		return -1
	})
	return max(n-1, 0)
}

// chunk gives an empty one.
func (s *sorted) chunk() []int32 {
	if n := len(s.spare); n > 0 {
		c := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return c
	}
	return make([]int32, 0, maxChunk)
}

// split makes two of a full chunk.
func (s *sorted) split(i int) {
	c, half := s.chunks[i], maxChunk/2
	s.chunks = slices.Insert(s.chunks, i+1, append(s.chunk(), c[half:]...))
	s.chunks[i] = c[:half]
}

// insert puts keys, in order, into a chunk that has room for them.
func insert(c, some []int32, compare func(i, j int32) int) []int32 {
	old := len(c)
	c = c[:old+len(some)]
	for n := len(some); n > 0; n-- {
		i, _ := slices.BinarySearchFunc(c[:old], some[n-1], compare)
		copy(c[i+n:], c[i:old])
		c[i+n-1], old = some[n-1], i
	}
	return c
}

// walk gives all keys.
func (s *sorted) walk(way int) keyWalk { return newKeyWalk(s.chunks, 0, -1, way) }

// between gives the keys of a range.
func (s *sorted) between(b *Batch, x *index, lower, upper []byte, way int) keyWalk {
	if len(s.chunks) == 0 {
		return keyWalk{way: way}
	}
	search := func(key []byte) (i, at int) {
		compare := func(at int32) int { return bytes.Compare(b.keyOf(int(x.last[at])), key) }
		i = s.chunkOf(compare)
		at, _ = slices.BinarySearchFunc(s.chunks[i], 0, func(at int32, _ int) int { return compare(at) })
		return i, at
	}
	i, from := search(lower)
	if upper == nil {
		return newKeyWalk(s.chunks[i:], from, -1, way)
	}
	j, to := search(upper)
	if j < i || j == i && to <= from {
		return keyWalk{way: way}
	}
	return newKeyWalk(s.chunks[i:j+1], from, to, way)
}

// maxSpare is the number of chunks kept for reuse, which are half full at least: a rare
// large batch must not hold its memory for ever.
const maxSpare = 2 * maxKeptOps / maxChunk

func (s *sorted) reset() {
	if cap(s.fresh) > maxKeptOps || len(s.chunks)+len(s.spare) > maxSpare {
		s.chunks, s.spare, s.fresh = nil, nil, nil
	}
	for _, c := range s.chunks {
		s.spare = append(s.spare, c[:0])
	}
	clear(s.chunks)
	s.chunks, s.fresh = s.chunks[:0], s.fresh[:0]
}

// keyWalk is keys that are walked in order.
type keyWalk struct {
	now  []int32   // of one chunk, those that are left
	rest [][]int32 // chunks that come after it, the next one first (way 1) or last (way -1)
	end  int       // of the last chunk on the way those before it count (way 1), or those from it on
	way  int
}

// newKeyWalk walks chunks, of which the first one counts from a place and the last one
// up to a place; below 0: to its end.
func newKeyWalk(chunks [][]int32, from, to, way int) keyWalk {
	n := len(chunks)
	if n == 0 {
		return keyWalk{way: way}
	}
	if to < 0 {
		to = len(chunks[n-1])
	}
	var w keyWalk
	switch {
	case n == 1:
		return keyWalk{now: chunks[0][from:to], way: way}
	case way > 0:
		w = keyWalk{now: chunks[0][from:], rest: chunks[1:], end: to, way: way}
	default:
		w = keyWalk{now: chunks[n-1][:to], rest: chunks[:n-1], end: from, way: way}
	}
	if len(w.now) == 0 {
		w.pass()
	}
	return w
}

// more tells whether there is a key.
func (w *keyWalk) more() bool { return len(w.now) > 0 }

// key is the one that the walk is at.
func (w *keyWalk) key() int32 {
	if w.way < 0 {
		return w.now[len(w.now)-1]
	}
	return w.now[0]
}

// step goes on to the next key.
func (w *keyWalk) step() {
	if w.way < 0 {
		w.now = w.now[:len(w.now)-1]
	} else {
		w.now = w.now[1:]
	}
	if len(w.now) == 0 {
		w.pass()
	}
}

// pass goes on to the next chunk.
func (w *keyWalk) pass() {
	n := len(w.rest)
	switch {
	case n == 0:
		w.now = nil
	case w.way > 0:
		if w.now, w.rest = w.rest[0], w.rest[1:]; n == 1 {
			w.now = w.now[:w.end]
		}
	default:
		if w.now, w.rest = w.rest[n-1], w.rest[:n-1]; n == 1 {
			w.now = w.now[w.end:]
		}
	}
}
