package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// changeJSON is what changes of members print.
type changeJSON struct {
	Changed             bool
	Notes, Nodes        []string
	Copies, Comparisons int
	Partitions          []int
}

// TestTheLastNodeCannotGo, and nothing happens to a cluster of one.
func TestTheLastNodeCannotGo(t *testing.T) {
	refused(t, 5, "last member", "cluster", "leave")
	refused(t, 5, "last member", "cluster", "leave", "n1")
	refused(t, 5, "last member", "cluster", "remove", "n1", "--force")
	refused(t, 3, "there is no node n7", "cluster", "leave", "n7")
	refused(t, 3, "there is no node n7", "cluster", "remove", "n7")
	refused(t, 3, "there is no node n7", "cluster", "replace", "n1", "n7")
	refused(t, 2, "cannot replace itself", "cluster", "replace", "n1", "n1")
	refused(t, 2, "under zero", "cluster", "leave", "--wait", "-1s")
	refused(t, 2, "name the node", "cluster", "leave", "--addr", the.server.addr+",127.0.0.1:1")
	if s := decode[statusJSON](t, "cluster", "status"); len(s.Nodes) != 1 || s.Nodes[0].State != "up" {
		t.Errorf("got %+v", s.Nodes)
	}
	if r := decode[changeJSON](t, "cluster", "leave", "--stay"); r.Changed || len(r.Notes) != 1 || r.Nodes[0] != "n1" {
		t.Errorf("got %+v", r)
	}
}

func TestNothingToRebalanceOrRecover(t *testing.T) {
	if r := decode[changeJSON](t, "cluster", "rebalance", "--wait", "2m"); r.Changed || r.Copies != 0 {
		t.Errorf("got %+v", r)
	}
	refused(t, 2, "moves nearly every copy", "cluster", "rebalance", "--fresh")
	ok(t, "cluster", "rebalance", "--fresh", "--dry-run")
	if r := decode[changeJSON](t, "cluster", "recover"); r.Changed || len(r.Nodes) != 0 {
		t.Errorf("got %+v", r)
	}
	if out := ok(t, "cluster", "recover", "--accept-loss"); !strings.Contains(out, "nothing is stuck") {
		t.Errorf("got %s", out)
	}
	refused(t, 3, "there is no node n7", "cluster", "recover", "--accept-loss", "n7")
	refused(t, 5, "not removed", "cluster", "recover", "--accept-loss", "n1")
}

// TestReplicasOfAClusterOfOne: what there may not be is refused, fewer take a yes, and
// the same number is no change.
func TestReplicasOfAClusterOfOne(t *testing.T) {
	for _, n := range []string{"0", "10", "x", "1.5", ""} {
		refused(t, 2, "is not a number of copies: 1 to 9", "cluster", "replicas", n)
	}
	refused(t, 2, "accepts 1 arg", "cluster", "replicas")
	refused(t, 2, "3 survive less", "cluster", "replicas", "1")
	if r := decode[changeJSON](t, "cluster", "replicas", "3"); r.Changed || !strings.Contains(r.Notes[0], "is to have 3 copies already") {
		t.Errorf("got %+v", r)
	}
	if r := decode[changeJSON](t, "cluster", "replicas", "1", "--dry-run"); !r.Changed || r.Copies != 0 || len(r.Notes) != 2 {
		t.Errorf("got %+v", r)
	}
	if r := decode[changeJSON](t, "cluster", "replicas", "5", "--wait", "1m"); !r.Changed || !strings.Contains(r.Notes[1], "1 copy until more nodes join") {
		t.Errorf("got %+v", r)
	}
	if out := ok(t, "cluster", "status"); !strings.Contains(single(out), "\nreplicas 5\n") {
		t.Errorf("got %s", out)
	}
	ok(t, "cluster", "replicas", "3", "--yes", "--wait", "1m")
	if s := decode[statusJSON](t, "cluster", "status"); s.Replicas != 3 {
		t.Errorf("got %+v", s)
	}
}

// TestCopiesThatAreUnmade: as many as there are to be, or as there are nodes that take any.
func TestCopiesThatAreUnmade(t *testing.T) {
	part := func(n int) *nornv1.PartitionStatus { return &nornv1.PartitionStatus{Cohort: make([]string, n)} }
	s := &nornv1.StatusReply{Replicas: 3, Partitions: []*nornv1.PartitionStatus{part(2), part(3), part(2)}, Nodes: []*nornv1.NodeStatus{
		{State: "up", Weight: 1}, {State: "down", Weight: 1}, {State: "up"}, {State: "leaving", Weight: 1}, {State: "joining", Weight: 1}, {State: "removed", Weight: 1},
	}}
	if got := replicasLine(s); got != "3, not yet of 1 of 3 partitions" {
		t.Errorf("got %q", got)
	}
	s.Replicas = 2
	if s.Partitions[1] = part(2); replicasLine(s) != "2" {
		t.Errorf("got %q", replicasLine(s))
	}
}

func TestClusterRepair(t *testing.T) {
	r := decode[struct {
		Comparisons                   int
		Compared, Failed, Facts_moved string //nolint:revive // as in JSON
		Notes                         []string
	}](t, "cluster", "repair")
	if r.Comparisons != 0 || r.Compared != "0" || r.Failed != "0" || r.Notes == nil {
		t.Errorf("got %+v", r)
	}
	if out := ok(t, "cluster", "repair", "3", "4"); !strings.Contains(out, "nothing to compare") {
		t.Errorf("got %s", out)
	}
	refused(t, 2, "no partition 64", "cluster", "repair", "64")
	refused(t, 2, "not the number of a partition", "cluster", "repair", "x")
}

func TestChangeTables(t *testing.T) {
	var b bytes.Buffer
	changeTable(&b, &nornv1.ClusterReply{Changed: true, Copies: 1, Notes: []string{"node n4 goes\x1b[2J"}}, true)
	changeTable(&b, &nornv1.ClusterReply{}, false)
	r := repaired{
		begun: &nornv1.ClusterReply{Comparisons: 6, Notes: []string{"node n3 is not in reach"}}, ended: true,
		first: map[string]*nornv1.RepairStatus{"01": {FactsMoved: 5, Compared: 9}}, last: map[string]*nornv1.RepairStatus{"01": {FactsMoved: 6, Failed: 2, Compared: 3}},
	}
	r.table(&b)
	want := "Nothing is done yet. This would be:\nnode n4 goes [2J\n1 copy of partitions to move\nthere is nothing to do\n" +
		"6 comparisons done, 1 fact moved, 2 failed\nnode n3 is not in reach\n"
	if b.String() != want {
		t.Errorf("got %q", b.String())
	}
	if line := string(r.form().Line()); line != `{"comparisons":6,"compared":"0","failed":"2","facts_moved":"1","notes":["node n3 is not in reach"]}`+"\n" {
		t.Errorf("got %s", line)
	}
}

// TestWhoNoLongerWaitsIsToldWhatGoesOn: Ctrl-C ends the command and nothing of what it has
// begun.
func TestWhoNoLongerWaitsIsToldWhatGoesOn(t *testing.T) {
	c, err := client.Dial(t.Context(), []string{the.server.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	k := clusterCommands{&app{&cli.App{Quiet: true}}}
	never := func(*nornv1.StatusReply) bool { return false }
	s := &nornv1.StatusReply{Nodes: []*nornv1.NodeStatus{{Name: "n1", State: "up", Alive: true, Address: the.server.addr}}}
	for want, err := range map[string]error{
		"what was begun goes on, see `norn cluster status`": (&change{clusterCommands: k, wait: time.Minute, done: never}).follow(ctx, c.Cluster()),
		"what was begun goes on":                            k.ended(ctx, c.Cluster(), &repaired{begun: &nornv1.ClusterReply{Comparisons: 1}}, time.Minute),
		"the nodes stop all the same":                       k.gone(ctx, reach(t.Context(), s), time.Minute),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "interrupt signal received; ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestWhatIsWaitedFor: until nothing is left, and nobody who is gone is named.
func TestWhatIsWaitedFor(t *testing.T) {
	node := func(state string, vnodes uint32) *nornv1.StatusReply {
		return &nornv1.StatusReply{Nodes: []*nornv1.NodeStatus{{Name: "n3", Incarnation: "03", State: state, Vnodes: vnodes}}}
	}
	for _, c := range []struct {
		s             *nornv1.StatusReply
		settled, left bool
	}{
		{node("up", 4), true, false},
		{node("leaving", 0), true, false},
		{node("removed", 1), false, false},
		{node("removed", 0), true, true},
		{&nornv1.StatusReply{}, true, true},
		{&nornv1.StatusReply{Movement: &nornv1.MovementStatus{CopiesLeft: 1}}, false, true},
		{&nornv1.StatusReply{Movement: &nornv1.MovementStatus{HandoversLeft: 1}}, false, true},
		{&nornv1.StatusReply{Partitions: []*nornv1.PartitionStatus{{}, {Moving: true}}}, false, true},
	} {
		if settled(c.s) != c.settled || left("03")(c.s) != c.left {
			t.Errorf("%v: settled %v, left %v", c.s, settled(c.s), left("03")(c.s))
		}
	}
}

// TestWhichNodeIsMeant: by name or incarnation it is the same one, and the one that was
// asked is followed at others, as it will be gone.
func TestWhichNodeIsMeant(t *testing.T) {
	s := &nornv1.StatusReply{Node: "b", Nodes: []*nornv1.NodeStatus{
		{Name: "b", Incarnation: "0b", State: "removed", Alive: true, Address: "b:1"},
		{Name: "a", Incarnation: "0a", State: "up", Alive: true, Address: "a:1"},
		{Name: "b", Incarnation: "1b", State: "up", Alive: true, Address: "b:2"},
		{Name: "c", Incarnation: "0c", State: "down", Address: "c:1"},
		{Name: "d", Incarnation: "0d", State: "joining", Alive: true, Address: "d:1"},
	}}
	for _, c := range []struct {
		args   []string
		node   string
		others []string
	}{
		{nil, "1b", []string{"a:1"}},
		{[]string{"b"}, "1b", []string{"a:1"}},
		{[]string{"1b"}, "1b", []string{"a:1"}},
		{[]string{"1B"}, "1b", []string{"a:1"}},
		{[]string{"a"}, "0a", nil},
		{[]string{"0A"}, "0a", nil},
		{[]string{"d"}, "d", nil},
		{[]string{"e"}, "e", nil},
	} {
		if node, others := meant(s, c.args); node != c.node || !slices.Equal(others, c.others) {
			t.Errorf("%v: got %q, %v", c.args, node, others)
		}
	}
}

// TestAClockThatIsNotKnown is not shown as one that is right.
func TestAClockThatIsNotKnown(t *testing.T) {
	s := &nornv1.StatusReply{Node: "n1", Nodes: []*nornv1.NodeStatus{
		{Name: "n1", Alive: true}, {Name: "n2", Alive: true, ClockErrorMs: 0.2}, {Name: "n3", Alive: true}, {Name: "n4"},
	}}
	for i, want := range []string{"text", "text", "not known yet", "-"} {
		if got := clockCell(s, s.Nodes[i], "text"); got != want {
			t.Errorf("of %s: %s, want %s", s.Nodes[i].Name, got, want)
		}
	}
}
