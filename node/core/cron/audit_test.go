package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
)

// TestAnAuditSeesAScheduleThatIsForgotten: one that is neither under way nor in the agenda, one that
// is under way twice, and tasks whose end nobody waits for.
func TestAnAuditSeesAScheduleThatIsForgotten(t *testing.T) {
	for what, spoil := range map[string]func(*Machine, *item){
		"nothing": func(*Machine, *item) {},
		"agenda":  func(m *Machine, it *item) { m.agenda.Remove(it) },
		"phase":   func(_ *Machine, it *item) { it.phase = launching },
		"change":  func(m *Machine, it *item) { m.changes = append(m.changes, it) },
		"twice":   func(m *Machine, it *item) { it.phase, m.changes = committing, []*item{it, it} },
		"batch":   func(m *Machine, it *item) { m.finds[9] = &work{items: []*item{it}} },
		"name":    func(_ *Machine, it *item) { it.name = "b" },
		"count":   func(m *Machine, _ *item) { m.known++ },
		"watch":   func(m *Machine, _ *item) { clear(m.watch.of) },
		"tasks":   func(_ *Machine, it *item) { it.busy.tasks = nil },
		"ring":    func(m *Machine, _ *item) { m.watch.ring = nil },
		"holder":  func(m *Machine, _ *item) { m.watch.of[id.ID{1}] = running{it: &item{name: "x"}} },
	} {
		w := newWorld(t)
		w.put("a", spec("* * * * *"))
		w.pass(2 * time.Minute)
		spoil(w.machine, w.machine.items["a"])
		if err := Audit(w.machine); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
