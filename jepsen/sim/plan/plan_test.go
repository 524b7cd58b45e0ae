package plan

import (
	"testing"

	"github.com/norn-dev/norn/jepsen/sim/world"
)

// Some seeds of clusters have workers without sessions only, and not many.
func TestSomeClustersHaveNoSessions(t *testing.T) {
	none := 0
	for seed := range uint64(140) {
		w := world.New(seed)
		p := DrawCluster(&w)
		if p.Hands == 0 {
			none++
		}
		if p.Workers == 0 {
			t.Errorf("seed %d: nobody claims", seed)
		}
	}
	if none < 10 || none > 35 {
		t.Errorf("%d of 140 seeds have no sessions", none)
	}
}
