package main

import (
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestMovementSaysWhatIsMissing: everything is in its place only where no copy is missing, be
// it that nobody is to make it, and who has forgotten is named.
func TestMovementSaysWhatIsMissing(t *testing.T) {
	status := func(copies ...uint32) *nornv1.StatusReply {
		s := &nornv1.StatusReply{Replicas: 3, Movement: &nornv1.MovementStatus{}}
		for _, state := range []string{"up", "up", "down", "joining", "removed"} {
			s.Nodes = append(s.Nodes, &nornv1.NodeStatus{Name: state, State: state})
		}
		for _, n := range copies {
			s.Partitions = append(s.Partitions, &nornv1.PartitionStatus{Copies: n})
		}
		return s
	}
	two := status(2, 2)
	two.Nodes = two.Nodes[:2]
	left := status(2)
	left.Movement.CopiesLeft = 2
	for want, s := range map[string]*nornv1.StatusReply{
		"everything is in its place":                                      status(3, 3),
		"everything is in its place ":                                     two,
		"nothing is to move, but of 1 partition a copy is out of reach":   status(3, 2),
		"nothing is to move, but of 2 partitions copies are out of reach": status(1, 2),
		"2 copies to make":                                                left,
	} {
		if got := movement(s); got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := status(3)
	if got := forgotten(s.Nodes); got != "" {
		t.Error(got)
	}
	s.Nodes[1].Forgot = "n2 has seen more"
	if got := forgotten(s.Nodes); !strings.HasPrefix(got, "up (n2 has seen more): ") {
		t.Error(got)
	}
}
