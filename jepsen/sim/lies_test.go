package sim

import (
	"bytes"
	"flag"
	"testing"

	"github.com/norn-dev/norn/jepsen/sim/stats"
)

var lieSeeds = flag.Uint64("lies", 1, "seeds of clusters in which one node lies")

// TestALyingPeerCostsItself: one of the nodes says what is not so, of disks, epochs, promises,
// cells and in messages of the register's group, for a minute. No other one ends, no task is
// lost, and when it tells the truth again the cluster comes to rest by itself.
func TestALyingPeerCostsItself(t *testing.T) {
	all := Many{From: *seed, Seeds: *lieSeeds, Workers: 1, Cluster: true, Lies: true}.Run()
	if all.Failed != nil {
		var text bytes.Buffer
		all.Failed.Report(&text, *events)
		t.Fatal(text.String())
	}
	if all.Sum[stats.Lies] < 100 {
		t.Errorf("%d lies show little", all.Sum[stats.Lies])
	}
	t.Log(&all.Sum)
}
