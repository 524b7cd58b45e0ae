package witness

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// A promise and a cell to lead are for after the sync; who asks for a copy or leaves a
// cell to another one need not wait.
func TestWhatLeavesBeforeTheSync(t *testing.T) {
	cells := func(leader register.Member) []register.Request {
		return []register.Request{{Changes: []register.Change{{New: register.Cell{Leader: leader}}}}}
	}
	for name, c := range map[string]struct {
		ready message.Ready
		want  string
	}{
		"a vote":                   {message.Ready{Early: []message.Send{{Message: &message.Votes{}}}}, check.Lost},
		"a claim that is accepted": {message.Ready{Early: []message.Send{{Message: &message.ClaimsTaken{}}}}, check.Lost},
		"a claim that is asked":    {message.Ready{Early: []message.Send{{Message: &message.Claims{}}}}, ""},
		"a cell":                   {message.Ready{Register: cells(self)}, check.Leader},
		"a cell of another node":   {message.Ready{Register: cells(register.Member{Node: "n2"})}, ""},
		"a cell, after the sync":   {message.Ready{Commit: cells(self)}, ""},
	} {
		n := &lone{}
		Hasty(n, &c.ready, n.Violation)
		if n.found != c.want {
			t.Errorf("%s: found %q, want %q", name, n.found, c.want)
		}
	}
}

// Who asks for a cell whose members can elect nobody any more does not ask to lead (seed 501,845).
func TestWhoIsGivenUpElectsNobody(t *testing.T) {
	var state register.State
	cell := register.Cell{}
	for _, name := range []string{"n1", "n2", "n3"} {
		m := register.Member{Node: name}
		cell.Cohort = append(cell.Cohort, m)
		state.Nodes = append(state.Nodes, register.Node{Member: m, Status: register.Active})
	}
	for gone, want := range []bool{true, true, false, false} {
		known := register.State{Nodes: slices.Clone(state.Nodes)}
		for i := range gone {
			known.Nodes[i].Status = register.Removed
		}
		if got := elects(known, &cell); got != want {
			t.Errorf("with %d of three given up: %t, want %t", gone, got, want)
		}
	}
}
