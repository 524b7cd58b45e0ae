package sharedconfig

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestTheLongerAndTheShorterRetention: a task that is dead and stays until it is retried
// stays for longer than any time, and keeping is more than archiving, and that than
// deleting.
func TestTheLongerAndTheShorterRetention(t *testing.T) {
	const del, archive, keep = nornv1.Retention_RETENTION_DELETE, nornv1.Retention_RETENTION_ARCHIVE, nornv1.Retention_RETENTION_KEEP
	rule := func(what nornv1.Retention, after, dead time.Duration) retention.Rule {
		return retention.Rule{What: what, After: after, Dead: dead}
	}
	for _, of := range []struct{ own, is, longer, shorter retention.Rule }{
		{rule(del, 5, 0), retention.Rule{}, rule(del, 5, 0), rule(del, 5, 0)},
		{rule(del, 5, 0), rule(keep, 4, 7), rule(keep, 5, 0), rule(del, 4, 7)},
		{rule(archive, 4, 7), rule(del, 5, 8), rule(archive, 5, 8), rule(del, 4, 7)},
	} {
		m := &Machine{Env: Env{Ground: &ground.Ground{}, Retention: of.own}, is: of.is}
		if got := m.Rule(true); got != of.longer {
			t.Errorf("the longer of %v and %v is %v", of.own, of.is, got)
		}
		if got := m.Rule(false); got != of.shorter {
			t.Errorf("the shorter of %v and %v is %v", of.own, of.is, got)
		}
	}
}
