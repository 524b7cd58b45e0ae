package verdict

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
)

// overlapping is a run in which two workers held one task.
func overlapping() *Result {
	task := id.ID{1}
	spec := &history.Spec{Queue: "q"}
	item := func(token uint64, until time.Duration) history.Item {
		return history.Item{Task: task, Spec: spec, Token: token, State: history.Claimed, Until: int64(until)}
	}
	e := func(at time.Duration, op uint64, process int, phase history.Phase, f history.Func, items ...history.Item) *history.Event {
		return &history.Event{At: int64(at), Op: op, Process: process, Phase: phase, Func: f, Items: items, Queues: []string{"q"}, Session: uint64(process), Request: op, Max: 1, Lease: int64(10 * time.Second)}
	}
	const s = time.Second
	return &Result{
		Config: cluster.Config{Fault: "kill", Workload: "claims", Seed: 7, Nodes: 3, Duration: 10 * s}, Took: 30 * s, Claims: true,
		Windows: []cluster.Window{{Fault: "kill", What: "kill -9 <n1>", From: 2 * s, To: 5 * s, Whole: 6 * s}},
		Events: []*history.Event{
			e(1*s, 1, 1, history.Invoke, history.Enqueue, history.Item{Task: task, Spec: spec}), e(2*s, 1, 1, history.OK, history.Enqueue, history.Item{Task: task}),
			e(3*s, 2, 2, history.Invoke, history.Claim), e(4*s, 2, 2, history.OK, history.Claim, item(1<<32|1, 13*s)),
			e(5*s, 3, 3, history.Invoke, history.Claim), e(6*s, 3, 3, history.OK, history.Claim, item(2<<32|1, 15*s)),
			e(7*s, 4, 3, history.Invoke, history.Get, history.Item{Task: task}),
		},
	}
}

// A run that is kept says the same when it is judged again, and its page shows
// the fault, each kind of end, and the lock that no order explains.
func TestAKeptRunIsJudgedAgain(t *testing.T) {
	dir := t.TempDir()
	r := overlapping()
	r.judge()
	if r.Verdict != Violated || len(r.broken) == 0 {
		t.Fatalf("verdict %s, findings %v", r.Verdict, r.Findings)
	}
	if err := r.Keep(dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "kill-claims-7")
	page, err := os.ReadFile(name + ".html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"VIOLATED", "<svg", "kill: kill -9 &lt;n1&gt;", "until whole again", colours[history.OK], colours[history.Info], "picture", "overlap"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	pictures, err := filepath.Glob(name + "-*.html")
	if err != nil || len(pictures) != 1 {
		t.Errorf("pictures %v, %v, want one", pictures, err)
	}
	again, err := Again(name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var was, is bytes.Buffer
	if err := r.Markdown(&was); err != nil {
		t.Fatal(err)
	}
	if err := again.Markdown(&is); err != nil {
		t.Fatal(err)
	}
	if was.String() != is.String() {
		t.Errorf("judged again it says\n%s\nand said\n%s", is.String(), was.String())
	}
}

// Without its data a history cannot be judged again: whether disks were taken
// away is not in it.
func TestAHistoryAloneIsNotJudged(t *testing.T) {
	if _, err := Again(filepath.Join(t.TempDir(), "x.jsonl")); err == nil {
		t.Fatal("judged from nothing")
	}
}

// The reading at the end, thousands of calls in a second, does not flatten what clients
// saw while faults came, and no label is cut off at an edge.
func TestRatesAreThoseOfTheStorm(t *testing.T) {
	events := []*history.Event{{At: int64(10 * time.Second), Phase: history.Note, Text: StormOver}}
	var all []dot
	for n := range 50 {
		all = append(all, dot{at: 5, took: float64(n) / 100, phase: history.OK})
	}
	for range 5000 {
		all = append(all, dot{at: 12, phase: history.OK})
	}
	page := string(rates(all, 20, storm(events, 20), nil))
	for _, want := range []string{">50/s<", `y="10.0" text-anchor="end">50/s`, `text-anchor="end">20.0 s`} {
		if !strings.Contains(page, want) {
			t.Errorf("the picture has no %s", want)
		}
	}
	if got := storm(nil, 20); got != 20 {
		t.Errorf("a history that does not say when the storm was over: %v s", got)
	}
}
