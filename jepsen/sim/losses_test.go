package sim

import (
	"testing"
	"time"

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

// A cohort that was asked for is held like one that is: seed 501,845 wiped a node of each,
// and the register granted a cohort of which only one member was left.
func TestACohortThatWasAskedForIsHeld(t *testing.T) {
	n := []*node{{}, {}, {}, {}}
	for i := range n {
		n[i].self = register.Member{Node: string(rune('a' + i))}
	}
	now := int64(time.Minute)
	is, next := []register.Member{n[0].self, n[1].self, n[2].self}, []register.Member{n[0].self, n[2].self, n[3].self}
	n[3].self.Incarnation = [16]byte{1} // another one by now
	for _, c := range []struct {
		cohort []register.Member
		later  int64
		want   bool
	}{{is, 0, true}, {next, 0, false}, {next, soughtFor, true}} {
		f := nemesis{&fleet{s: &sim{}, nodes: n, sought: sought{}}}
		f.s.Now = now
		f.asks(n[0], &register.Request{Changes: []register.Change{{New: register.Cell{Cohort: c.cohort}}}})
		f.s.Now += c.later
		if got := granted(f, 0, n[2]); got != c.want {
			t.Errorf("asked for %v %v ago: a majority is left without one: %t, want %t", c.cohort, time.Duration(c.later), got, c.want)
		}
	}
}
