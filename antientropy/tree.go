package antientropy

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// HashVersion is the newest hash of facts that this build has: version 1 is
// [crdt.HashFact] under [LeafOf].
const HashVersion = 1

// Node is what the tree knows of the facts below a path.
type Node struct {
	Sum   crdt.Sum // of the facts' hashes
	Count uint64   // of the facts
}

// plus gives the node with another one's facts in it.
func (n Node) plus(o Node) Node { return Node{n.Sum.Add(o.Sum), n.Count + o.Count} }

// minus gives the node with another one's facts taken out.
func (n Node) minus(o Node) Node { return Node{n.Sum.Sub(o.Sum), n.Count - o.Count} }

// Tree is the tree of one partition. Nodes lie in the store; in memory are only
// the changes since the last [Tree.Flush]. Make one with [NewTree]. It is used
// from one goroutine.
//
// Invariant: each leaf with changes in memory is in the last [Tree.Note], or will be in the
// one of this round.
type Tree struct {
	table     byte
	partition ring.Partition
	// pending are the changes, in the order of their first fact; a Node here is
	// a difference modulo its range. at is the index of a path in it, once there are more
	// than few.
	pending []change
	at      map[Path]int
	// root is the stored one, once it was read or written (rooted): replicas compare it
	// again and again.
	root   Node
	rooted bool
	noted  int      // how many of them the last [Tree.Note] has
	above  []change // scratch of Flush
	// hot are nodes that were written last: most facts are new, and touch the
	// same nodes again and again. Only Flush reads them.
	hot     map[Path]Node
	ends    *[len(levelBits)]end // nil until the first Flush
	watch   *Scrubber
	damaged uint64
	key     [4 + 6]byte
	value   []byte
}

type change struct {
	path Path
	by   Node
}

// NewTree makes the tree of a partition whose nodes lie in a table of the
// store; it reads nothing. The table must be used for nothing else.
func NewTree(table byte, p ring.Partition) *Tree {
	return &Tree{table: table, partition: p}
}

// Add counts a fact that was stored in this step. It must be called once for
// each fact, when it comes to be there, and reads and writes nothing.
func (t *Tree) Add(f crdt.Fact) { t.count(f, false) }

// Remove takes out a fact that was deleted in this step: the very bytes that
// were added. Where one body replaces another one under its key the old one is
// removed and the new one added.
func (t *Tree) Remove(f crdt.Fact) { t.count(f, true) }

func (t *Tree) count(f crdt.Fact, gone bool) {
	leaf, by := LeafOf(f.Task), Node{crdt.HashFact(f), 1}
	if gone {
		by = Node{}.minus(by)
	}
	t.change(leaf, by)
	if t.watch != nil {
		t.watch.see(leaf, positionOf(&f), by)
	}
}

// change adds to a node and to all above it.
func (t *Tree) change(p Path, by Node) {
	if n := len(t.pending); n > 0 && t.pending[n-1].path == p {
		t.pending[n-1].by = t.pending[n-1].by.plus(by) // as most often
		return
	}
	if i, ok := t.find(p); ok {
		t.pending[i].by = t.pending[i].by.plus(by)
		return
	}
	t.pending = append(t.pending, change{p, by})
	switch n := len(t.pending); {
	case n == few+1:
		t.at = make(map[Path]int, 2*few)
		for i := range t.pending {
			t.at[t.pending[i].path] = i
		}
	case n > few:
		t.at[p] = n - 1
	}
}

// few is how many changes are looked through for a path.
const few = 32

// find gives where a path is among the changes.
func (t *Tree) find(p Path) (i int, ok bool) {
	if len(t.pending) > few {
		i, ok = t.at[p]
		return i, ok
	}
	for i = range t.pending {
		if t.pending[i].path == p {
			return i, true
		}
	}
	return 0, false
}

// Flush writes the nodes that have changed since the last flush, each once. Before the batch
// with the facts is made durable it must be called, or [Tree.Note] be written with them.
func (t *Tree) Flush(tx store.Tx) {
	if len(t.pending) == 0 {
		return
	}
	slices.SortFunc(t.pending, func(a, b change) int { return a.path.compare(b.path) })
	rest, above := t.pending, t.above[:0]
	for level := len(levelBits) - 1; level >= 0; level-- {
		first := len(rest)
		for first > 0 && int(rest[first-1].path.Level) == level {
			first--
		}
		above = t.flushLevel(tx, merge(rest[first:], above))
		rest = rest[:first]
	}
	t.above = above[:0]
	t.pending, t.noted = t.pending[:0], 0
	t.at = nil
}

// Unflushed is the number of leaves that have changed since the last flush.
func (t *Tree) Unflushed() int { return len(t.pending) }

// Unnoted tells whether leaves have changed that the last [Tree.Note] has not.
func (t *Tree) Unnoted() bool { return len(t.pending) > t.noted }

// Note appends the names of the leaves that have changed since the last flush. Written in the
// batch of the facts, in the place of the note before, they make the tree right after a
// crash: [Tree.Recount] counts these leaves.
func (t *Tree) Note(dst []byte) []byte {
	t.noted = len(t.pending)
	for _, c := range t.pending {
		dst = binary.AppendUvarint(append(dst, c.path.Level), c.path.Prefix)
	}
	return dst
}

// Recount counts the leaves of a note by their facts, and takes what differs from the stored
// nodes as changes. It is called before there are others; facts gives the facts of a span of
// IDs. A note that cannot be read is read up to there: the tree is derived from the facts, and
// the scrubber puts it right.
func (t *Tree) Recount(view store.View, note []byte, facts func(Span) iter.Seq[crdt.Fact]) {
	for len(note) > 1 {
		prefix, size := binary.Uvarint(note[1:])
		leaf := Path{note[0], prefix}
		if size <= 0 || !leaf.valid() || !leaf.Leaf() {
			t.damaged++
			break
		}
		note = note[1+size:]
		var found Node
		for _, span := range leaf.spans(nil) {
			for f := range facts(span) {
				found = found.plus(Node{crdt.HashFact(f), 1})
			}
		}
		if by := found.minus(t.Node(view, leaf)); by != (Node{}) {
			t.change(leaf, by)
		}
	}
	t.noted = len(t.pending)
}

// flushLevel writes the nodes of one level, and gives the changes of the one
// above, in the same slice.
func (t *Tree) flushLevel(tx store.Tx, changes []change) (above []change) {
	above = changes[:0]
	for _, c := range changes {
		if (c.by == Node{}) {
			continue
		}
		t.put(tx, c.path, t.before(tx, c.path).plus(c.by))
		c.path = c.path.Parent()
		if n := len(above); n > 0 && above[n-1].path == c.path {
			above[n-1].by = above[n-1].by.plus(c.by)
			continue
		}
		above = append(above, c)
	}
	return above
}

// before is the node that a flush adds to. Facts come mostly in the order of
// their time, so that most nodes are those that were written last, or are new
// and beyond all there are: neither needs a read.
func (t *Tree) before(view store.View, p Path) Node {
	if n, hot := t.hot[p]; hot {
		return n
	}
	if t.ends == nil {
		t.ends = new([len(levelBits)]end)
	}
	e := &t.ends[p.Level]
	if !e.known {
		if e.looks++; e.looks%lookEvery == 1 {
			_, beyond := t.next(view, p.Level, p.Prefix)
			e.known, e.prefix = !beyond, p.Prefix
			if !beyond {
				return Node{}
			}
		}
	} else if p.Prefix > e.prefix {
		return Node{}
	}
	return t.Node(view, p)
}

// end is up to where there may be nodes of a level.
type end struct {
	known  bool
	prefix uint64
	looks  int // for it, while it is not known
}

// lookEvery is after how many nodes it is looked again whether one is the last.
const lookEvery = 64

// merge gives the changes of one level, ascending, those of one path added up.
// It may use the space of b.
func merge(a, b []change) []change {
	if len(a) == 0 {
		return b
	}
	all := append(b, a...)
	slices.SortFunc(all, func(a, b change) int { return a.path.compare(b.path) })
	out := all[:0]
	for _, c := range all {
		if n := len(out); n > 0 && out[n-1].path == c.path {
			out[n-1].by = out[n-1].by.plus(c.by)
			continue
		}
		out = append(out, c)
	}
	return out
}

// Node reads a node as of the last flush; the zero Node where there is none.
// A record that cannot be read counts as none, and in [Tree.Damaged]: the tree
// is derived from the facts, and the scrubber puts it right.
func (t *Tree) Node(view store.View, p Path) Node {
	value, ok := view.Get(t.keyOf(p))
	if !ok {
		return Node{}
	}
	return t.decode(value)
}

// Root is the node above all facts, those of the changes in memory among them.
func (t *Tree) Root(view store.View) Node {
	if !t.rooted {
		t.root, t.rooted = t.Node(view, Path{}), true
	}
	n := t.root
	for _, c := range t.pending {
		n = n.plus(c.by)
	}
	return n
}

// Child is a node below another one.
type Child struct {
	Path Path
	Node Node
}

// Children appends the nodes directly below a path, ascending. There are none
// below a leaf.
func (t *Tree) Children(view store.View, dst []Child, p Path) []Child {
	if p.Leaf() {
		return dst
	}
	from := append([]byte(nil), t.keyOf(p.Child(0))...)
	to := append(append([]byte(nil), t.keyOf(p.Child(p.FanOut()-1))...), 0)
	for key, value := range view.Scan(from, to) {
		if path, ok := t.pathOf(key); ok && path.Parent() == p {
			dst = append(dst, Child{path, t.decode(value)})
		}
	}
	return dst
}

// next finds the first stored node of a level that is not before a prefix.
func (t *Tree) next(view store.View, level uint8, prefix uint64) (Path, bool) {
	if prefix >= 1<<levelBits[level] {
		return Path{}, false
	}
	from := append([]byte(nil), t.keyOf(Path{level, prefix})...)
	to := []byte{t.table, byte(t.partition >> 8), byte(t.partition), level + 1}
	for key := range view.Scan(from, to) {
		if path, ok := t.pathOf(key); ok {
			return path, true
		}
	}
	return Path{}, false
}

// Damaged is the number of times that a record was read that is no node.
func (t *Tree) Damaged() uint64 { return t.damaged }

// keyOf is where a node lies: table, partition, level, prefix. The bytes are
// valid until the next call.
func (t *Tree) keyOf(p Path) []byte {
	bits := levelBits[p.Level]
	size := (bits + 7) / 8
	key := append(t.key[:0], t.table, byte(t.partition>>8), byte(t.partition), p.Level)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], p.Prefix<<(size*8-bits))
	return append(key, b[8-size:]...)
}

// pathOf is the inverse of keyOf.
func (t *Tree) pathOf(key []byte) (Path, bool) {
	if len(key) < 4 || int(key[3]) >= len(levelBits) {
		return Path{}, false
	}
	p := Path{Level: key[3]}
	bits := levelBits[p.Level]
	size := (bits + 7) / 8
	if len(key) != 4+int(size) {
		return Path{}, false
	}
	for _, c := range key[4:] {
		p.Prefix = p.Prefix<<8 | uint64(c)
	}
	pad := size*8 - bits
	padded := p.Prefix
	p.Prefix >>= pad
	return p, p.Prefix<<pad == padded && p.valid()
}

// maxHot bounds the nodes kept in memory, of 40 bytes each and as much again
// for the map: those above a few seconds of facts.
const maxHot = 64

// put writes a node; one without facts is deleted. Every write of a node comes
// here, so that what is hot is what is stored.
func (t *Tree) put(w store.Writer, p Path, n Node) {
	if t.hot == nil || len(t.hot) >= maxHot {
		t.hot = make(map[Path]Node, maxHot)
	}
	t.hot[p] = n
	if p.Level == 0 {
		t.root, t.rooted = n, true
	}
	if t.ends != nil && t.ends[p.Level].known {
		t.ends[p.Level].prefix = max(t.ends[p.Level].prefix, p.Prefix)
	}
	if (n == Node{}) {
		w.Delete(t.keyOf(p))
		return
	}
	b := append(t.value[:0], HashVersion)
	b = binary.BigEndian.AppendUint64(b, n.Sum[0])
	b = binary.BigEndian.AppendUint64(b, n.Sum[1])
	t.value = binary.AppendUvarint(b, n.Count)
	w.Set(t.keyOf(p), t.value)
}

func (t *Tree) decode(b []byte) Node {
	if len(b) < 18 || b[0] != HashVersion {
		t.damaged++
		return Node{}
	}
	count, size := binary.Uvarint(b[17:])
	if size != len(b)-17 {
		t.damaged++
		return Node{}
	}
	return Node{crdt.Sum{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])}, count}
}
