package sim

import (
	"bytes"
	"flag"
	"runtime"
	"testing"
)

var clusters = flag.Uint64("clusters", 4, "number of seeds of clusters")

// TestCluster runs some seeds of clusters. More: make sim.
func TestCluster(t *testing.T) {
	all := Many{From: *seed, Seeds: *clusters, Workers: runtime.GOMAXPROCS(0), Cluster: true}.Run()
	if all.Failed != nil {
		var text bytes.Buffer
		all.Failed.Report(&text, *events)
		t.Fatal(text.String())
	}
	if 4*all.Calm > all.Seeds {
		t.Fatalf("too little happened in %d of %d runs", all.Calm, all.Seeds)
	}
	t.Log(&all.Sum)
}

// TestSameSeedSameCluster: without it no failure could be looked into.
func TestSameSeedSameCluster(t *testing.T) {
	for seed := range uint64(1) {
		a, b := Cluster(seed), Cluster(seed)
		if a.Sum == b.Sum && a.Stats == b.Stats {
			continue
		}
		for i := range min(len(a.Events), len(b.Events)) {
			if x, y := a.Events[i].String(), b.Events[i].String(); x != y {
				t.Fatalf("seed %d: event %d is\n%s\nand\n%s", seed, i, x, y)
			}
		}
		t.Fatalf("seed %d: %d and %d events, %v and %v", seed, len(a.Events), len(b.Events), &a.Stats, &b.Stats)
	}
}
