package bootstrap

import (
	"testing"

	"github.com/norn-dev/norn/node/core/view"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

func member(n byte) register.Member {
	return register.Member{Node: "n", Incarnation: register.Incarnation{n}}
}

// TestTasksStayOutUntilEveryPartitionHasItsCopies: as many as nodes are expected, or as replicas
// there are to be; the node that leads the register ends it, once all have them.
func TestTasksStayOutUntilEveryPartitionHasItsCopies(t *testing.T) {
	for _, c := range []struct {
		what            string
		nodes, replicas int
		copies          [2]int // of the partitions
		leads           bool
		young           int
		ends            bool
	}{
		{"one node only", 3, 3, [2]int{1, 1}, true, 3, false},
		{"one partition lacks a copy", 3, 3, [2]int{3, 2}, true, 3, false},
		{"all are there", 3, 3, [2]int{3, 3}, true, 3, true},
		{"all are there, another node leads", 3, 3, [2]int{3, 3}, false, 3, false},
		{"more nodes than replicas", 9, 2, [2]int{2, 2}, true, 2, true},
		{"fewer nodes than replicas", 2, 5, [2]int{2, 2}, true, 2, true},
		{"more copies than needed", 2, 2, [2]int{3, 2}, true, 2, true},
	} {
		v := view.New(member(0), 2)
		v.State, v.Leads = Growing(register.State{}, c.nodes), c.leads
		for p, n := range c.copies {
			for m := range n {
				v.Cells[p].Cohort = append(v.Cells[p].Cohort, member(byte(m)))
			}
		}
		var sent []register.Request
		Grow(v, c.replicas, func(r register.Request) { sent = append(sent, r) })
		if v.Young != c.young || (len(sent) == 1) != c.ends || len(sent) > 1 {
			t.Errorf("%s: so many copies are waited for: %d; asked for: %v", c.what, v.Young, sent)
		}
		if e := TooYoung(v); e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.RetryAfter == 0 {
			t.Errorf("%s: tasks are refused by %v", c.what, e)
		}
		if !c.ends {
			continue
		}
		change := sent[0].Values
		if len(change) != 1 || change[0].Old != v.State.Values[change[0].Name].Version || len(change[0].Data) != 0 {
			t.Fatalf("%s: asked for %v of %v", c.what, change, v.State.Values)
		}
	}
}

// TestAClusterThatIsMadeIsNotMadeAgain: what the register says once it has come to an end, and that
// the routes change with it.
func TestAClusterThatIsMadeIsNotMadeAgain(t *testing.T) {
	first := register.State{Values: map[string]register.Value{"other": {Version: 4}}}
	v := view.New(member(0), 1)
	v.State, v.Leads = Growing(first, 3), true
	if len(first.Values) != 1 || len(v.State.Values) != 2 {
		t.Errorf("the state that it was made of has %v, the first one %v", first.Values, v.State.Values)
	}
	asked := 0
	grow := func() { Grow(v, 3, func(register.Request) { asked++ }) }
	grow()
	before := v.Changes
	if grow(); v.Changes != before {
		t.Error("what is as before counts as a change")
	}
	for name, x := range v.State.Values {
		if name != "other" {
			v.State.Values[name] = register.Value{Version: x.Version + 1} // as the register has it after the change
		}
	}
	if grow(); v.Young != 0 || asked != 0 || v.Changes != before+1 {
		t.Errorf("%d copies are waited for, it was asked for %d times, with %d changes", v.Young, asked, v.Changes-before)
	}
}
