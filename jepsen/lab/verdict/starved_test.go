package verdict

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// TestAStarvedNodeIsNotBlamed: a write that fails counts against its node when the
// machine had time for the node, and does not when it had none, or its disk stood
// still. One that succeeds always counts.
func TestAStarvedNodeIsNotBlamed(t *testing.T) {
	bad := errors.New("too late")
	now := time.Now()
	for _, c := range []struct {
		name            string
		fine            bool
		before          cluster.Patient
		still, syncing  time.Time
		calls, fails, n int
	}{
		{"a good one", true, cluster.Patient{At: now}, time.Time{}, time.Time{}, 1, 0, 0},
		{"a failure", false, cluster.Patient{At: now.Add(-time.Hour), Driver: time.Hour}, time.Time{}, time.Time{}, 1, 1, 0},
		{"the client had no processor", false, cluster.Patient{At: now, Driver: -time.Hour}, time.Time{}, time.Time{}, 0, 0, 1},
		{"the disk stood still", false, cluster.Patient{At: now.Add(-time.Hour), Driver: time.Hour}, now, time.Time{}, 0, 0, 1},
		{"the disk stood still before", false, cluster.Patient{At: now.Add(-time.Hour), Driver: time.Hour}, now.Add(-2 * time.Hour), time.Time{}, 1, 1, 0},
		{"the disk stands still", false, cluster.Patient{At: now.Add(-time.Hour), Driver: time.Hour}, time.Time{}, now.Add(-time.Minute), 0, 0, 1},
		{"a good one while it does", true, cluster.Patient{At: now}, time.Time{}, now.Add(-time.Minute), 1, 0, 0},
	} {
		if c.before.Driver < 0 {
			if _, told := cluster.Waited(os.Getpid()); !told {
				continue // this system does not tell; then every failure counts
			}
		}
		l := forged(t, 1)
		l.Strain.Still, l.Strain.Syncing = c.still, c.syncing
		l.Probed(&cluster.Process{}, c.fine, c.before, bad)
		got := l.Probes[0]
		if got == nil || got.Calls != c.calls || got.Failed != c.fails || got.Starved != c.n {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestRowsOfAvailabilityNameTheirNodes, also where a node before them was never
// asked, because it died too soon or came too late.
func TestRowsOfAvailabilityNameTheirNodes(t *testing.T) {
	l := forged(t, 1)
	l.Probes = map[int]*cluster.Probe{}
	for n := range 5 {
		p := &cluster.Process{N: n, Place: &network.Place{}, Name: fmt.Sprintf("n%d", n+1)}
		l.Nodes = append(l.Nodes, p)
		if n == 0 || n == 2 {
			continue
		}
		for range n * 10 {
			l.Probed(p, true, cluster.Patient{At: time.Now()}, nil)
		}
	}
	var r Result
	available(l, &r)
	var b strings.Builder
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| n2 | 10 |", "| n4 | 30 |", "| n5 | 40 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no row %q:\n%s", want, b.String())
		}
	}
}

// TestTooFewProbesCount: a run in which too many writes through a node could not be held
// against it proves nothing of its availability, also when it is judged again. A few do not
// matter.
func TestTooFewProbesCount(t *testing.T) {
	for _, c := range []struct {
		calls, starved int
		want           Verdict
	}{
		{1000, 0, Passed}, {1000, 100, Passed}, {1000, 150, Invalid}, {0, 1000, Invalid},
		{9, 2, Passed}, {9, 3, Invalid}, {0, 2, Passed}, {0, 0, Passed},
	} {
		l := forged(t, workloads.LeastPerSecond)
		for n := range workloads.LeastPerSecond {
			reads(l, n, history.Cancelled)
		}
		r := &Result{Config: l.Cfg, Events: l.History(), Probes: []cluster.Probe{{Node: "n1", Calls: 100}, {Node: "n2", Calls: c.calls, Starved: c.starved}}}
		r.judge()
		said := slices.ContainsFunc(r.Missing, func(s string) bool { return strings.Contains(s, "n2") && strings.Contains(s, fmt.Sprint(c.starved)) })
		if r.Verdict != c.want || said != (c.want == Invalid) {
			t.Errorf("%d calls, and %d that do not count: %s, %v", c.calls, c.starved, r.Verdict, r.Missing)
		}
	}
}
