package antientropy

import (
	"iter"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Ranges gives the sums over the facts of runs of IDs, those of the changes in memory among
// them. Run i begins with bounds[i] and ends where the next one begins; bounds ascend, and the
// first is the zero ID. It reads the nodes around each bound. Where a bound lies within a
// leaf, it reads the facts of that leaf.
func (t *Tree) Ranges(view store.View, bounds []id.ID, facts func(Span) iter.Seq[crdt.Fact]) []Node {
	out := make([]Node, len(bounds))
	t.ranges(view, out, bounds, Child{Node: t.Node(view, Path{})}, facts)
	for _, c := range t.pending {
		spans := c.path.spans(nil)
		switch first, last := runsOf(bounds, spans); {
		case first == last:
			out[first] = out[first].plus(c.by)
		case t.Node(view, c.path) == (Node{}): // else its facts were read
			count(out, bounds, spans, facts)
		}
	}
	return out
}

// count adds the facts of spans to the runs that they are in.
func count(out []Node, bounds []id.ID, spans []Span, facts func(Span) iter.Seq[crdt.Fact]) {
	for _, span := range spans {
		for f := range facts(span) {
			i := RunOf(bounds, f.Task)
			out[i] = out[i].plus(Node{crdt.HashFact(f), 1})
		}
	}
}

// RunOf gives the run of a list of bounds that an ID is in.
func RunOf(bounds []id.ID, task id.ID) int {
	i, found := slices.BinarySearchFunc(bounds, task, id.ID.Compare)
	if found {
		return i
	}
	return i - 1
}

// runsOf gives the first and the last run that have IDs of a node.
func runsOf(bounds []id.ID, spans []Span) (first, last int) {
	first, last = RunOf(bounds, spans[0].From), len(bounds)-1
	if end := spans[len(spans)-1].To; !end.IsZero() {
		i, _ := slices.BinarySearchFunc(bounds, end, id.ID.Compare)
		last = i - 1
	}
	return first, last
}

func (t *Tree) ranges(view store.View, out []Node, bounds []id.ID, c Child, facts func(Span) iter.Seq[crdt.Fact]) {
	spans := c.Path.spans(nil)
	first, last := runsOf(bounds, spans)
	if first == last {
		out[first] = out[first].plus(c.Node)
		return
	}
	if c.Path.Leaf() {
		count(out, bounds, spans, facts)
		return
	}
	for _, below := range t.Children(view, nil, c.Path) {
		t.ranges(view, out, bounds, below, facts)
	}
}

// Divide gives where runs of IDs begin that have about so many facts each, or more where there
// would be more runs than limit: seconds, the first one the zero ID. It reads the nodes down to them.
func (t *Tree) Divide(view store.View, facts uint64, limit int) []id.ID {
	root := Child{Node: t.Node(view, Path{})}
	d := division{tree: t, view: view, most: max(facts, 2*root.Node.Count/uint64(limit)+1), from: []id.ID{{}}}
	d.divide(root)
	return d.from
}

// division is one [Tree.Divide].
type division struct {
	tree *Tree
	view store.View
	most uint64
	last uint64 // facts in the last run
	from []id.ID
}

func (d *division) divide(c Child) {
	if c.Node.Count > d.most && c.Path.Level < secondLevel {
		for _, below := range d.tree.Children(d.view, nil, c.Path) {
			d.divide(below)
		}
		return
	}
	if d.last > 0 && d.last+c.Node.Count > d.most {
		d.from, d.last = append(d.from, c.Path.spans(nil)[0].From), 0
	}
	d.last += c.Node.Count
}
