package antientropy

import (
	"math/bits"
	"slices"

	"github.com/norn-dev/norn/crdt"
)

// listMost is the number of facts up to which a node or slice is listed and not
// split; sliceFacts is how many are meant to be in the smallest slices;
// listLimit bounds a list where counts mislead.
const (
	listMost   = 32
	sliceFacts = 16
	listLimit  = 1 << 20
)

// splitting finds what is below a node, in pieces.
type splitting struct {
	tree    *Tree
	replica Replica
	salt    uint64
	ask     *Ask
	bits    uint8 // of the split; 0 for a list
	begun   bool
	cursor  cursor
	tags    []uint32   // of a list
	sums    []crdt.Sum // of slices
}

func newSplitting(t *Tree, r Replica, salt uint64, ask *Ask) *splitting {
	return &splitting{tree: t, replica: r, salt: salt, ask: ask}
}

// run works on; true when the result is there.
func (s *splitting) run(b *budget) bool {
	if !s.begun {
		s.begun = true
		s.begin(s.tree.Node(s.replica.View(), s.ask.Path).Count >> s.ask.Bits)
	}
	if s.inner() {
		return true
	}
	done := s.cursor.walk(s.replica, b, s.visit)
	if !done && s.bits == 0 && s.misled() {
		s.begin(listMost * 64)
		return s.inner()
	}
	return done || s.bits == 0 && len(s.tags) >= listLimit
}

// begin decides how a node is split of which each slice has so many facts.
func (s *splitting) begin(each uint64) {
	s.tags, s.sums, s.bits = nil, nil, 0
	s.cursor = newCursor(s.ask.Path, Position{})
	switch {
	case each <= listMost || s.ask.Bits+maxSplit > maxBits:
	case s.ask.Path.Leaf():
		// All at once when that is little; else in steps, so that one fact that
		// differs among very many does not cost a tag for each slice of them.
		if s.bits = uint8(bits.Len64(each / sliceFacts)); s.bits > 6 {
			s.bits = 4
		}
		s.sums = make([]crdt.Sum, s.ask.groups()<<s.bits)
	default:
		s.bits = s.ask.Path.Child(0).digit()
	}
}

// inner tells whether the tree itself has the answer.
func (s *splitting) inner() bool { return s.bits > 0 && !s.ask.Path.Leaf() }

// misled tells that a list is far longer than the count has said: the tree is
// damaged, or many facts have just come.
func (s *splitting) misled() bool {
	return len(s.tags) > 4*listMost*s.ask.groups() && s.ask.Bits+maxSplit <= maxBits
}

func (s *splitting) visit(f *crdt.Fact) bool {
	h := crdt.HashFact(*f)
	group, ok := s.ask.group(h)
	switch {
	case !ok:
	case s.bits > 0:
		part := partOf(h, group, s.ask.Bits, s.bits)
		s.sums[part] = s.sums[part].Add(h)
	case s.misled() || len(s.tags) >= listLimit:
		return false
	default:
		s.tags = append(s.tags, tag(s.salt, h))
	}
	return true
}

// partOf is the part of a split in which a fact is that is in a group, by its
// hash.
func partOf(h crdt.Sum, group int, before, bits uint8) int {
	return group<<bits | int(sliceOf(h, before+bits)&(1<<bits-1))
}

func (s *splitting) result() Split {
	if s.bits == 0 {
		slices.Sort(s.tags)
		return Split{Tags: s.tags}
	}
	out := Split{Bits: s.bits, Groups: uint32(s.ask.groups())}
	if s.ask.Path.Leaf() {
		for i, sum := range s.sums {
			if sum != (crdt.Sum{}) {
				out.Parts = append(out.Parts, uint32(i))
				out.Tags = append(out.Tags, tag(s.salt, sum))
			}
		}
		return out
	}
	for _, c := range s.tree.Children(s.replica.View(), nil, s.ask.Path) {
		out.Parts = append(out.Parts, uint32(c.Path.index()))
		out.Tags = append(out.Tags, tag(s.salt, c.Node.Sum))
	}
	return out
}
