package roots

import (
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/ring"
)

// TestAnAuditSeesWhatCannotBeFound: partitions out of order, and those that differ and are in no
// line, or that nobody notes.
func TestAnAuditSeesWhatCannotBeFound(t *testing.T) {
	pair := func(p ring.Partition) message.Pair { return message.Pair{Partition: p} }
	for what, spoil := range map[string]func(*Machine){
		"nothing": func(*Machine) {},
		"order":   func(s *Machine) { s.shared[0], s.shared[1] = s.shared[1], s.shared[0] },
		"twice":   func(s *Machine) { s.shared[1] = s.shared[0] },
		"line":    func(s *Machine) { s.differ = nil },
		"note":    func(s *Machine) { clear(s.waits) },
	} {
		s := New(Env{Ground: &ground.Ground{}, Busy: func(message.Pair) bool { return false }})
		s.shared = []Shared{{Pair: pair(0), Begins: true}, {Pair: pair(1), Begins: true}}
		s.differs(clock.Time{Mono: 1}, &s.shared[0])
		spoil(s)
		if err := s.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
