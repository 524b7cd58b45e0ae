package retention

import (
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/vnode"
)

// TestAnAuditSeesTwoArchives: one is under way, and tasks of the one before wait.
func TestAnAuditSeesTwoArchives(t *testing.T) {
	m := New(Env{Ground: &ground.Ground{}}, clock.Time{})
	m.Archiving.Safe = make([]vnode.Due, 1)
	if err := m.Audit(); err != nil {
		t.Errorf("one archive: %v", err)
	}
	if m.Archiving.Tag = 1; m.Audit() == nil {
		t.Error("two archives are not seen")
	}
}
