package dependency

import (
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// TestAnAuditSeesWhatIsMiscounted: tasks that are told of, reads, and questions of nobody.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Machine){
		"nothing":   func(*Machine) {},
		"told":      func(m *Machine) { clear(m.Told) },
		"more told": func(m *Machine) { m.Told[id.ID{9}] = true },
		"reads":     func(m *Machine) { m.Unconfirmed.reads = -1 },
		"missed": func(m *Machine) {
			for n := range MaxMissed + 1 {
				m.Forgotten.Missed[id.ID{byte(n)}] = &missed{}
			}
		},
		"nobody": func(m *Machine) { m.Watches.Asked[id.ID{1}] = map[register.Member]question{} },
	} {
		m := New(Env{Ground: &ground.Ground{}}, 1)
		m.Hear(id.ID{1}, crdt.StateCompleted)
		m.Watches.note(message.Outcome{Task: id.ID{1}, State: crdt.StateCompleted})
		spoil(m)
		if err := m.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
