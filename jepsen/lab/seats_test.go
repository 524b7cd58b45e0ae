package lab

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWhoGoesOnWithoutTheRegister: who leads goes on where it reaches a majority of its
// cohort, itself among them.
func TestWhoGoesOnWithoutTheRegister(t *testing.T) {
	l := &lab{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		l.nodes = append(l.nodes, &process{name: name})
	}
	n := group{&nemesis{lab: l}}
	all := n.seatsOf(&nornv1.StatusReply{Partitions: []*nornv1.PartitionStatus{
		{Id: 0, Epoch: 7, Leader: "a", Cohort: []string{"a", "b", "c"}},
		{Id: 1, Epoch: 8, Leader: "b", Cohort: []string{"a", "b", "c"}},
		{Id: 2, Epoch: 9, Leader: "c", Cohort: []string{"c", "d", "e"}},
		{Id: 3, Epoch: 1, Leader: "", Cohort: []string{"c", "d", "e"}},
	}})
	if len(all) != 4 || all[0].epoch != 7 || all[2].leader != l.nodes[2] || len(all[3].cohort) != 3 || all[3].leader != nil {
		t.Fatalf("the seats are %+v", all)
	}
	some := func(names ...int) (dead []*process) {
		for _, i := range names {
			dead = append(dead, l.nodes[i])
		}
		return dead
	}
	for _, c := range []struct {
		what  string
		reach func(a, b *process) bool
		want  int
	}{
		{"nobody is dead", among(nil), 3},
		{"a leader is dead", among(some(0)), 2},
		{"a follower of two is dead", among(some(2)), 2},
		{"two of each are dead", among(some(0, 2)), 0},
		{"each is alone", func(a, b *process) bool { return a == b }, 0},
	} {
		if got := len(kept(all, c.reach)); got != c.want {
			t.Errorf("%s: %d go on, want %d", c.what, got, c.want)
		}
	}
	if others := n.rest(some(1, 3)); len(others) != 3 || others[1] != l.nodes[2] || len(l.nodes) != 5 {
		t.Errorf("beside two of five there are %s", names(others))
	}
}

// TestADiskIsSlowInOneDirectory, and elsewhere as it was; what was late is counted.
func TestADiskIsSlowInOneDirectory(t *testing.T) {
	m := &mood{}
	m.slow("register", time.Millisecond)
	for _, c := range []struct {
		call, dir string
		want      int64
	}{{"fsync", "facts", 0}, {"write", "register", 0}, {"fsync", "register", 1}, {"fsync", "register", 2}} {
		if errno := m.of(c.call, c.dir); errno != 0 || m.tardy.Load() != c.want {
			t.Errorf("%s in %s: error %d, %d were late, want %d", c.call, c.dir, errno, m.tardy.Load(), c.want)
		}
	}
	m.slow("", 0)
	if _ = m.of("fsync", "register"); m.tardy.Load() != 2 {
		t.Error("it is slow for ever")
	}
	m.set("", 1, time.Millisecond)
	if _ = m.of("fsync", "facts"); m.tardy.Load() != 3 {
		t.Error("a disk that is slow everywhere is not slow in one directory")
	}
	for path, want := range map[string]string{"register/000001.log": "register", "register": "register", "a/b/c": "a", "": ""} { // Any order: each is one.
		if got := top(path); got != want {
			t.Errorf("the first directory of %q is %q", path, got)
		}
	}
}
