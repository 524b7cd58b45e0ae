package call

import "github.com/norn-dev/norn/register"

// Groups are indexes by node, in the order in which the nodes were met.
// Invariant: Order has each key of Of once.
type Groups struct {
	Of    map[register.Member][]int
	Order []register.Member
}

// NewGroups begins with none.
func NewGroups() *Groups { return &Groups{Of: make(map[register.Member][]int)} }

// Add adds an index to those of a node.
func (g *Groups) Add(to register.Member, i int) {
	if _, ok := g.Of[to]; !ok {
		g.Order = append(g.Order, to)
	}
	g.Of[to] = append(g.Of[to], i)
}
