package repair

import (
	"testing"

	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
)

// TestAnAuditSeesComparisonsThatAreThereTwice: under way, asked for, or to be checked; and those
// that nobody would begin.
func TestAnAuditSeesComparisonsThatAreThereTwice(t *testing.T) {
	k := message.Pair{Partition: 1}
	for what, spoil := range map[string]func(*Machine){
		"nothing":  func(*Machine) {},
		"begun":    func(r *Machine) { r.begun = []message.Pair{k, k} },
		"line":     func(r *Machine) { r.urgent.todo = append(r.urgent.todo, k) },
		"no line":  func(r *Machine) { r.urgent.todo = nil },
		"unnoted":  func(r *Machine) { clear(r.urgent.waits) },
		"suspects": func(r *Machine) { r.scrubs.suspects = make([]suspect, 2) },
	} {
		r := New(Env{Ground: &ground.Ground{}})
		r.urgent.add(k)
		r.urgent.add(k)
		r.begun = []message.Pair{k}
		spoil(r)
		if err := r.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
