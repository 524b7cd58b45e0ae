package standing

import (
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

// TestAnAuditSeesWhatIsNotBounded: marks, words, beats, and what somebody says who is gone.
func TestAnAuditSeesWhatIsNotBounded(t *testing.T) {
	member := func(n int) register.Member {
		return register.Member{Node: "n", Incarnation: register.Incarnation{byte(n), byte(n >> 8), byte(n >> 16)}}
	}
	for what, spoil := range map[string]func(*Machine){
		"nothing": func(*Machine) {},
		"marks": func(m *Machine) {
			for n := range MaxMarks + 1 {
				m.Disk.HeardOf[member(n)] = 1
			}
		},
		"words": func(m *Machine) {
			for n := range MaxMarks + 1 {
				m.Disk.Words.of[member(n)] = word{mark: 1}
			}
		},
		"gone":  func(m *Machine) { m.Disk.Peers.Of[member(1)] = health{} },
		"beats": func(m *Machine) { m.Clocks.asks = make([]clock.Time, maxAsks+1) },
	} {
		m, err := New(Env{Ground: &ground.Ground{Self: member(0), View: view.New(member(0), 1)}}, []uint64{0}, memstore.New(), clock.Time{})
		if err != nil {
			t.Fatal(err)
		}
		spoil(m)
		if err := m.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
