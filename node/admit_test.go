package node

import (
	"testing"

	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
)

// TestNobodyIsLetInByItsOwnWord: also one that says that it knows a newer register has to
// be vouched for.
func TestNobodyIsLetInByItsOwnWord(t *testing.T) {
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
		known bool // it is in the register
		asked bool // else it may be asked back about
	}{
		{"a member", state, peer.Hello{From: known, Generation: 2, Revision: 3}, true, true},
		{"one that was removed", state, peer.Hello{From: removed, Generation: 2}, true, true},
		{"a stranger", state, peer.Hello{From: newcomer, Generation: 2, Revision: 10}, false, true},
		{"a stranger that says nothing of its register", state, peer.Hello{From: newcomer, Generation: 2}, false, true},
		{"one that says it was let in since", state, peer.Hello{From: newcomer, Generation: 2, Revision: 1 << 40}, false, true},
		{"one of another register", state, peer.Hello{From: newcomer, Generation: 3, Revision: 11}, false, false},
		{"one that says it was let in since, by one that is alone and has gone on", alone, peer.Hello{From: newcomer, Generation: 2, Revision: 3}, false, true},
		{"whoever fills a newcomer", register.State{}, peer.Hello{From: known, Generation: 7}, false, true},
	} {
		if known, err := admits(&c.state, &c.hello); known != c.known || (err == nil) != c.asked {
			t.Errorf("%s: known %t, %v", c.name, known, err)
		}
	}
}
