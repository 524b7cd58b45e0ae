package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/cmd/norn/render"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// statusJSON is what scripts may rely on.
type statusJSON struct {
	ClusterID string `json:"cluster_id"`
	Replicas  int
	Voters    []string
	Nodes     []struct {
		Name, Incarnation, State, Zone, Address string
		Led, Vnodes                             int
		Offset                                  *float64 `json:"clock_offset_ms"`
		Error                                   *float64 `json:"clock_error_ms"`
	}
	Partitions []struct {
		ID      int
		Epoch   string
		Leader  string
		Cohort  []string
		Enqueue *bool    `json:"enqueue_available"`
		Claim   *bool    `json:"claim_available"`
		Oldest  *float64 `json:"oldest_ready_seconds"`
	}
}

// TestClusterStatus looks at a cluster of one, to the letter.
func TestClusterStatus(t *testing.T) {
	s := decode[statusJSON](t, "cluster", "status")
	if len(s.ClusterID) != 36 || !slices.Equal(s.Voters, []string{"n1"}) || len(s.Nodes) != 1 || len(s.Partitions) != 64 {
		t.Fatalf("got %+v", s)
	}
	if n := s.Nodes[0]; n.Name != "n1" || n.State != "up" || n.Led != 64 || n.Vnodes != 64 || len(n.Incarnation) != 32 || n.Address != the.server.addr || n.Offset == nil || n.Error == nil {
		t.Errorf("got %+v", n)
	}
	for i, p := range s.Partitions {
		if p.ID != i || p.Leader != "n1" || p.Epoch == "0" || !slices.Equal(p.Cohort, []string{"n1"}) || p.Enqueue == nil || !*p.Enqueue || p.Claim == nil || !*p.Claim || p.Oldest == nil {
			t.Errorf("got %+v", p)
		}
	}
	// The names that the table of the interface lists come first, in its order.
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(ok(t, "cluster", "status", "-o", "json")), &raw); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cluster_id", "voters", "nodes", "partitions", "node", "replicas", "register", "movement", "repair", "workers"} {
		if _, has := raw[want]; !has {
			t.Errorf("a status without %s", want)
		}
	}
	out := single(ok(t, "cluster", "status"))
	for _, want := range []string{"seen by n1\n", "voters n1\n", "register a majority is in reach\n", "movement everything is in its place\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
}

// TestAStatusHasItsWorkersAlways: also where nobody could say who they are.
func TestAStatusHasItsWorkersAlways(t *testing.T) {
	for want, err := range map[string]error{`"workers":[{`: nil, `"workers":null`: errors.New("no answer")} {
		full, told := statusForms(&nornv1.StatusReply{}, []*nornv1.Worker{{Name: "w"}}, err)
		if line := string(full.Line()); !strings.Contains(line, want) || (err != nil) != strings.HasPrefix(told, "not known: ") {
			t.Errorf("got %s, %q", line, told)
		}
	}
}

func TestClusterMembersAndPartitions(t *testing.T) {
	if m := decode[[]map[string]any](t, "cluster", "members"); len(m) != 1 || m[0]["name"] != "n1" || m[0]["state"] != "up" || m[0]["alive"] != true {
		t.Errorf("got %v", m)
	}
	if out := ok(t, "cluster", "members"); !strings.Contains(single(out), "n1 up yes "+the.server.addr) {
		t.Errorf("got %s", out)
	}
	if p := decode[[]map[string]any](t, "cluster", "partitions"); len(p) != 64 || p[63]["id"] != float64(63) || p[0]["copies"] != float64(1) {
		t.Errorf("got %d: %v", len(p), p[0])
	}
	if out := ok(t, "cluster", "partitions", "-o", "jsonl"); strings.Count(out, "\n") != 64 {
		t.Errorf("got %s", out)
	}
	if l := decode[[]struct {
		Node       string
		Led        int
		Partitions []int
	}](t, "cluster", "leaders"); len(l) != 1 || l[0].Node != "n1" || l[0].Led != 64 || len(l[0].Partitions) != 64 {
		t.Errorf("got %v", l)
	}
	if out := single(ok(t, "cluster", "leaders")); !strings.Contains(out, "n1 64 0-63\n") {
		t.Errorf("got %s", out)
	}
	if out := ok(t, "cluster", "partitions", "-q"); !strings.HasPrefix(out, "0\n1\n2\n") || strings.Count(out, "\n") != 64 {
		t.Errorf("got %s", out)
	}
	if out := ok(t, "cluster", "partitions", "--troubled", "-o", "json"); out != "[]\n" {
		t.Errorf("got %s", out)
	}
}

// TestClusterTables shows a cluster that is not well.
func TestClusterTables(t *testing.T) {
	s := &nornv1.StatusReply{
		ClusterId: "c", Node: "a", Replicas: 3, Voters: []string{"a", "b"}, Register: &nornv1.RegisterStatus{},
		Movement: &nornv1.MovementStatus{CopiesLeft: 1, HandoversLeft: 1234, Stuck: 2},
		Repair:   &nornv1.RepairStatus{Compared: 5, Failed: 1, FactsMoved: 7, Left: 3, Clashes: 2},
		Nodes: []*nornv1.NodeStatus{
			{Name: "b", State: "leaving", Incarnation: "02", Led: 1}, {Name: "a", State: "up", Alive: true, Led: 2, Incarnation: "03", CopiesLeft: 1, QuarantinedTasks: 2, QuarantinedBytes: 1500},
			{Name: "a", State: "removed", Alive: true, Incarnation: "01", Led: 1, QuarantineRefused: 3},
		},
		Partitions: []*nornv1.PartitionStatus{
			{Id: 0, Epoch: 7, Leader: "a", Cohort: []string{"a", "b"}, Copies: 1, EnqueueAvailable: true, ClaimAvailable: true, Moving: true, Planned: []string{"a", "c"}},
			{Id: 1, Epoch: 7, Leader: "b", Cohort: []string{"a", "b"}, Copies: 1},
			{Id: 2, Epoch: 7, Leader: "a", Cohort: []string{"a", "b"}, Copies: 2, EnqueueAvailable: true, ClaimAvailable: true},
		},
	}
	var b bytes.Buffer
	statusTable(&b, s, "")
	nodes := memberList(render.New(&b, render.Table, false), s.Voters)
	for _, n := range sortedNodes(s.Nodes) {
		nodes.Add(n)
	}
	list := partitionList(render.New(&b, render.Table, false), false)
	for _, p := range s.Partitions {
		if troubled(p) {
			list.Add(p)
		}
	}
	if nodes.Close() != nil || list.Close() != nil {
		t.Fatal("not written")
	}
	out := single(b.String())
	for _, want := range []string{
		"NO majority is in reach", "partitions led 2 of 3\n", "take enqueues 2 of 3\n", "\na up 2 0 1 0 +0.0ms ±0.0ms 03\n", "\nb leaving, down 1 0 0 0 - 02\n", "movement 1 copy to make, 1,234 copies to hand over, 2 partitions are stuck: too few",
		"kept aside 2 tasks (1,500 bytes) on a: older than gc-grace", "NO room for more on a: raise",
		"repair 5 comparisons, 7 facts moved, 1 failed, 2 with two contents (task.clash in the logs), 3 asked for and not done\n", "\nb leaving, down ", "\na removed, up no ", "\na up yes ",
		"\n0 7 a a b 1 of 2 a c yes yes ", "\n1 7 b a b 1 of 2 NO NO ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
	if strings.Contains(out, "\n2 7 a") {
		t.Errorf("a healthy partition is troubled: %s", out)
	}
	l := leaderships(s)
	if len(l) != 3 || l[0].node != "" || ranges(l[0].partitions) != "1" || l[1].node != "a" || ranges(l[1].partitions) != "0 2" || l[2].node != "b" || len(l[2].partitions) != 0 {
		t.Errorf("got %v", l)
	}
	if got := ranges([]uint32{0, 1, 2, 5, 7, 8}); got != "0-2 5 7-8" {
		t.Errorf("got %s", got)
	}
}

// TestClusterCompletion: nodes where a node is meant, and each once.
func TestClusterCompletion(t *testing.T) {
	for want, args := range map[string][]string{
		"n1\n:4\n":  {"leave", ""},
		"n1\n:4\n ": {"remove", "n"},
		":4\n":      {"replace", "n1", ""},
		":4\n ":     {"leave", "x"},
		":4\n  ":    {"leave", "n1", ""},
	} {
		if r := norn(t, append([]string{"__complete", "cluster"}, args...)...); r.out != strings.TrimRight(want, " ") {
			t.Errorf("%q offers %q", args, r.out)
		}
	}
}
