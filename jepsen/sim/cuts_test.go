package sim

import (
	"flag"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

var cutSeeds = flag.Int("cuts", 3, "seeds of clusters whose nodes are cut off")

// TestCutsKeepNoTaskWaiting: a task that was acknowledged while one of three nodes is cut
// off from the others, or just before, is granted within four seconds (issue 5), whoever
// was asked, led its partition, or had granted it to nobody who heard of it.
func TestCutsKeepNoTaskWaiting(t *testing.T) {
	for seed := uint64(1); seed <= uint64(*cutSeeds); seed++ {
		r := runCluster(seed, Many{Cluster: true, Cuts: true})
		if r.Violation != nil {
			t.Errorf("seed %d: %v", seed, r.Violation)
		}
		began := int64(0)
		acknowledged, granted := make(map[id.ID]int64), make(map[id.ID]int64)
		first := func(of map[id.ID]int64, e *history.Event) {
			for _, i := range e.Items {
				if _, is := of[i.Task]; !is && i.Error == "" {
					of[i.Task] = e.At
				}
			}
		}
		for _, e := range r.Events {
			switch {
			case e.Phase == history.Note && e.Text == "the storm begins":
				began = e.At
			case e.Phase == history.OK && e.Func == history.Enqueue:
				first(acknowledged, e)
			case e.Phase == history.OK && e.Func == history.Claim:
				first(granted, e)
			}
		}
		tasks, longest := 0, time.Duration(0)
		for task, at := range acknowledged { // Any order: each is looked at for itself.
			if at < began {
				continue
			}
			tasks++
			then, is := granted[task]
			if !is {
				t.Errorf("seed %d: task %s, acknowledged at %v, was never granted", seed, task, time.Duration(at))
				continue
			}
			waits := time.Duration(then - at)
			if longest = max(longest, waits); waits > 4*time.Second {
				t.Errorf("seed %d: task %s, acknowledged at %v, waits for %v", seed, task, time.Duration(at), waits)
			}
		}
		t.Logf("seed %d: %d cuts, %d tasks, granted after %v at most", seed, r.Stats[stats.Splits], tasks, longest)
		if tasks < 500 || r.Stats[stats.Splits] < 3 {
			t.Errorf("seed %d shows little: %d tasks, %d cuts", seed, tasks, r.Stats[stats.Splits])
		}
	}
}
