package vnode

import "strings"

// Tally has the counters of all queues of some vnodes whose names have the same first part, up to
// a slash: those of a tenant. It is right after each change, and nobody has to add up.
type Tally struct{ of map[string]*group }

// group are the queues of one first part.
type group struct {
	prefix string
	counts Counts
	queues int // of all vnodes that there are; at none it goes
}

// NewTally makes one for vnodes: see [Config.Tally].
func NewTally() *Tally { return &Tally{of: make(map[string]*group)} }

// Prefix is the first part of a name with its slash; empty: it has none.
func Prefix(name string) string { return name[:strings.IndexByte(name, '/')+1] }

// Of gives the counters of the queues whose names begin with a first part and its slash.
func (t *Tally) Of(prefix string) (c Counts) {
	if g := t.of[prefix]; g != nil {
		c = g.counts
	}
	return c
}

// Len is how many first parts there are.
func (t *Tally) Len() int { return len(t.of) }

// join counts a queue that there is now; nil: it has no first part.
func (t *Tally) join(name string, c *Counts) *group {
	prefix := Prefix(name)
	if t == nil || prefix == "" {
		return nil
	}
	g := t.of[prefix]
	if g == nil {
		g = &group{prefix: strings.Clone(prefix)}
		t.of[g.prefix] = g
	}
	g.queues++
	g.counts.Add(c)
	return g
}

// part takes off a queue that there is no more.
func (t *Tally) part(g *group, c *Counts) {
	if g == nil {
		return
	}
	for i, n := range c {
		g.counts[i] -= n
	}
	if g.queues--; g.queues == 0 {
		delete(t.of, g.prefix)
	}
}

// Untally takes a vnode that is used no more off the tally.
func Untally(v *Vnode) {
	for _, q := range v.queues { // Any order: they are added up.
		v.cfg.Tally.part(q.group, &q.counts)
		q.group = nil
	}
}
