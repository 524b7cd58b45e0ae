package verdict

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// TestCeilings: a run in which a node took more of the machine than it may is a
// violation, whichever it was; the report says what each took.
func TestCeilings(t *testing.T) {
	for name, by := range map[string]cluster.Peak{
		"": {Memory: cluster.Ceiling.Memory, Descriptors: cluster.Ceiling.Descriptors, Threads: cluster.Ceiling.Threads, Disk: cluster.Ceiling.Disk}, "memory": {Memory: cluster.Ceiling.Memory + 1},
		"open files": {Descriptors: cluster.Ceiling.Descriptors + 1}, "threads": {Threads: cluster.Ceiling.Threads + 1}, "disk": {Disk: cluster.Ceiling.Disk + 1},
	} { // Any order: each is for itself.
		l := forged(t, workloads.LeastPerSecond)
		for n := range workloads.LeastPerSecond {
			reads(l, n, history.Cancelled)
		}
		p := &cluster.Process{Name: "n1"}
		l.Nodes = []*cluster.Process{p}
		l.Gauges.Note(p, cluster.Peak{Memory: 7 << 20, Threads: 3})
		l.Gauges.Note(p, by)
		p.Log = filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(p.Log, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r := judgement(t, l)
		var report bytes.Buffer
		if err := r.Markdown(&report); err != nil {
			t.Fatal(err)
		}
		if (name == "") != (r.Verdict == Passed) || name != "" && !strings.Contains(r.Findings[0], name) || !strings.Contains(report.String(), "## Limits") {
			t.Errorf("%q: %s, %v\n%s", name, r.Verdict, r.Findings, &report)
		}
	}
}
