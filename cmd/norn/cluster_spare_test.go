package main

import (
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestSafeToStop: the only node of a cluster is needed, with how many partitions need it, and a
// node that nobody knows is named.
func TestSafeToStop(t *testing.T) {
	to := []string{"NORN_ADDR=" + the.server.addr}
	r := nornWith(t, "", to, "cluster", "safe-to-stop")
	if r.code != 1 || !strings.Contains(r.err, "without it") || !strings.Contains(r.err, "the register would have none") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := nornWith(t, "", to, "cluster", "safe-to-stop", "nobody"); r.code != 3 || !strings.Contains(r.err, "no node nobody") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	s := &nornv1.StatusReply{Node: "n1", Nodes: []*nornv1.NodeStatus{
		{Name: "n1", Incarnation: "01", State: "up", NeededBy: 1}, {Name: "n2", Incarnation: "02", State: "up"}, {Name: "n3", Incarnation: "03", State: "joining"},
	}, Partitions: make([]*nornv1.PartitionStatus, 4)}
	for args, want := range map[string]string{"": "1 partition of 4 would have no majority in reach", "n2": "", "02": "", "n3": ""} {
		n, err := toBeStopped(s, strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := neededFor(n, s); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}
