package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// cutter ends a run as soon as it says something.
type cutter struct {
	mu   sync.Mutex
	said bytes.Buffer
	at   string
	cut  func()
}

func (c *cutter) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.said.Write(b)
	if strings.Contains(c.said.String(), c.at) {
		c.cut()
	}
	return n, err
}

// TestARunThatSomebodyEnds is no verdict on the cluster, wherever in it that happens: in
// the storm, or while the cluster comes to rest.
func TestARunThatSomebodyEnds(t *testing.T) {
	if os.Getenv("NORN_TEST_CLUSTER") == "" {
		t.Skip("takes long; `make cluster` runs it")
	}
	for _, at := range []string{" kill ", "is over", "all replicas are equal"} {
		ctx, cancel := context.WithCancel(t.Context())
		says := &cutter{at: at, cut: cancel}
		began := time.Now()
		r, err := Run(ctx, Config{Norn: norn(t), Fault: "kill", Duration: 5 * time.Second, Seed: 1, Proxy: true, Progress: says})
		cancel()
		if err != nil {
			t.Fatalf("%q: %v\n%s", at, err, &says.said)
		}
		var report bytes.Buffer
		if err := r.Markdown(&report); err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %v after %v\n%s\n%s", at, r.Verdict, time.Since(began), &report, &says.said)
		if r.Verdict != Invalid || len(r.Findings) > 0 || !strings.Contains(report.String(), "ended by somebody") {
			t.Errorf("ended at %q: %s, %v, %v", at, r.Verdict, r.Findings, r.Missing)
		}
	}
}

// TestAnEndIsNoFinding: what a cluster does not get done once somebody has ended the run
// counts for nothing, what was found before is told, and no verdict comes of either, also
// when the run is judged again. A run that takes too long by itself is another thing.
func TestAnEndIsNoFinding(t *testing.T) {
	nobody := &process{place: &place{dial: "127.0.0.1:1"}, name: "n1"}
	over, cancel := context.WithCancel(t.Context())
	cancel()

	l := forged(t, leastPerSecond)
	l.nodes = []*process{nobody}
	if err := l.rests(over); !errors.Is(err, errStuck) || len(l.findings) != 1 {
		t.Errorf("the time of the run itself is over: %v, %v", err, l.findings)
	}

	l = forged(t, leastPerSecond)
	l.nodes, l.caller = []*process{nobody}, caller{t.Context()}
	l.found("convergence", "found before")
	l.caller = caller{over}
	if err := l.rests(over); !errors.Is(err, errStuck) || len(l.findings) != 1 {
		t.Errorf("somebody has ended the run: %v, %v", err, l.findings)
	}
	l.nodes = nil // whose logs there are not
	r, err := l.judge(Workloads()[0], errEnded)
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
