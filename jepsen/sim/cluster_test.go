package sim

import (
	"bytes"
	"flag"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/sim/checks"
	"github.com/norn-dev/norn/jepsen/sim/mutants"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

var clusters = flag.Uint64("clusters", 2, "number of seeds of clusters")

// TestCluster runs some seeds of clusters. More: make sim.
func TestCluster(t *testing.T) {
	all := Many{From: *seed, Seeds: *clusters, Workers: runtime.GOMAXPROCS(0), Cluster: true}.Run()
	if all.Failed != nil {
		var text bytes.Buffer
		all.Failed.Report(&text, *events)
		t.Fatal(text.String())
	}
	// Of a few seeds one may be invalid by itself.
	if few := all.Seeds < 8; few && all.Calm == all.Seeds || !few && 4*all.Calm > all.Seeds {
		t.Fatalf("%d of %d seeds are invalid: %v", all.Calm, all.Seeds, all.Why)
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

// TestClusterMutantsAreFound: every cluster that is wrong on purpose is found
// out, and by what it breaks.
func TestClusterMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const seeds = 12
	first := map[string]uint64{ // that are known to find it, where that is not seed 0: so it takes less time
		"votes without a word of the claims it has": 4, "says that it has a copy more": 3,
		"runs before what it is to run after": 2, "deletes what it is to archive": 8,
		"collects at once": 1,
	}
	for _, m := range mutants.OfClusters() {
		t.Run(strings.ReplaceAll(m.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for n := range uint64(seeds) {
				seed := (first[m.Name] + n) % seeds
				r := ClusterMutant(seed, m)
				if r.Violation == nil {
					continue
				}
				if !slices.Contains(m.Breaks, r.Violation.Invariant) {
					t.Fatalf("seed %d finds %v, which is none of %v", seed, r.Violation, m.Breaks)
				}
				t.Logf("seed %d finds %v", seed, r.Violation)
				return
			}
			t.Fatal("nothing was found")
		})
	}
}

// BenchmarkCluster is how fast seeds of clusters run: simulated seconds, and
// those times the number of nodes, in a second of one core.
func BenchmarkCluster(b *testing.B) {
	var all Total
	for n := range uint64(b.N) {
		all.add(Cluster(1000 + n))
	}
	took := b.Elapsed().Seconds()
	b.ReportMetric(all.Virtual.Seconds()/took, "simulated-s/s")
	b.ReportMetric(float64(all.Nodes)/float64(all.Seeds), "nodes")
	b.ReportMetric(float64(all.Sum[stats.Operations])/all.Virtual.Seconds(), "ops/simulated-s")
}

// What is wrong is told, also before all nodes have joined: some have no disk yet.
func TestAViolationWhileTheClusterForms(t *testing.T) {
	s := newSim(1, nodes.Mutant{})
	s.Plan.Partitions = 1
	f, _ := s.cluster()
	f.Mint(f.Add())
	f.Add()
	if lines := checks.NewEnding(s.People).Facts(id.ID{1}); len(lines) != 1 {
		t.Fatalf("%q, and one of two nodes has a disk", lines)
	}
}
