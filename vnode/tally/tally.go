package tally

import (
	"strings"

	"github.com/norn-dev/norn/crdt"
)

// Tally has the counters of all queues of some vnodes whose names have the same first part, up to
// a slash: those of a tenant. It is right after each change, and nobody has to add up.
//
// Invariant: a group has at least one queue, and its numbers are the sums over those that have
// joined and not parted: [Tally.Part] gets what the queue has by then, not what it had when it
// joined (quota's Audit).
type Tally struct{ of map[string]*Group }

// Group are the queues of one first part.
type Group struct {
	prefix string
	counts Counts
	bytes  uint64
	queues int // of all vnodes that there are; at none it goes
}

// New makes an empty one.
func New() *Tally { return &Tally{of: make(map[string]*Group)} }

// Prefix is the first part of a name with its slash; empty: it has none.
func Prefix(name string) string { return name[:strings.IndexByte(name, '/')+1] }

// Of gives the counters of the queues whose names begin with a first part and its slash.
func (t *Tally) Of(prefix string) (c Counts) {
	if g := t.of[prefix]; g != nil {
		c = g.counts
	}
	return c
}

// Bytes is what the tasks of those queues hold, see [crdt.Enqueued.Size].
func (t *Tally) Bytes(prefix string) uint64 {
	if g := t.of[prefix]; g != nil {
		return g.bytes
	}
	return 0
}

// Len is how many first parts there are.
func (t *Tally) Len() int { return len(t.of) }

// Join counts a queue that there is now, whose tasks hold so many bytes; nil: it has no first part,
// or nobody counts.
func (t *Tally) Join(name string, c *Counts, bytes uint64) *Group {
	prefix := Prefix(name)
	if t == nil || prefix == "" {
		return nil
	}
	g := t.of[prefix]
	if g == nil {
		g = &Group{prefix: strings.Clone(prefix)}
		t.of[g.prefix] = g
	}
	g.queues++
	g.counts.Add(c)
	g.bytes += bytes
	return g
}

// Change counts one change of a queue: by tasks, of so many bytes together.
func (g *Group) Change(s crdt.State, by, bytes int) {
	if g != nil {
		g.counts[s] += uint64(by) // wraps around for -1
		g.bytes += uint64(bytes)
	}
}

// Part takes off a queue that there is no more.
func (t *Tally) Part(g *Group, c *Counts, bytes uint64) {
	if g == nil {
		return
	}
	for i, n := range c {
		g.counts[i] -= n
	}
	g.bytes -= bytes
	if g.queues--; g.queues == 0 {
		delete(t.of, g.prefix)
	}
}
