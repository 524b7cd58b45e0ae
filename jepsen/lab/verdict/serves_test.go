package verdict

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// A node that takes connections and does nothing of what it is asked does not serve,
// whatever it says of itself.
func TestANodeThatDoesNothingDoesNotServe(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := forged(t, 1)
	l.Nodes = []*cluster.Process{{Place: &network.Place{}, Name: "n1"}}
	l.Nodes[0].Dial = silent.Addr().String()
	err = workloads.NewServers(l).Serves(t.Context(), 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "n1: a task that goes through it alone is not enqueued") {
		t.Errorf("it serves: %v", err)
	}
	if err := silent.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range l.Clients {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	l.Cfg.Unfenced = true
	if err := workloads.NewServers(l).Serves(t.Context(), 10*time.Millisecond); err != nil {
		t.Errorf("of a build without elections: %v", err)
	}
}

// Of a few probes a few may fail, and no more; of many one in a hundred.
func TestAFewProbesTellSomething(t *testing.T) {
	for _, c := range []struct {
		calls, failed int
		fine          bool
	}{{0, 0, true}, {20, 20, false}, {20, 2, true}, {20, 3, false}, {60, 6, true}, {60, 7, false}, {100, 1, true}, {100, 2, false}, {1000, 10, true}, {1000, 11, false}} {
		if p := (&cluster.Probe{Calls: c.calls, Failed: c.failed}); p.Fine() != c.fine {
			t.Errorf("%d of %d failed: fine %v", c.failed, c.calls, p.Fine())
		}
	}
}
