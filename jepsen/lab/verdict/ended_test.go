package verdict

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// TestAnEndIsNoFinding: what a cluster does not get done once somebody has ended the run
// counts for nothing, what was found before is told, and no verdict comes of either, also
// when the run is judged again. A run that takes too long by itself is another thing.
func TestAnEndIsNoFinding(t *testing.T) {
	nobody := &cluster.Process{Place: &network.Place{Dial: "127.0.0.1:1"}, Name: "n1"}
	over, cancel := context.WithCancel(t.Context())
	cancel()

	l := forged(t, workloads.LeastPerSecond)
	l.Nodes = []*cluster.Process{nobody}
	if err := l.Rests(over); !errors.Is(err, cluster.ErrStuck) || len(l.Findings) != 1 {
		t.Errorf("the time of the run itself is over: %v, %v", err, l.Findings)
	}

	l = forged(t, workloads.LeastPerSecond)
	l.Nodes, l.Caller = []*cluster.Process{nobody}, cluster.Caller{Ctx: t.Context()}
	l.Found("convergence", "found before")
	l.Caller = cluster.Caller{Ctx: over}
	if err := l.Rests(over); !errors.Is(err, cluster.ErrStuck) || len(l.Findings) != 1 {
		t.Errorf("somebody has ended the run: %v, %v", err, l.Findings)
	}
	l.Nodes = nil // whose logs there are not
	r, err := Judged(l, workloads.Workloads()[0], cluster.ErrEnded)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := r.Keep(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Again(filepath.Join(dir, r.Config.Name()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*Result{"judged": r, "judged again": again} {
		var text, page bytes.Buffer
		if err := errors.Join(r.Markdown(&text), r.HTML(&page)); err != nil {
			t.Fatal(err)
		}
		if r.Verdict != Invalid || !slices.Equal(r.Findings, []string{"convergence: found before"}) {
			t.Errorf("%s: %s, %v", what, r.Verdict, r.Findings)
		}
		for _, where := range []string{text.String(), page.String()} {
			if !strings.Contains(where, "ended by somebody") || !strings.Contains(where, "is no verdict") || !strings.Contains(where, "found before") {
				t.Errorf("%s, it is not said that this is no verdict:\n%s", what, where)
			}
		}
	}
}
