package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/register"
)

// TestACohortThatComesBackHasItsTime: a node that could not show yet how good its clock is
// when the cohort changed gave up its partitions at once when the same cohort came again,
// and not after ten seconds. What was noted of cohorts that are gone was kept for ever.
func TestACohortThatComesBackHasItsTime(t *testing.T) {
	r := newTrio(t)
	k := r.peers[0].core.clocks
	whole := k.c.view.Cells[0].Cohort
	judge := func(after time.Duration, cohort []register.Member) {
		for p := range k.c.view.Cells {
			k.c.view.Cells[p].Cohort = cohort
		}
		k.peers = offset.New(offset.Config{Self: k.c.cfg.Self.Incarnation.ID()}) // nobody has told
		k.judge(r.now.Add(after))
		if len(k.bad) != 0 {
			t.Errorf("after %v its clock is no good any more for %d partitions", after, len(k.bad))
		}
		if len(k.since) != 1 {
			t.Errorf("after %v something is noted of %d cohorts", after, len(k.since))
		}
	}
	judge(0, whole)
	judge(unsure-time.Second, whole[:2])
	judge(unsure+time.Second, whole)
}
