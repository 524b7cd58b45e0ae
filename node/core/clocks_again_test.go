package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/register"
)

// TestACohortThatComesBackHasItsTime: a node that could not show yet how good its clock is
// when the cohort changed gave up its partitions at once when the same cohort came again,
// and not after ten seconds. What was noted of cohorts that are gone was kept for ever.
func TestACohortThatComesBackHasItsTime(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	k := c.standing.Clocks
	whole := c.view.Cells[0].Cohort
	judge := func(after time.Duration, cohort []register.Member) {
		for p := range c.view.Cells {
			c.view.Cells[p].Cohort = cohort
		}
		k.Peers = offset.New(offset.Config{Self: c.cfg.Self.Incarnation.ID()}) // nobody has told
		k.Judge(r.now.Add(after))
		if len(k.Bad) != 0 {
			t.Errorf("after %v its clock is no good any more for %d partitions", after, len(k.Bad))
		}
		if len(k.Since) != 1 {
			t.Errorf("after %v something is noted of %d cohorts", after, len(k.Since))
		}
	}
	judge(0, whole)
	judge(standing.Unsure-time.Second, whole[:2])
	judge(standing.Unsure+time.Second, whole)
}
