package antientropy

import (
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Difference is a node that is not what the facts, or the nodes below it, say.
type Difference struct {
	Path   Path
	Stored Node
	Found  Node
}

// Scrubber checks a tree against the facts, one leaf at a time and then level by
// level, while writes go on; told to repair, it puts right what it finds. Over
// all nodes that is a rebuild, also of a tree that was never there. Make one
// with [NewScrubber]; a tree has at most one.
type Scrubber struct {
	tree    *Tree
	replica Replica
	scope   Path
	repair  bool
	active  bool
	level   int    // whose nodes are checked; above the last one for leaves
	next    uint64 // first leaf, by order, or node of the level that is not done
	open    bool   // leaf is being read
	leaf    Path
	cursor  cursor
	// timed and keyed are the next stored leaves of either kind. Within a step
	// nothing is written after the leaf at hand, so that they are looked up once.
	timed, keyed upcoming
	// found is what is known of the leaf's facts up to the cursor, and stays
	// right while facts come and go there.
	found Node
}

// upcoming is a stored leaf that was looked up.
type upcoming struct {
	path       Path
	ok, looked bool
}

// from tells whether it is still the first one from an order on.
func (u *upcoming) from(order uint64) bool { return u.looked && (!u.ok || u.path.order() >= order) }

// NewScrubber makes a scrubber that is told of all that the tree counts.
func NewScrubber(tree *Tree, replica Replica) *Scrubber {
	s := &Scrubber{tree: tree, replica: replica}
	tree.watch = s
	return s
}

// Start begins to check what is below a node, that node and those above it; the
// zero Path is everything. What was going on is dropped.
func (s *Scrubber) Start(scope Path, repair bool) {
	s.scope, s.repair, s.active = scope, repair, true
	s.level, s.open = len(levelBits), false
	s.next, _ = s.leaves()
}

// Busy tells whether there is more to check.
func (s *Scrubber) Busy() bool { return s.active }

// leafCost is for how many facts the search for a leaf counts. It takes several walks, and where
// tasks are few each leaf has one of them.
const leafCost = 8

// Step reads about so many facts and nodes, and at most 1 KiB each on average
// and a fact; it gives what differs and says when everything is checked. It
// flushes the tree.
func (s *Scrubber) Step(tx store.Tx, facts int) (found []Difference, done bool) {
	s.tree.Flush(tx)
	s.timed.looked, s.keyed.looked = false, false
	b := &budget{facts, facts << 10}
	for s.active && !b.spent() {
		var d Difference
		var checked bool
		if s.level == len(levelBits) {
			d, checked = s.stepLeaf(tx, b)
		} else {
			d, checked = s.stepInner(tx, b)
		}
		b.facts-- // so that a step ends where there are no facts, too
		if checked && d.Stored != d.Found {
			found = append(found, d)
			if s.repair {
				s.tree.put(tx, d.Path, d.Found)
			}
		}
	}
	return found, !s.active
}

// order numbers leaves: by second, then by time, then unique keys by hash.
func (p Path) order() uint64 { return p.Prefix << (levelBits[keyLevel] - levelBits[p.Level]) }

// leaves are the orders of the leaves in the scope.
func (s *Scrubber) leaves() (first, end uint64) {
	next := Path{s.scope.Level, s.scope.Prefix + 1}
	return s.scope.order(), next.order()
}

// stepLeaf goes on with the leaf at hand, or finds the next one; checked says
// that it has been read to its end.
func (s *Scrubber) stepLeaf(view store.View, b *budget) (d Difference, checked bool) {
	if !s.open {
		b.facts -= leafCost
		leaf, ok := s.nextLeaf(view, s.next)
		if _, end := s.leaves(); !ok || leaf.order() >= end {
			s.up()
			return d, false
		}
		s.open, s.leaf, s.found, s.cursor = true, leaf, Node{}, newCursor(leaf, Position{})
	}
	done := s.cursor.walk(s.replica, b, func(f *crdt.Fact) bool {
		s.found = s.found.plus(Node{crdt.HashFact(*f), 1})
		return true
	})
	if !done {
		return d, false
	}
	s.open, s.next = false, s.leaf.order()+1
	return Difference{s.leaf, s.tree.Node(view, s.leaf), s.found}, true
}

// see is told of a fact that came, or went.
func (s *Scrubber) see(leaf Path, at Position, by Node) {
	if s.open && leaf == s.leaf && at.Compare(s.cursor.after) <= 0 {
		s.found = s.found.plus(by)
	}
}

// nextLeaf is the first leaf that is stored or has facts, from an order on.
func (s *Scrubber) nextLeaf(view store.View, from uint64) (best Path, ok bool) {
	take := func(p Path, found bool) {
		if found && (!ok || p.order() < best.order()) {
			best, ok = p, true
		}
	}
	if !s.timed.from(from) {
		const rest = 12 // bits of an order that a leaf by time has not
		prefix := (from + 1<<rest - 1) >> rest
		p, found := s.tree.next(view, timeLevel, prefix)
		for found && !p.Leaf() {
			p, found = s.tree.next(view, timeLevel, p.Prefix+1)
		}
		s.timed = upcoming{p, found, true}
	}
	if !s.keyed.from(from) {
		p, found := s.tree.next(view, keyLevel, from)
		s.keyed = upcoming{p, found, true}
	}
	take(s.timed.path, s.timed.ok)
	take(s.keyed.path, s.keyed.ok)
	take(s.nextFact(from))
	return best, ok
}

// nextFact is the first leaf that has facts, from an order on.
func (s *Scrubber) nextFact(from uint64) (Path, bool) {
	second, digit, hash := from>>16, from>>12&15, from&0xfff
	if digit < keyed && hash > 0 {
		digit, hash = digit+1, 0
	}
	for range 2 { // this second and the next one that has facts
		if digit < keyed {
			spans := (Path{timeLevel, second<<4 | digit}).spans(nil)
			spans[len(spans)-1].To = idAt(second+1, 0, 0) // and the leaves after it
			for _, span := range spans {
				if leaf, ok := s.first(span); ok {
					return leaf, true
				}
			}
		}
		keys := Span{idAt(second, uint64(id.KindKey), hash<<4), idAt(second, uint64(id.KindKey)+1, 0)}
		if leaf, ok := s.first(keys); ok {
			return leaf, true
		}
		if second >= 1<<32-1 {
			return Path{}, false
		}
		leaf, ok := s.first(Span{From: idAt(second+1, 0, 0)})
		if !ok {
			return Path{}, false
		}
		second, digit, hash = leaf.order()>>16, 0, 0
	}
	return Path{}, false
}

// first is the leaf of the first fact in a span.
func (s *Scrubber) first(span Span) (Path, bool) {
	for f := range s.replica.Facts(Position{Task: span.From}, span.To) {
		return LeafOf(f.Task), true
	}
	return Path{}, false
}

// up goes on with the level above.
func (s *Scrubber) up() {
	if s.level--; s.level < 0 {
		s.active = false
		return
	}
	s.next = shift(s.scope.Prefix, s.within(uint8(s.level)))
}

// within is the number of bits by which nodes of a level are longer than the
// scope; below 0 they are above it.
func (s *Scrubber) within(level uint8) int {
	return int(levelBits[level]) - int(levelBits[s.scope.Level])
}

// inScope tells whether a node is below the scope or above it.
func (s *Scrubber) inScope(p Path) bool {
	n := s.within(p.Level)
	return shift(p.Prefix, min(-n, 0)) == shift(s.scope.Prefix, min(n, 0))
}

// shift moves bits up, or with n below 0 down.
func shift(v uint64, n int) uint64 {
	if n < 0 {
		return v >> -n
	}
	return v << n
}

// stepInner checks the next inner node of the level.
func (s *Scrubber) stepInner(view store.View, b *budget) (d Difference, checked bool) {
	p, ok := s.nextInner(view)
	if !ok || !s.inScope(p) {
		s.up()
		return d, false
	}
	d = Difference{Path: p, Stored: s.tree.Node(view, p)}
	for _, c := range s.tree.Children(view, nil, p) {
		d.Found = d.Found.plus(c.Node)
		b.facts--
	}
	s.next = p.Prefix + 1
	return d, true
}

// nextInner is the next inner node of the level that is stored or has nodes
// below it.
func (s *Scrubber) nextInner(view store.View) (Path, bool) {
	level := uint8(s.level)
	if level == keyLevel || s.next >= 1<<levelBits[level] {
		return Path{}, false
	}
	p, ok := s.tree.next(view, level, s.next)
	for ok && p.Leaf() {
		p, ok = s.tree.next(view, level, p.Prefix+1)
	}
	low := Path{level, s.next}
	child, below := s.tree.next(view, level+1, low.Child(0).Prefix)
	if below && (!ok || child.Parent().Prefix < p.Prefix) {
		return child.Parent(), true
	}
	return p, ok
}
