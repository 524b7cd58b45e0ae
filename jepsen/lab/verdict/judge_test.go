package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// task is one with a number.
func task(n int) (i id.ID) {
	i[3], i[7], i[19] = 1, 4, byte(n) // kind 0
	return i
}

// forged is a run in which so many tasks were enqueued and read in the end.
func forged(t *testing.T, tasks int) *cluster.Lab {
	t.Helper()
	l := &cluster.Lab{Cfg: cluster.Config{Duration: time.Second}, Rec: record.NewRecorder(), Net: &network.Netns{}, Links: map[network.Way]network.Link{}, Wipes: map[int][]int64{}, Probes: map[int]*cluster.Probe{}}
	spec := &history.Spec{Queue: "q0"}
	for n := range tasks {
		asked := l.Rec.Invoke(1, &history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task(n), Spec: spec}}})
		l.Rec.End(asked, nil, history.Event{Items: []history.Item{{Task: task(n)}}})
	}
	for n := range tasks {
		asked := l.Rec.Invoke(1, &history.Event{Func: history.Cancel, Items: record.Items([]id.ID{task(n)})})
		l.Rec.End(asked, nil, history.Event{Items: []history.Item{{Task: task(n), State: history.Cancelled}}})
	}
	l.Rec.Note(check.Settled)
	return l
}

// reads has a task read in the end.
func reads(l *cluster.Lab, n int, s history.State) {
	asked := l.Rec.Invoke(1, &history.Event{Func: history.Get, Items: record.Items([]id.ID{task(n)})})
	i := history.Item{Task: task(n), State: s}
	if s != history.Absent {
		i.Spec = &history.Spec{Queue: "q0"}
	}
	l.Rec.End(asked, nil, history.Event{Items: []history.Item{i}})
}

func judgement(t *testing.T, l *cluster.Lab) *Result {
	t.Helper()
	r, err := Judged(l, workloads.Workloads()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVerdicts: a good run passes, one without a task that was acknowledged is a
// violation, and so is one with a finding; one with little in it is invalid.
func TestVerdicts(t *testing.T) {
	const enough = workloads.LeastPerSecond
	run := func(tasks int, last history.State) *cluster.Lab {
		l := forged(t, tasks)
		for n := range tasks - 1 {
			reads(l, n, history.Cancelled)
		}
		reads(l, tasks-1, last)
		return l
	}
	if r := judgement(t, run(enough, history.Cancelled)); r.Verdict != Passed || r.Acked != enough || r.Sent != enough {
		t.Errorf("a good run: %s, %v, %v, %d acknowledged of %d", r.Verdict, r.Findings, r.Missing, r.Acked, r.Sent)
	}
	if r := judgement(t, run(enough, history.Absent)); r.Verdict != Violated || !strings.Contains(r.Findings[0], "lost") {
		t.Errorf("a lost task: %s, %v", r.Verdict, r.Findings)
	}
	if r := judgement(t, run(enough-1, history.Cancelled)); r.Verdict != Invalid {
		t.Errorf("too few tasks: %s", r.Verdict)
	}
	l := run(enough, history.Cancelled)
	l.Found("convergence", "something")
	if r := judgement(t, l); r.Verdict != Violated {
		t.Errorf("a finding: %s", r.Verdict)
	}
	l = run(enough, history.Cancelled)
	l.Cfg.Fault = "kill"
	if r := judgement(t, l); r.Verdict != Invalid || !strings.Contains(r.Missing[0], "kill") {
		t.Errorf("a fault that never came: %s, %v", r.Verdict, r.Missing)
	}
	l = run(enough, history.Cancelled)
	cluster.Proven(l, true, "it had an effect")
	if r := judgement(t, l); r.Verdict != Passed {
		t.Errorf("a fault that had an effect: %s, %v", r.Verdict, r.Missing)
	}
	cluster.Proven(l, false, "it had none")
	if r := judgement(t, l); r.Verdict != Invalid || !slices.Contains(r.Missing, "it had none") {
		t.Errorf("a fault that had no effect: %s, %v", r.Verdict, r.Missing)
	}
}

// TestWhatMayGetLost: an acknowledgement of one copy counts no more when the
// disk of the node that gave it was wiped later, unless all replicas had been
// seen to be equal meanwhile, and only then.
func TestWhatMayGetLost(t *testing.T) {
	for _, c := range []struct {
		what         string
		node         int
		wiped, equal int64
		nodes        int
		forgiven     bool
	}{
		{"wiped later", 1, 100, 0, 3, true},
		{"another one is wiped", 2, 100, 0, 3, false},
		{"wiped before", 1, 5, 0, 3, false},
		{"all were equal in between", 1, 100, 50, 3, false},
		{"all were equal before", 1, 100, 5, 3, true},
		{"another one of many is wiped", 2, 100, 50, 5, true},
	} {
		l := &cluster.Lab{Wipes: map[int][]int64{c.node: {c.wiped}}, Thin: []cluster.Thin{{Op: 7, Item: 0, Node: 1}}, Nodes: make([]*cluster.Process, c.nodes)}
		if c.equal > 0 {
			l.Equals = []int64{c.equal}
		}
		e := &history.Event{At: 10, Op: 7, Phase: history.OK, Func: history.Enqueue, Items: []history.Item{{Task: task(1)}}}
		if n := l.Forgiven([]*history.Event{e}); (n == 1) != c.forgiven || e.Items[0].Unsure != c.forgiven {
			t.Errorf("%s: %d forgiven, unsure %v", c.what, n, e.Items[0].Unsure)
		}
	}
}

// TestRepeatedAttempts: a task that was there before though nobody else has sent
// it gets the attempt that must have arrived.
func TestRepeatedAttempts(t *testing.T) {
	r := record.NewRecorder()
	asked := r.Invoke(1, &history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task(1), Spec: &history.Spec{Queue: "q0"}}}})
	r.End(asked, nil, history.Event{Items: []history.Item{{Task: task(1), Existed: true}}})
	all := record.Repeated(r.Events)
	if len(all) != 3 || all[0].Op == all[1].Op || all[0].Phase != history.Invoke || all[0].Func != history.Enqueue {
		t.Fatalf("got %v", all)
	}
	c := check.New(check.Options{Partitions: cluster.Partitions})
	for _, e := range all {
		if v := c.Event(e); v != nil {
			t.Error(v)
		}
	}
	if n := count(all); len(n) != 1 || n[0].OK != 1 || n[0].Other != 1 || n[0].Items != 1 {
		t.Errorf("got %+v", n)
	}
}
