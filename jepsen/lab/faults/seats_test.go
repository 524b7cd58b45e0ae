package faults

import (
	"testing"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWhoGoesOnWithoutTheRegister: who leads goes on where it reaches a majority of its
// cohort, itself among them.
func TestWhoGoesOnWithoutTheRegister(t *testing.T) {
	l := &cluster.Lab{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		l.Nodes = append(l.Nodes, &cluster.Process{Name: name})
	}
	n := group{&nemesis{Lab: l}}
	all := n.seatsOf(&nornv1.StatusReply{Partitions: []*nornv1.PartitionStatus{
		{Id: 0, Epoch: 7, Leader: "a", Cohort: []string{"a", "b", "c"}},
		{Id: 1, Epoch: 8, Leader: "b", Cohort: []string{"a", "b", "c"}},
		{Id: 2, Epoch: 9, Leader: "c", Cohort: []string{"c", "d", "e"}},
		{Id: 3, Epoch: 1, Leader: "", Cohort: []string{"c", "d", "e"}},
	}})
	if len(all) != 4 || all[0].epoch != 7 || all[2].leader != l.Nodes[2] || len(all[3].cohort) != 3 || all[3].leader != nil {
		t.Fatalf("the seats are %+v", all)
	}
	some := func(names ...int) (dead []*cluster.Process) {
		for _, i := range names {
			dead = append(dead, l.Nodes[i])
		}
		return dead
	}
	for _, c := range []struct {
		what  string
		reach func(a, b *cluster.Process) bool
		want  int
	}{
		{"nobody is dead", among(nil), 3},
		{"a leader is dead", among(some(0)), 2},
		{"a follower of two is dead", among(some(2)), 2},
		{"two of each are dead", among(some(0, 2)), 0},
		{"each is alone", func(a, b *cluster.Process) bool { return a == b }, 0},
	} {
		if got := len(kept(all, c.reach)); got != c.want {
			t.Errorf("%s: %d go on, want %d", c.what, got, c.want)
		}
	}
	if others := n.rest(some(1, 3)); len(others) != 3 || others[1] != l.Nodes[2] || len(l.Nodes) != 5 {
		t.Errorf("beside two of five there are %s", cluster.Names(others))
	}
}

// TestFaultsByName: names are unique, each says what it is about, and one that
// is not there is an error.
func TestFaultsByName(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		if seen[f.Name] || f.About == "" || f.run == nil && f.Needs == nil {
			t.Errorf("fault %q", f.Name)
		}
		seen[f.Name] = true
	}
	if all, err := Find("kill,mix"); err != nil || len(all) < 10 {
		t.Errorf("got %d, %v", len(all), err)
	}
	if _, err := Find("nothing-like-it"); err == nil {
		t.Error("a fault that is not there is found")
	}
}
