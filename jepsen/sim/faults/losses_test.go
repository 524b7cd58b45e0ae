package faults

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/register"
)

// Nothing rots while a cohort has a member that is lost: what has rotted is found when
// it is read, and by then its node may be in that cohort, which has no majority then
// (seed 5 of clusters at a7e5ed7: one node of a cohort of three was left).
func TestNothingRotsWhereSomethingIsLost(t *testing.T) {
	n := []*nodes.Node{{}, {}, {}, {}}
	for i := range n {
		n[i].Self = register.Member{Node: string(rune('a' + i))}
	}
	cohort := []register.Member{n[0].Self, n[1].Self, n[2].Self}
	f := &Nemesis{Fleet: &nodes.Fleet{Nodes: n, Cells: []register.Cell{{Cohort: cohort}}}}
	if !f.intact() {
		t.Fatal("a cohort that has lost nothing is taken for one that has")
	}
	for what, o := range map[string]nodes.Node{"is hurt": {Hurt: true}, "is away": {Away: true}, "is another incarnation": {Self: register.Member{Incarnation: [16]byte{1}}}} {
		o.Self.Node = n[1].Self.Node
		f.Nodes[1] = &o
		if f.intact() {
			t.Errorf("a member of the cohort %s, and another node's disk may rot", what)
		}
	}
}

// A cohort that was asked for is held like one that is: seed 501,845 wiped a node of each,
// and the register granted a cohort of which only one member was left.
func TestACohortThatWasAskedForIsHeld(t *testing.T) {
	n := []*nodes.Node{{}, {}, {}, {}}
	for i := range n {
		n[i].Self = register.Member{Node: string(rune('a' + i))}
	}
	now := int64(time.Minute)
	is, next := []register.Member{n[0].Self, n[1].Self, n[2].Self}, []register.Member{n[0].Self, n[2].Self, n[3].Self}
	n[3].Self.Incarnation = [16]byte{1} // another one by now
	for _, c := range []struct {
		cohort []register.Member
		later  int64
		want   bool
	}{{is, 0, true}, {next, 0, false}, {next, soughtFor, true}} {
		s := &clients.People{System: &nodes.System{State: &run.State{}, Fleet: &nodes.Fleet{Nodes: n}}}
		s.Fleet.S = s.System
		f := NewNemesis(s)
		f.s.Now = now
		f.Asks(n[0], &register.Request{Changes: []register.Change{{New: register.Cell{Cohort: c.cohort}}}})
		f.s.Now += c.later
		if got := granted(f, 0, n[2]); got != c.want {
			t.Errorf("asked for %v %v ago: a majority is left without one: %t, want %t", c.cohort, time.Duration(c.later), got, c.want)
		}
	}
}
