package sim

import (
	"testing"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/register"
)

// A promise and a cell to lead are for after the sync; who asks for a copy or leaves a
// cell to another one need not wait.
func TestWhatLeavesBeforeTheSync(t *testing.T) {
	cells := func(leader register.Member) []register.Request {
		return []register.Request{{Changes: []register.Change{{New: register.Cell{Leader: leader}}}}}
	}
	for name, c := range map[string]struct {
		ready core.Ready
		want  string
	}{
		"a vote":                   {core.Ready{Early: []core.Send{{Message: &core.Votes{}}}}, check.Lost},
		"a claim that is accepted": {core.Ready{Early: []core.Send{{Message: &core.ClaimsTaken{}}}}, check.Lost},
		"a claim that is asked":    {core.Ready{Early: []core.Send{{Message: &core.Claims{}}}}, ""},
		"a cell":                   {core.Ready{Register: cells(self)}, check.Leader},
		"a cell of another node":   {core.Ready{Register: cells(register.Member{Node: "n2"})}, ""},
		"a cell, after the sync":   {core.Ready{Commit: cells(self)}, ""},
	} {
		n := &node{s: newSim(1, Mutant{}), self: self}
		n.hasty(&c.ready)
		if v := n.s.found; v == nil && c.want != "" || v != nil && v.Invariant != c.want {
			t.Errorf("%s: found %v, want %q", name, v, c.want)
		}
	}
}
