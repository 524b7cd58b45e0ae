package transfer

import (
	"testing"

	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestAnAuditSeesWhatWouldNeverMove: partitions that nobody looks at, that wait for a comparison
// which is not under way, that go both ways; answers to no question, too many comparisons.
func TestAnAuditSeesWhatWouldNeverMove(t *testing.T) {
	peer := register.Member{Node: "b"}
	for what, spoil := range map[string]func(*Machine, *Move){
		"nothing":  func(*Machine, *Move) {},
		"todo":     func(m *Machine, _ *Move) { m.todo = nil },
		"waits":    func(m *Machine, _ *Move) { clear(m.Busy) },
		"both":     func(m *Machine, move *Move) { m.Incoming[0] = move },
		"deleted":  func(m *Machine, _ *Move) { m.View.Dropping[0] = true },
		"unasked":  func(_ *Machine, move *Move) { move.Clear = []register.Member{peer} },
		"too many": func(m *Machine, _ *Move) { busy(m, maxCopies+1) },
	} {
		m := New(Env{Ground: &ground.Ground{View: view.New(register.Member{Node: "a"}, 1)}})
		move := &Move{Busy: peer}
		m.Outgoing[0], m.Busy[message.Pair{Partition: 0, Peer: peer}], m.todo = move, true, []ring.Partition{0}
		spoil(m, move)
		if err := m.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// busy has n comparisons be under way.
func busy(m *Machine, n int) {
	for p := range n {
		m.Busy[message.Pair{Partition: ring.Partition(p), Peer: register.Member{Node: "c"}}] = true
	}
}
