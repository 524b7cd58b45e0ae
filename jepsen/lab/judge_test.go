package lab

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// task is one with a number.
func task(n int) (i id.ID) {
	i[3], i[7], i[19] = 1, 4, byte(n) // kind 0
	return i
}

// forged is a run in which so many tasks were enqueued and read in the end.
func forged(t *testing.T, tasks int) *lab {
	t.Helper()
	l := &lab{cfg: Config{Duration: time.Second}, rec: newRecorder(), net: &netns{}, links: map[way]link{}, wipes: map[int][]int64{}, probes: map[int]*Probe{}}
	spec := &history.Spec{Queue: "q0"}
	for n := range tasks {
		asked := l.rec.invoke(1, &history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task(n), Spec: spec}}})
		l.rec.end(asked, nil, history.Event{Items: []history.Item{{Task: task(n)}}})
	}
	for n := range tasks {
		asked := l.rec.invoke(1, &history.Event{Func: history.Cancel, Items: items([]id.ID{task(n)})})
		l.rec.end(asked, nil, history.Event{Items: []history.Item{{Task: task(n), State: history.Cancelled}}})
	}
	l.rec.note(check.Settled)
	return l
}

// reads has a task read in the end.
func (l *lab) reads(n int, s history.State) {
	asked := l.rec.invoke(1, &history.Event{Func: history.Get, Items: items([]id.ID{task(n)})})
	i := history.Item{Task: task(n), State: s}
	if s != history.Absent {
		i.Spec = &history.Spec{Queue: "q0"}
	}
	l.rec.end(asked, nil, history.Event{Items: []history.Item{i}})
}

func verdict(t *testing.T, l *lab) *Result {
	t.Helper()
	r, err := l.judge(Workloads()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVerdicts: a good run passes, one without a task that was acknowledged is a
// violation, and so is one with a finding; one with little in it is invalid.
func TestVerdicts(t *testing.T) {
	const enough = leastPerSecond
	run := func(tasks int, last history.State) *lab {
		l := forged(t, tasks)
		for n := range tasks - 1 {
			l.reads(n, history.Cancelled)
		}
		l.reads(tasks-1, last)
		return l
	}
	if r := verdict(t, run(enough, history.Cancelled)); r.Verdict != Passed || r.Acked != enough || r.Sent != enough {
		t.Errorf("a good run: %s, %v, %v, %d acknowledged of %d", r.Verdict, r.Findings, r.Missing, r.Acked, r.Sent)
	}
	if r := verdict(t, run(enough, history.Absent)); r.Verdict != Violated || !strings.Contains(r.Findings[0], "lost") {
		t.Errorf("a lost task: %s, %v", r.Verdict, r.Findings)
	}
	if r := verdict(t, run(enough-1, history.Cancelled)); r.Verdict != Invalid {
		t.Errorf("too few tasks: %s", r.Verdict)
	}
	l := run(enough, history.Cancelled)
	l.found("convergence", "something")
	if r := verdict(t, l); r.Verdict != Violated {
		t.Errorf("a finding: %s", r.Verdict)
	}
	l = run(enough, history.Cancelled)
	l.cfg.Fault = "kill"
	if r := verdict(t, l); r.Verdict != Invalid || !strings.Contains(r.Missing[0], "kill") {
		t.Errorf("a fault that never came: %s, %v", r.Verdict, r.Missing)
	}
	l = run(enough, history.Cancelled)
	proven(l, true, "it had an effect")
	if r := verdict(t, l); r.Verdict != Passed {
		t.Errorf("a fault that had an effect: %s, %v", r.Verdict, r.Missing)
	}
	proven(l, false, "it had none")
	if r := verdict(t, l); r.Verdict != Invalid || !slices.Contains(r.Missing, "it had none") {
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
		l := &lab{wipes: map[int][]int64{c.node: {c.wiped}}, thin: []thin{{op: 7, item: 0, node: 1}}, nodes: make([]*process, c.nodes)}
		if c.equal > 0 {
			l.equals = []int64{c.equal}
		}
		e := &history.Event{At: 10, Op: 7, Phase: history.OK, Func: history.Enqueue, Items: []history.Item{{Task: task(1)}}}
		if n := l.forgiven([]*history.Event{e}); (n == 1) != c.forgiven || e.Items[0].Unsure != c.forgiven {
			t.Errorf("%s: %d forgiven, unsure %v", c.what, n, e.Items[0].Unsure)
		}
	}
}

// TestRepeatedAttempts: a task that was there before though nobody else has sent
// it gets the attempt that must have arrived.
func TestRepeatedAttempts(t *testing.T) {
	r := newRecorder()
	asked := r.invoke(1, &history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task(1), Spec: &history.Spec{Queue: "q0"}}}})
	r.end(asked, nil, history.Event{Items: []history.Item{{Task: task(1), Existed: true}}})
	all := repeated(r.events)
	if len(all) != 3 || all[0].Op == all[1].Op || all[0].Phase != history.Invoke || all[0].Func != history.Enqueue {
		t.Fatalf("got %v", all)
	}
	c := check.New(check.Options{Partitions: partitions})
	for _, e := range all {
		if v := c.Event(e); v != nil {
			t.Error(v)
		}
	}
	if n := count(all); len(n) != 1 || n[0].OK != 1 || n[0].Other != 1 || n[0].Items != 1 {
		t.Errorf("got %+v", n)
	}
}

// TestWholeClusters says what a cluster lacks.
func TestWholeClusters(t *testing.T) {
	good := func() *nornv1.StatusReply {
		s := &nornv1.StatusReply{Voters: []string{"n1", "n2", "n3"}}
		for n := range 3 {
			s.Nodes = append(s.Nodes, &nornv1.NodeStatus{Name: fmt.Sprintf("n%d", n+1), State: "up", Vnodes: partitions})
		}
		for p := range partitions {
			s.Partitions = append(s.Partitions, &nornv1.PartitionStatus{
				Id: uint32(p), Cohort: []string{"n1", "n2", "n3"}, Leader: "n1", EnqueueAvailable: true, ClaimAvailable: true,
			})
		}
		return s
	}
	if why := lacks(good(), 3); why != "" {
		t.Errorf("a whole cluster lacks %s", why)
	}
	for what, break_ := range map[string]func(*nornv1.StatusReply){
		"a node is down":        func(s *nornv1.StatusReply) { s.Nodes[1].State = "down" },
		"no leader":             func(s *nornv1.StatusReply) { s.Partitions[3].Leader = "" },
		"two copies":            func(s *nornv1.StatusReply) { s.Partitions[3].Cohort = []string{"n1", "n2"} },
		"it moves":              func(s *nornv1.StatusReply) { s.Partitions[3].Moving = true },
		"takes no enqueues":     func(s *nornv1.StatusReply) { s.Partitions[3].EnqueueAvailable = false },
		"a copy is on nobody":   func(s *nornv1.StatusReply) { s.Nodes[0].Vnodes-- },
		"a voter is not a node": func(s *nornv1.StatusReply) { s.Voters = append(s.Voters, "n9") },
		"too few partitions":    func(s *nornv1.StatusReply) { s.Partitions = s.Partitions[1:] },
		"one voter only":        func(s *nornv1.StatusReply) { s.Voters = s.Voters[:1] },
	} {
		s := good()
		break_(s)
		if lacks(s, 3) == "" {
			t.Errorf("%s: it is called whole", what)
		}
	}
}

// TestFaultsByName: names are unique, each says what it is about, and one that
// is not there is an error.
func TestFaultsByName(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		if seen[f.Name] || f.About == "" || f.run == nil && f.needs == nil {
			t.Errorf("fault %q", f.Name)
		}
		seen[f.Name] = true
	}
	if all, err := find("kill,mix"); err != nil || len(all) < 10 {
		t.Errorf("got %d, %v", len(all), err)
	}
	if _, err := find("nothing-like-it"); err == nil {
		t.Error("a fault that is not there is found")
	}
}

// TestSweepRemovesWhatADeadRunLeft, and nothing of one that is alive.
func TestSweepRemovesWhatADeadRunLeft(t *testing.T) {
	if why := namespaces(); why != nil {
		t.Skip(why)
	}
	const nobody = 1 << 22 // over the largest process ID
	dead, own := fmt.Sprintf("%s%dn1", prefix, nobody), fmt.Sprintf("%s%dn1", prefix, os.Getpid())
	for _, name := range []string{dead, own} {
		if _, err := command("ip", "netns", "add", name); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := removeNetwork(fmt.Sprintf("%s%d", prefix, os.Getpid())); err != nil {
			t.Error(err)
		}
	}()
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(netnsDir + dead); !os.IsNotExist(err) {
		t.Errorf("that of a dead run: %v", err)
	}
	if _, err := os.Stat(netnsDir + own); err != nil {
		t.Errorf("that of a living one: %v", err)
	}
}
