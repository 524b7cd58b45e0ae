package sim

import (
	"testing"

	"github.com/norn-dev/norn/register"
)

// Nothing rots while a cohort has a member that is lost: what has rotted is found when
// it is read, and by then its node may be in that cohort, which has no majority then
// (seed 5 of clusters at a7e5ed7: one node of a cohort of three was left).
func TestNothingRotsWhereSomethingIsLost(t *testing.T) {
	n := []*node{{}, {}, {}, {}}
	for i := range n {
		n[i].self = register.Member{Node: string(rune('a' + i))}
	}
	cohort := []register.Member{n[0].self, n[1].self, n[2].self}
	f := nemesis{&fleet{nodes: n, cells: []register.Cell{{Cohort: cohort}}}}
	if !f.intact() {
		t.Fatal("a cohort that has lost nothing is taken for one that has")
	}
	for what, o := range map[string]node{"is hurt": {hurt: true}, "is away": {away: true}, "is another incarnation": {self: register.Member{Incarnation: [16]byte{1}}}} {
		o.self.Node = n[1].self.Node
		f.nodes[1] = &o
		if f.intact() {
			t.Errorf("a member of the cohort %s, and another node's disk may rot", what)
		}
	}
}
