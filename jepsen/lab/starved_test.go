package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
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
		before          patient
		still, syncing  time.Time
		calls, fails, n int
	}{
		{"a good one", true, patient{at: now}, time.Time{}, time.Time{}, 1, 0, 0},
		{"a failure", false, patient{at: now.Add(-time.Hour), driver: time.Hour}, time.Time{}, time.Time{}, 1, 1, 0},
		{"the client had no processor", false, patient{at: now, driver: -time.Hour}, time.Time{}, time.Time{}, 0, 0, 1},
		{"the disk stood still", false, patient{at: now.Add(-time.Hour), driver: time.Hour}, now, time.Time{}, 0, 0, 1},
		{"the disk stood still before", false, patient{at: now.Add(-time.Hour), driver: time.Hour}, now.Add(-2 * time.Hour), time.Time{}, 1, 1, 0},
		{"the disk stands still", false, patient{at: now.Add(-time.Hour), driver: time.Hour}, time.Time{}, now.Add(-time.Minute), 0, 0, 1},
		{"a good one while it does", true, patient{at: now}, time.Time{}, now.Add(-time.Minute), 1, 0, 0},
	} {
		if c.before.driver < 0 {
			if _, told := waited(os.Getpid()); !told {
				continue // this system does not tell; then every failure counts
			}
		}
		l := forged(t, 1)
		l.strain.still, l.strain.syncing = c.still, c.syncing
		l.probed(&process{}, c.fine, c.before, bad)
		got := l.probes[0]
		if got == nil || got.Calls != c.calls || got.Failed != c.fails || got.Starved != c.n {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestWaited: what a process has waited only grows, and one that never was has
// waited for nothing.
func TestWaited(t *testing.T) {
	first, told := waited(os.Getpid())
	if _, err := os.Stat("/proc/self/schedstat"); (err == nil) != told {
		t.Fatalf("told: %v, although %v", told, err)
	}
	if again, _ := waited(os.Getpid()); again < first || first < 0 {
		t.Errorf("%v, then %v", first, again)
	}
	if sum, told := waited(-1); told || sum != 0 {
		t.Errorf("no process has waited %v", sum)
	}
}

// TestClientsTurnToHeirs: who talks to a node that was replaced, by one that was
// replaced in turn, talks to the last of them from then on, and to the others as
// before. Clients of a node that was replaced talked to nobody for the rest of a run
// before, so that too little happened.
func TestClientsTurnToHeirs(t *testing.T) {
	l := forged(t, 1)
	n := make([]*process, 6)
	for i := range n {
		n[i] = &process{n: i}
	}
	l.heirs = map[*process]*process{}
	if now := l.heirsOf(n[:3]); now != nil {
		t.Errorf("nobody was replaced, but %v", now)
	}
	l.heirs[n[1]], l.heirs[n[3]] = n[3], n[5]
	old := slices.Clone(n[:3])
	if now := l.heirsOf(old); !slices.Equal(now, []*process{n[0], n[5], n[2]}) || !slices.Equal(old, n[:3]) {
		t.Errorf("after two replacements: %v", now)
	}
	if now := l.heirsOf([]*process{n[1]}); !slices.Equal(now, []*process{n[5]}) {
		t.Errorf("one client: %v", now)
	}
}

// TestRowsOfAvailabilityNameTheirNodes, also where a node before them was never
// asked, because it died too soon or came too late.
func TestRowsOfAvailabilityNameTheirNodes(t *testing.T) {
	l := forged(t, 1)
	l.probes = map[int]*Probe{}
	for n := range 5 {
		p := &process{n: n, place: &place{}, name: fmt.Sprintf("n%d", n+1)}
		l.nodes = append(l.nodes, p)
		if n == 0 || n == 2 {
			continue
		}
		for range n * 10 {
			l.probed(p, true, patient{at: time.Now()}, nil)
		}
	}
	var r Result
	l.available(&r)
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
		l := forged(t, leastPerSecond)
		for n := range leastPerSecond {
			l.reads(n, history.Cancelled)
		}
		r := &Result{Config: l.cfg, Events: l.history(), Probes: []Probe{{Node: "n1", Calls: 100}, {Node: "n2", Calls: c.calls, Starved: c.starved}}}
		r.judge()
		said := slices.ContainsFunc(r.Missing, func(s string) bool { return strings.Contains(s, "n2") && strings.Contains(s, fmt.Sprint(c.starved)) })
		if r.Verdict != c.want || said != (c.want == Invalid) {
			t.Errorf("%d calls, and %d that do not count: %s, %v", c.calls, c.starved, r.Verdict, r.Missing)
		}
	}
}
