package sim

import (
	"testing"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/node/core/message"
)

// meddled is a seed whose run has meddlers.
const meddled = 5

// TestMeddlersGetNowhere: in a run of one node and in one of several nobody does or sees what it
// has no right to, and enough was tried.
func TestMeddlersGetNowhere(t *testing.T) {
	for name, run := range map[string]func(uint64) *Result{"one node": Run, "a cluster": Cluster} {
		r := run(meddled)
		if r.Violation != nil {
			t.Errorf("%s: %v", name, r.Violation)
		}
		if r.Barred < 20 {
			t.Errorf("%s: only %d of what was tried could be judged", name, r.Barred)
		}
	}
}

// TestMeddlersAreFound: a cluster that loses scopes on the way between nodes, and one that loses
// who asks, are found out by what meddlers get to.
func TestMeddlersAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	for name, lose := range map[string]func(*message.Forward){
		"scopes": func(m *message.Forward) { m.Scope = nil }, "principals": func(m *message.Forward) { m.By = "" },
	} {
		r := ClusterMutant(meddled, nodes.Mutant{Name: "loses " + name, Send: func(_ *nodes.Node, m *message.Send) bool {
			if f, is := m.Message.(*message.Forward); is {
				lose(f)
			}
			return true
		}})
		if r.Violation == nil || r.Violation.Invariant != check.Forbidden {
			t.Errorf("a cluster that loses %s: %v", name, r.Violation)
		}
	}
}
