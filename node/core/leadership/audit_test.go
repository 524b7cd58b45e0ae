package leadership

import (
	"testing"

	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// TestAnAuditSeesALeaderThatIsNone: a partition that lacks a majority for a leader that this node
// is not, and a hand-over to itself.
func TestAnAuditSeesALeaderThatIsNone(t *testing.T) {
	for what, spoil := range map[string]func(*Machine){
		"nothing": func(*Machine) {},
		"alone":   func(e *Machine) { e.alone[0] = 1 },
		"pull":    func(e *Machine) { e.Hands[0].pull = []register.Member{member(0)} },
		"left":    func(e *Machine) { e.Hands[0].left = []register.Member{member(1), member(0)} },
	} {
		e := New(&Acceptors{env: &Env{Ground: &ground.Ground{Self: member(0), Partitions: partitions.New(make([]*vnode.Vnode, 1), &vnode.Vnode{}, nil)}}}, nil)
		e.Hands[0] = &CohortTransfer{pull: []register.Member{member(1)}}
		spoil(e)
		if err := e.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
