package workloads

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWebs: tasks depend on earlier ones only, and of all shapes there are some.
func TestWebs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	most, roots := 0, 0
	for range 200 {
		graph := web(rnd)
		for i, deps := range graph {
			if slices.ContainsFunc(deps, func(d int) bool { return d >= i }) {
				t.Fatalf("task %d depends on %v", i, deps)
			}
			most = max(most, len(deps))
			if len(deps) == 0 {
				roots++
			}
		}
		if len(graph) < 3 || len(graph) > maxWeb {
			t.Fatalf("a graph of %d", len(graph))
		}
	}
	if most < maxWeb-2 || roots < 200 {
		t.Errorf("%d dependencies at most, %d tasks without any", most, roots)
	}
}
