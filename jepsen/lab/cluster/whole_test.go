package cluster

import (
	"fmt"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWholeClusters says what a cluster lacks.
func TestWholeClusters(t *testing.T) {
	good := func() *nornv1.StatusReply {
		s := &nornv1.StatusReply{Voters: []string{"n1", "n2", "n3"}}
		for n := range 3 {
			s.Nodes = append(s.Nodes, &nornv1.NodeStatus{Name: fmt.Sprintf("n%d", n+1), State: "up", Vnodes: Partitions})
		}
		for p := range Partitions {
			s.Partitions = append(s.Partitions, &nornv1.PartitionStatus{
				Id: uint32(p), Cohort: []string{"n1", "n2", "n3"}, Leader: "n1", EnqueueAvailable: true, ClaimAvailable: true,
			})
		}
		return s
	}
	if why := Lacks(good(), 3); why != "" {
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
		if Lacks(s, 3) == "" {
			t.Errorf("%s: it is called whole", what)
		}
	}
}
