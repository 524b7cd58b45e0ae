package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestClusterVerify(t *testing.T) {
	enqueue(t, "-q", "verified", "x")
	v := decode[struct {
		Partitions, Replicas, Equal, Differing, Unreachable int
		Facts                                               string
		Problems, Quarantined                               []any
	}](t, "cluster", "verify")
	if v.Partitions != 64 || v.Replicas != 64 || v.Equal != 64 || v.Differing != 0 || v.Unreachable != 0 || v.Problems == nil || len(v.Problems) != 0 || v.Quarantined == nil || len(v.Quarantined) != 0 {
		t.Errorf("got %+v", v)
	}
	if out := single(ok(t, "cluster", "verify")); !strings.HasPrefix(out, "partitions 64, 64 equal\nreplicas 64\n") {
		t.Errorf("got %s", out)
	}
	if v := decode[map[string]any](t, "cluster", "verify", "7", "12", "7"); v["partitions"] != float64(2) {
		t.Errorf("got %v", v)
	}
	refused(t, 2, "is not the number of a partition", "cluster", "verify", "all")
	refused(t, 2, "no partition 64", "cluster", "verify", "64")
	refused(t, 2, "under zero", "cluster", "verify", "--wait", "-1s")
}

// TestVerificationTable shows what is wrong, and what it means for scripts.
func TestVerificationTable(t *testing.T) {
	replica := func(node string, facts uint64, problem string) *nornv1.ReplicaState {
		return &nornv1.ReplicaState{Node: node, Facts: facts, Problem: problem, Root: []byte{1, 2, 3, byte(facts), 5, 6, 7}}
	}
	short := replica("c", 4, "")
	short.Queues = []*nornv1.QueueCounters{{Queue: "mail", Completed: 2}}
	v := &client.Verification{Differing: 1, Unreachable: 1, Partitions: []*nornv1.VerifiedPartition{
		{Id: 0, Replicas: []*nornv1.ReplicaState{replica("a", 9, ""), replica("b", 9, "")}},
		{Id: 1, Differs: true, Replicas: []*nornv1.ReplicaState{replica("a", 5, ""), short}},
		{Id: 2, Unreachable: true, Replicas: []*nornv1.ReplicaState{replica("a", 5, ""), replica("b", 0, "it is not\nin reach")}},
	}}
	v.Partitions[0].Replicas[0].QuarantinedTasks, v.Partitions[0].Replicas[0].Quarantined = 3, []string{"t2", "t1"}
	v.Partitions[0].Replicas[1].QuarantinedTasks, v.Partitions[0].Replicas[1].Quarantined = 1, []string{"t2"}
	var b bytes.Buffer
	verificationTable(&b, v)
	out := single(b.String())
	for _, want := range []string{
		"partitions 3, 1 equal\nreplicas 5\nfacts 19\ndiffering 1\nout of reach 1\nkept aside 3 tasks\n", "\n0 t1 a\n0 t2 a b\nand 1 more task\n",
		"\n1 a 5 010203050506 0 0 0 0 differs\n",
		"\n1 c mail 0 2 0 0 differs\n", "\nb 2 it is not",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
	if strings.Contains(out, "\n0 a") || strings.Contains(out, "\n2 a") {
		t.Errorf("an equal partition is shown: %s", out)
	}
	for code, v := range map[int]*client.Verification{0: {}, 1: v, 4: {Unreachable: 2}} {
		var told bytes.Buffer
		a := &app{&cli.App{ErrOut: &told}}
		if got := cli.ExitCode((clusterCommands{a}).verdict(v)); got != code || (code != 0) != strings.Contains(told.String(), "missing guarantee") {
			t.Errorf("%+v: exit code %d, %s", v, got, told.String())
		}
	}
}

// TestANodeThatIsDownTakesALine: it has a replica of nearly every partition, and the others
// of those are equal.
func TestANodeThatIsDownTakesALine(t *testing.T) {
	v := &client.Verification{Unreachable: 64}
	for id := range uint32(64) {
		v.Partitions = append(v.Partitions, &nornv1.VerifiedPartition{Id: id, Unreachable: true, Replicas: []*nornv1.ReplicaState{
			{Node: "a", Facts: 3}, {Node: "b", Facts: 3}, {Node: "c", Problem: "it does not answer"},
		}})
	}
	var b bytes.Buffer
	verificationTable(&b, v)
	if out := single(b.String()); strings.Count(out, "\n") > 8 || !strings.HasSuffix(out, "\nc 0 1 2 3 4 5 6 7 and 56 more it does not answer\n") {
		t.Errorf("got %s", out)
	}
}
