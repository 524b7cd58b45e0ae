package placement

import (
	"fmt"
	"testing"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// clusterOf is so many active nodes and a plan for them.
func clusterOf(t *testing.T, n int) register.State {
	t.Helper()
	s := register.State{Cluster: register.Cluster{Partitions: 32, Replicas: 3}, Cells: make([]register.Cell, 32)}
	for i := range n {
		m := register.Member{Node: fmt.Sprintf("n%d", i+1), Incarnation: register.Incarnation{byte(i + 1)}}
		s.Nodes = append(s.Nodes, register.Node{Member: m, Version: 1, Weight: 1, Status: register.Active})
	}
	plan, err := See(s, nil).Foresee(true)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan = register.Value{Version: 1, Data: plan.AppendTo(nil)}
	for p := range s.Cells {
		s.Cells[p] = register.Cell{Epoch: 1, Nonce: 1, Cohort: See(s, nil).Planned(ring.Partition(p))}
	}
	return s
}

// TestForesee: a plan that is balanced stays, also one that was made from
// nothing; a node that goes has its share moved and nobody else's.
func TestForesee(t *testing.T) {
	s := clusterOf(t, 5)
	v := See(s, nil)
	if plan, err := v.Foresee(false); err != nil || !plan.Equal(v.Plan()) {
		t.Fatalf("the plan of nothing does not last: %v", err)
	}
	s.Nodes[2].Status = register.Leaving
	next, err := See(s, nil).Foresee(false)
	if err != nil {
		t.Fatal(err)
	}
	held, moved := 0, 0
	for p := range s.Cells {
		for _, m := range v.Planned(ring.Partition(p)) {
			if m == s.Nodes[2].Member {
				held++
			}
		}
	}
	for _, m := range ring.Moves(v.Plan(), next) {
		moved += len(m.Added)
	}
	if held == 0 || moved < held || moved > held+2 {
		t.Errorf("it held %d, and %d move", held, moved)
	}
	for i := range s.Nodes {
		s.Nodes[i].Status = register.Leaving
	}
	if _, err := See(s, nil).Foresee(false); err == nil {
		t.Error("a plan for nobody")
	}
}

func TestDisplace(t *testing.T) {
	s := clusterOf(t, 4)
	v := See(s, nil)
	fresh := register.Member{Node: "n9", Incarnation: register.Incarnation{9}}
	plan, ok := v.Displace(s.Nodes[0].Member, fresh)
	if !ok {
		t.Fatal("not displaced")
	}
	for _, m := range ring.Moves(v.Plan(), plan) {
		if len(m.Added) != 1 || m.Added[0] != toRing(fresh) || m.Removed[0] != toRing(s.Nodes[0].Member) {
			t.Errorf("moves %v", m)
		}
	}
	if _, ok := v.Displace(s.Nodes[0].Member, s.Nodes[1].Member); ok {
		t.Error("by one that has its share")
	}
	if _, ok := v.Displace(fresh, register.Member{Node: "n8"}); ok {
		t.Error("of one that has none")
	}
}

// TestStuck: of three, one may go; of the last one nobody knows what it lacks,
// until the others are given up.
func TestStuck(t *testing.T) {
	s := clusterOf(t, 3)
	for gone, want := range []bool{false, false, true} {
		for i := range gone {
			s.Nodes[i].Status = register.Removed
		}
		if got := See(s, nil).Stuck(4); got != want {
			t.Errorf("with %d gone: stuck %v", gone, got)
		}
	}
	r, ok := Lost(s, s.Nodes[0].Member, s.Nodes[1].Member)
	if next, _, changed := s.Apply(&r); !ok || !changed || See(next, nil).Stuck(4) {
		t.Error("stuck although they are given up")
	}
}

// TestThoseThatTheRegisterHasForgottenAreGivenUp: it remembers so many removed nodes and
// no more, and a partition may have been stuck for long.
func TestThoseThatTheRegisterHasForgottenAreGivenUp(t *testing.T) {
	s := clusterOf(t, 3)
	gone := []register.Member{s.Nodes[0].Member, s.Nodes[1].Member}
	s.Nodes = s.Nodes[2:]
	if !See(s, nil).Stuck(4) {
		t.Fatal("not stuck")
	}
	r, ok := Lost(s, gone...)
	if next, _, changed := s.Apply(&r); !ok || !changed || See(next, nil).Stuck(4) {
		t.Error("stuck although they are given up")
	}
}
