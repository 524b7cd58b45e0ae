package ring

import "slices"

// search looks for the cheapest chain of moves: from a node that has too much
// over any number of others, each of which passes something on, to one that
// takes it. It goes through the nodes in breadth, and at every cost first over
// all moves that cost nothing. What it finds is an augmenting path of the
// flow from partitions to nodes: where there is none, no series of moves helps.
type search struct {
	groups [][]int32 // by zone: nodes not reached yet, in order of choice, and some that are
	open   []int     // zones with such nodes
	left   int       // number of nodes not reached
	goal   func(int) bool
	cheap  bool // only moves that cost nothing

	from  []int32 // by node: the node before it, or none; itself if not reached
	via   []int32 // and what moves from there to here
	queue []int32 // nodes reached, to be gone on from
	found int     // the end of the chain, or none
}

// start begins at the sources, in order of choice; ranked are all nodes in
// order of choice, but it does not go to those that are dead.
func (s *search) start(zoneOf []int, sources, ranked []int32, dead []bool, goal func(int) bool) {
	for z := range s.groups {
		s.groups[z] = s.groups[z][:0]
	}
	s.queue, s.open, s.left, s.goal, s.found = append(s.queue[:0], sources...), s.open[:0], 0, goal, none
	for _, i := range ranked {
		if s.from[i] = i; dead[i] {
			s.from[i] = none
		}
	}
	for _, i := range sources {
		s.from[i] = none
	}
	for _, i := range ranked {
		if s.from[i] == none {
			continue
		}
		z := zoneOf[i]
		if len(s.groups[z]) == 0 {
			s.open = append(s.open, z)
		}
		s.groups[z] = append(s.groups[z], i)
		s.left++
	}
}

// reach marks the nodes of a zone that item can move to from a node.
func (s *search) reach(zone int, from, item int32, possible func(to int32) bool) {
	rest := s.groups[zone][:0]
	for _, to := range s.groups[zone] {
		if s.reached(to) {
			continue
		}
		if s.found != none || !possible(to) {
			rest = append(rest, to)
			continue
		}
		s.mark(to, from, item)
	}
	s.groups[zone] = rest
	if len(rest) == 0 {
		s.open = slices.DeleteFunc(s.open, func(z int) bool { return z == zone })
	}
}

// reached says whether a node needs no marking: a node that it has not come to
// is its own predecessor.
func (s *search) reached(i int32) bool { return s.from[i] != i }

// mark notes that item can move to a node that was not reached before.
func (s *search) mark(to, from, item int32) {
	s.from[to], s.via[to] = from, item
	s.queue = append(s.queue, to)
	s.left--
	if s.goal(int(to)) {
		s.found = int(to)
	}
}

// run goes on until the goal is found or nothing is left. expand calls reach
// for what a node has of a kind.
func (s *search) run(expand func(s *search, node int32, kind int)) {
	for start := 0; start < len(s.queue) && s.found == none && s.left > 0; {
		for at := start; at < len(s.queue); at++ {
			if expand(s, s.queue[at], fresh); s.found != none || s.left == 0 {
				break
			}
		}
		end := len(s.queue)
		for at := start; at < end && !s.cheap && s.found == none && s.left > 0; at++ {
			expand(s, s.queue[at], kept)
		}
		start = end
	}
}

// walk calls move for every step of the chain, from its end to its start.
func (s *search) walk(move func(item, to int32)) {
	for to := int32(s.found); s.from[to] != none; to = s.from[to] {
		move(s.via[to], to)
	}
}

// loads is what search and balance need to know of what nodes carry: replicas
// or leaderships.
type loads struct {
	zoneOf []int
	ideal  []ratio
	count  []int
	expand func(s *search, node int32, kind int)
	move   func(item, to int32)

	order []int32 // all nodes
	dead  []bool  // by node: no chain through it can help
	work  search
	keys  []int64
}

func newLoads(b *board, ideal []ratio, count []int) *loads {
	n := len(b.nodes)
	l := &loads{zoneOf: b.zoneOf, ideal: ideal, count: count, dead: make([]bool, n)}
	l.work = search{groups: make([][]int32, len(b.zones)), from: make([]int32, n), via: make([]int32, n)}
	l.order = l.ranked(all)
	return l
}

// effort says what balance may do.
type effort int

const (
	free effort = iota // take all nodes to their ideal, with moves that cost nothing
	dear               // take nodes that are out of bounds to their ideal, with any moves
)

// balance moves load from nodes over their ideal to nodes under it. To come to
// the ideal is to come within less than one of it.
func (l *loads) balance(e effort) {
	clear(l.dead)
	for i := range l.count {
		if q := l.ideal[i]; e == free || l.count[i] > q.most() {
			for l.count[i] > q.ceil() && !l.dead[i] && l.push(i, e) {
			}
		}
	}
	clear(l.dead)
	for i := range l.count {
		if q := l.ideal[i]; e == free || l.count[i] < q.least() {
			for l.count[i] < q.floor() && !l.dead[i] && l.pull(i, e) {
			}
		}
	}
}

// balanced says whether all nodes are within bounds.
func (l *loads) balanced() bool {
	for i, q := range l.ideal {
		if l.count[i] < q.least() || l.count[i] > q.most() {
			return false
		}
	}
	return true
}

// ranked gives the nodes that fit by how much they have in parts of their
// ideal, the emptiest first.
func (l *loads) ranked(fit func(int) bool) []int32 {
	const indexBits, most = 10, 1<<53 - 1
	keys := l.keys[:0]
	for i, q := range l.ideal {
		if fit(i) {
			fullness := min((int64(l.count[i])<<16)*q.den/q.num, most)
			keys = append(keys, fullness<<indexBits|int64(i))
		}
	}
	slices.Sort(keys)
	out := make([]int32, len(keys))
	for r, k := range keys {
		out[r] = int32(k & (1<<indexBits - 1))
	}
	l.keys = keys
	return out
}

func all(int) bool { return true }

// push moves one from a node. Where that fails, no node that was reached can
// pass anything on to where it is needed, now or after any other move.
func (l *loads) push(i int, e effort) bool {
	l.work.start(l.zoneOf, []int32{int32(i)}, l.ranked(all), l.dead, func(to int) bool { return l.count[to] < l.ideal[to].ceil() })
	if l.try(e) {
		return true
	}
	for _, i := range l.work.queue {
		l.dead[i] = true
	}
	return false
}

// pull moves one to a node. Where that fails, no node that was not reached can
// get anything from where it is too much.
func (l *loads) pull(i int, e effort) bool {
	sources := l.ranked(func(from int) bool { return from != i && l.count[from] > l.ideal[from].floor() })
	slices.Reverse(sources)
	l.work.start(l.zoneOf, sources, l.order, l.dead, func(to int) bool { return to == i })
	if l.try(e) {
		return true
	}
	for i := range l.dead {
		l.dead[i] = l.dead[i] || !l.work.reached(int32(i))
	}
	return false
}

func (l *loads) try(e effort) bool {
	l.work.cheap = e == free
	if l.work.run(l.expand); l.work.found == none {
		return false
	}
	l.work.walk(l.move)
	return true
}

// loads are the replicas, to be balanced.
func (b *board) loads() *loads {
	l := newLoads(b, b.ideal, b.count)
	l.expand, l.move = b.expand, func(slot, to int32) { b.replace(int(slot), to) }
	if b.dropped {
		l.expand = func(s *search, node int32, kind int) {
			if b.expand(s, node, kind); kind == fresh && s.cheap {
				b.goBack(s, node)
			}
		}
	}
	return l
}

// expand finds where the replicas of a node can move.
func (b *board) expand(s *search, node int32, kind int) {
	home := b.zoneOf[node]
	for _, slot := range b.on[kind][node] {
		if s.found != none || s.left == 0 {
			return
		}
		p := int(slot) / b.width
		in := b.inZone[p*len(b.zones) : (p+1)*len(b.zones)]
		lacks := func(to int32) bool { return !b.holds(p, int(to)) }
		if len(s.groups[home]) > 0 {
			s.reach(home, node, slot, lacks)
		}
		if int(in[home]) <= b.least[home] {
			continue
		}
		for at := len(s.open) - 1; at >= 0; at-- {
			if z := s.open[at]; z != home && int(in[z]) < b.most[z] {
				s.reach(z, node, slot, lacks)
			}
		}
	}
}

// goBack finds which kept replicas of a node can move to where drop took one
// of the same partition: that costs nothing either.
func (b *board) goBack(s *search, node int32) {
	for _, slot := range b.on[kept][node] {
		p := int(slot) / b.width
		for _, to := range b.was[p*b.width : (p+1)*b.width] {
			if to != none && s.found == none && !s.reached(to) && b.fits(int(slot), to) {
				s.mark(to, node, slot)
			}
		}
	}
}
