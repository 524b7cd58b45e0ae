package sim

import "testing"

// Some seeds of clusters have workers without sessions only, and not many.
func TestSomeClustersHaveNoSessions(t *testing.T) {
	none := 0
	for seed := range uint64(140) {
		w := newWorld(seed)
		p := w.drawCluster()
		if p.hands == 0 {
			none++
		}
		if p.workers == 0 {
			t.Errorf("seed %d: nobody claims", seed)
		}
	}
	if none < 10 || none > 35 {
		t.Errorf("%d of 140 seeds have no sessions", none)
	}
}
