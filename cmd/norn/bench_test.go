package main

import "testing"

// TestBench runs small scenarios and looks for their figures.
func TestBench(t *testing.T) {
	type report struct {
		Scenario string
		Valid    bool
		Figures  map[string]float64
		Units    map[string]string
		Tasks    int
	}
	for scenario, figure := range map[string]string{"enqueue": "enqueue_rate", "claim": "claim_complete_rate", "cycle": "cycle_rate"} {
		r := decode[report](t, "bench", "--scenario", scenario, "--tasks", "500", "--batch", "10", "--producers", "4", "--workers", "4")
		if r.Scenario != scenario || !r.Valid || r.Tasks != 500 || r.Figures[figure] <= 0 || r.Units[figure] != "tasks/s" {
			t.Errorf("got %+v", r)
		}
	}
	r := decode[report](t, "bench", "--scenario", "latency", "--rate", "200", "--duration", "500ms")
	if !r.Valid || r.Tasks != 100 || r.Figures["enqueue_to_claim_p99"] <= 0 {
		t.Errorf("got %+v", r)
	}
	refused(t, 2, "no scenario", "bench", "--scenario", "magic")
	refused(t, 2, "producers must be at least 1", "bench", "--producers", "0")
	refused(t, 4, "--addr", "bench", "--addr", "127.0.0.1:1", "--timeout", "200ms")
}
