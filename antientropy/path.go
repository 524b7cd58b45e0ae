package antientropy

import (
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// The levels of the tree. A node is named by the first bits of an address; this
// many at each level. The address of a task is the second of its ID, then
// either the fifteenth of a second, or, for unique keys, which share one
// instant by the million, the mark [keyed] and twelve bits of their hash.
var levelBits = [...]uint8{0, 8, 16, 20, 24, 28, 32, timeLevel: 36, 40, 44, keyLevel: 48}

const (
	secondLevel = 6  // one second
	timeLevel   = 7  // leaves of most tasks: 2^28 / 4 ns, 67 ms
	keyLevel    = 10 // leaves of unique keys whose ID says a full second
	keyed       = 15 // the digit of those at timeLevel
)

// Path names a node of the tree. The zero Path is the root.
type Path struct {
	Level  uint8  // 0 to 10
	Prefix uint64 // the first bits of the address, as a number
}

// LeafOf gives the leaf in which a task's facts are counted. It is a function
// of the ID alone and part of what replicas compare: never change it.
func LeafOf(task id.ID) Path {
	second, sub := uint64(binary.BigEndian.Uint32(task[0:4])), binary.BigEndian.Uint32(task[4:8])
	if sub == uint32(id.KindKey) { // a unique key, and no nanoseconds
		hash := uint64(binary.BigEndian.Uint16(task[8:10]) >> 4)
		return Path{keyLevel, second<<16 | keyed<<12 | hash}
	}
	return Path{timeLevel, second<<4 | uint64(min(sub>>28, keyed-1))}
}

// Leaf tells whether the node has facts and not nodes below it.
func (p Path) Leaf() bool {
	return p.Level == timeLevel && p.Prefix&15 != keyed || p.Level == keyLevel
}

// Parent is the node above; the root's is the root.
func (p Path) Parent() Path {
	if p.Level == 0 {
		return p
	}
	return Path{p.Level - 1, p.Prefix >> p.digit()}
}

// Child is the node below with a digit, which must be below [Path.FanOut].
func (p Path) Child(digit int) Path {
	c := Path{Level: p.Level + 1}
	c.Prefix = p.Prefix<<c.digit() | uint64(digit)
	return c
}

// FanOut is the number of nodes that can be below; 0 for a leaf.
func (p Path) FanOut() int {
	if p.Leaf() {
		return 0
	}
	return 1 << Path{Level: p.Level + 1}.digit()
}

// digit is the number of bits by which the node is longer than its parent.
func (p Path) digit() uint8 { return levelBits[p.Level] - levelBits[p.Level-1] }

// index is the digit by which the node differs from its siblings.
func (p Path) index() int { return int(p.Prefix & (1<<p.digit() - 1)) }

// valid tells whether there can be such a node.
func (p Path) valid() bool {
	if int(p.Level) >= len(levelBits) || p.Prefix >= 1<<levelBits[p.Level] {
		return false
	}
	return p.Level <= timeLevel || p.Prefix>>(levelBits[p.Level]-levelBits[timeLevel])&15 == keyed
}

// String gives the level and the prefix in hex: "7:1a2b3c4d5".
func (p Path) String() string {
	if p.Level == 0 {
		return "root"
	}
	return fmt.Sprintf("%d:%0*x", p.Level, levelBits[p.Level]/4, p.Prefix)
}

// compare orders nodes by level, then by prefix.
func (p Path) compare(o Path) int {
	switch {
	case p.Level != o.Level:
		return int(p.Level) - int(o.Level)
	case p.Prefix < o.Prefix:
		return -1
	case p.Prefix > o.Prefix:
		return 1
	}
	return 0
}

// Span is a run of IDs in their order.
type Span struct {
	From id.ID // the first
	To   id.ID // the first one after; the zero ID says that there is no end
}

// Holds tells whether an ID is in the span.
func (s Span) Holds(i id.ID) bool {
	return i.Compare(s.From) >= 0 && (s.To.IsZero() || i.Compare(s.To) < 0)
}

// spans appends the runs of IDs whose facts are counted in the node, ascending:
// one, or two for the leaf that lies around the unique keys of its second.
func (p Path) spans(dst []Span) []Span {
	if p.Level <= secondLevel {
		rest := levelBits[secondLevel] - levelBits[p.Level]
		return append(dst, Span{idAt(p.Prefix<<rest, 0, 0), idAt((p.Prefix+1)<<rest, 0, 0)})
	}
	if p.Level == timeLevel && p.Prefix&15 != keyed {
		second, digit := p.Prefix>>4, p.Prefix&15
		end := idAt(second, (digit+1)<<28, 0)
		if digit == keyed-1 {
			end = idAt(second+1, 0, 0) // what is no valid time counts here, too
		}
		if digit == 0 {
			key := uint64(id.KindKey)
			return append(dst, Span{idAt(second, 0, 0), idAt(second, key, 0)}, Span{idAt(second, key+1, 0), end})
		}
		return append(dst, Span{idAt(second, digit<<28, 0), end})
	}
	bits := levelBits[p.Level] - levelBits[timeLevel] // of the hash
	second, hash := p.Prefix>>bits>>4, p.Prefix&(1<<bits-1)
	s := Span{idAt(second, uint64(id.KindKey), hash<<(16-bits)), idAt(second, uint64(id.KindKey)+1, 0)}
	if hash+1 < 1<<bits {
		s.To = idAt(second, uint64(id.KindKey), (hash+1)<<(16-bits))
	}
	return append(dst, s)
}

// idAt is the first ID with these first ten bytes; past the last second it is
// the zero ID, which as the end of a span means none.
func idAt(second, sub, hash uint64) (i id.ID) {
	if second > 1<<32-1 {
		return i
	}
	binary.BigEndian.PutUint32(i[0:4], uint32(second))
	binary.BigEndian.PutUint32(i[4:8], uint32(sub))
	binary.BigEndian.PutUint16(i[8:10], uint16(hash))
	return i
}

// holds tells whether a task's facts are counted in the node or below it.
func (p Path) holds(task id.ID) bool {
	leaf := LeafOf(task)
	return leaf.Level >= p.Level && leaf.Prefix>>(levelBits[leaf.Level]-levelBits[p.Level]) == p.Prefix
}

// Position is a place in the order of facts: by task, then by key. The zero
// key lies before the task's first fact.
type Position struct {
	Task id.ID
	Key  crdt.Key
}

// Compare is negative when p lies before o.
func (p Position) Compare(o Position) int {
	if c := p.Task.Compare(o.Task); c != 0 {
		return c
	}
	return p.Key.Compare(o.Key)
}

// positionOf is where a fact lies.
func positionOf(f *crdt.Fact) Position { return Position{f.Task, f.Key} }
