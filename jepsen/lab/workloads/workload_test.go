package workloads

import (
	"slices"
	"testing"
)

// TestWorkersFinishWhatAnOverloadHasPut: whatever queues a workload has, an overload puts
// tasks into those of all workloads, and a run is over only when they are done, too.
func TestWorkersFinishWhatAnOverloadHasPut(t *testing.T) {
	all := Workloads()
	if len(all) == 0 {
		t.Fatal("there are no workloads")
	}
	for _, w := range all {
		from := w.Drained()
		for _, q := range slices.Concat(w.Queues, Queues) {
			if from != nil && !slices.Contains(from, q) {
				t.Errorf("%s: nobody takes from %s", w.Name, q)
			}
		}
	}
}
