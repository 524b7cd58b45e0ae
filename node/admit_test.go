package node

import (
	"testing"

	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
)

// TestANodeThatIsBehindLetsTheLeaderIn: a node that was away, or was set back, may
// not know the member that leads the register by now, and hears of it from
// nobody else.
func TestANodeThatIsBehindLetsTheLeaderIn(t *testing.T) {
	known, removed := register.Member{Node: "a", Incarnation: register.Incarnation{1}}, register.Member{Node: "b", Incarnation: register.Incarnation{2}}
	newcomer := register.Member{Node: "c", Incarnation: register.Incarnation{3}}
	state := register.State{Revision: 10, Generation: 2, Nodes: []register.Node{
		{Member: known, Status: register.Active}, {Member: removed, Status: register.Removed}, {Member: register.Member{Node: "d"}, Status: register.Active},
	}}
	alone := state
	alone.Nodes = state.Nodes[:2]
	for _, c := range []struct {
		name  string
		state register.State
		hello peer.Hello
		in    bool
	}{
		{"a member", state, peer.Hello{From: known, Generation: 2, Revision: 3}, true},
		{"one that was removed", state, peer.Hello{From: removed, Generation: 2}, true},
		{"a stranger", state, peer.Hello{From: newcomer, Generation: 2, Revision: 10}, false},
		{"a stranger that says nothing of its register", state, peer.Hello{From: newcomer, Generation: 2}, false},
		{"one that was let in since", state, peer.Hello{From: newcomer, Generation: 2, Revision: 11}, true},
		{"one of another register", state, peer.Hello{From: newcomer, Generation: 3, Revision: 11}, false},
		{"one that was let in since, by one that is alone and has gone on", alone, peer.Hello{From: newcomer, Generation: 2, Revision: 3}, true},
		{"a stranger, by one that is alone", alone, peer.Hello{From: newcomer, Generation: 2}, false},
		{"whoever fills a newcomer", register.State{}, peer.Hello{From: known}, true},
	} {
		if err := admits(&c.state, &c.hello); (err == nil) != c.in {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
