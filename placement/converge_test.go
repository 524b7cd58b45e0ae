package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

func TestThreeFiveThree(t *testing.T) {
	s := newSim(t, 1, 64, 3, "")
	s.settle()
	s.converged()
	for _, n := range []string{"b", "c"} {
		s.join(n, "", 100)
		s.settle()
		s.converged()
	}
	s.join("d", "", 100)
	s.run(3 * time.Second)
	s.join("e", "", 100)
	s.settle()
	s.converged()
	for _, n := range s.nodes[1:3] {
		s.set(n.member, register.Leaving)
	}
	s.settle()
	if stuck := s.converged(); len(stuck) != 0 {
		t.Errorf("stuck: %v", stuck)
	}
	for _, n := range s.nodes[1:3] {
		if got := s.status(n.member); got != register.Removed {
			t.Errorf("%s is %v", n.member.Node, got)
		}
	}
}

// replicas has an operator set how many replicas there are to be. With fewer of
// them the loss of fewer disks is survived, also by what is there.
func (s *sim) replicas(n int) {
	s.apply(&register.Request{Replicas: &register.ReplicasChange{Old: s.state.Cluster.Replicas, New: n}})
	for _, facts := range s.facts {
		for _, f := range facts {
			f.safe = min(f.safe, quorum.Majority(n))
		}
	}
}

// TestReplicasChange: 1, 3, 5, 3, 1, with nodes for all of them and before each step is
// done; then more than there are nodes, and a node more, which makes up for it. By the
// plan each step moves what it has to: a copy for each replica more, none for one less.
func TestReplicasChange(t *testing.T) {
	s := newSim(t, 3, 32, 1, "")
	for _, name := range []string{"b", "c", "d", "e"} {
		s.join(name, "", 100)
	}
	s.settle()
	write := func() {
		for p := range s.facts {
			s.write(ring.Partition(p))
		}
	}
	want := func(n int) {
		t.Helper()
		s.converged()
		s.kept()
		for p := range s.state.Cells {
			if got := len(s.state.Cells[p].Cohort); got != n {
				t.Fatalf("partition %d has %d replicas, not %d", p, got, n)
			}
		}
	}
	want(1)
	for _, n := range []int{3, 5, 3, 1} {
		write()
		before, is := See(s.state, nil), s.state.Cluster.Replicas
		s.replicas(n)
		plan, err := See(s.state, nil).Foresee(false)
		added := 0
		for _, m := range ring.Moves(before.Plan(), plan) {
			added += len(m.Added)
		}
		if least := 32 * max(0, n-is); err != nil || added < least || added > least+8 {
			t.Errorf("from %d to %d replicas: %d copies to make, %v", is, n, added, err)
		}
		s.run(2 * time.Second)
		write()
		s.settle()
		want(n)
	}
	s.replicas(5)
	s.run(3 * time.Second)
	write()
	s.replicas(2) // before that is done
	s.settle()
	want(2)
	s.replicas(7)
	s.settle()
	want(5)
	s.join("f", "", 100)
	s.settle()
	want(6)
}

// operator does something to a cluster, at random.
func (s *sim) operator(t *rapid.T) {
	in := s.in()
	n := rapid.SampledFrom(in).Draw(t, "node")
	status := s.status(n.member)
	switch rapid.SampledFrom([]string{"join", "join", "leave", "back", "kill", "return", "replace", "remove", "replicas", "write", "write", "write", "wait", "wait"}).Draw(t, "what") {
	case "join":
		if len(in) < 7 {
			zone := rapid.SampledFrom([]string{"", "", "x", "y", "z"}).Draw(t, "zone")
			s.join(fmt.Sprintf("n%d", s.incarnations), zone, rapid.SampledFrom([]uint32{100, 100, 100, 50, 200, 0}).Draw(t, "weight"))
		}
	case "leave":
		if status == register.Active {
			s.set(n.member, register.Leaving)
		}
	case "back":
		if status == register.Leaving {
			s.set(n.member, register.Active)
		}
	case "kill":
		n.up = false
	case "return":
		n.back()
	case "replace":
		if !n.up {
			s.join(n.member.Node, "", 100)
		}
	case "remove":
		if !n.up && len(in) > 1 {
			s.set(n.member, register.Removed)
		}
	case "replicas":
		s.replicas(rapid.IntRange(1, 5).Draw(t, "replicas"))
	case "write":
		for p := range s.facts {
			s.write(ring.Partition(p))
		}
	case "wait":
		s.run(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	}
	s.run(time.Duration(rapid.IntRange(0, 3).Draw(t, "ticks")) * time.Duration(tick))
}

// back starts a node again: it leads nothing and remembers nothing.
func (n *fake) back() {
	if !n.up {
		n.up, n.driver, n.seen = true, New(n.driver.cfg), 0
		clear(n.leads)
		clear(n.copies)
	}
}

// Whatever happens to a cluster: once it is left alone with all that is not
// removed alive, cells become as planned and nothing changes any more, but for
// partitions whose holders were removed, which wait until they are given up.
// All the while every change of a cell keeps the rule of cohorts and what was
// acknowledged (judge), and no cell is without a leader for long (watch).
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t, rapid.Uint64().Draw(t, "seed"), 8, rapid.SampledFrom([]int{1, 2, 3, 3, 3, 4, 5}).Draw(t, "replicas"), "")
		s.lose = rapid.SampledFrom([]int{0, 0, 20}).Draw(t, "lost")
		s.delay = rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second}).Draw(t, "delay")
		s.twins = rapid.SampledFrom([]bool{false, false, true}).Draw(t, "twins")
		s.silent = rapid.Bool().Draw(t, "silent")
		for range rapid.IntRange(0, 40).Draw(t, "deeds") {
			s.operator(t)
		}
		s.lose, s.twins = 0, false
		for _, n := range s.in() {
			n.back()
		}
		if !slices.ContainsFunc(s.state.Nodes, func(n register.Node) bool { return n.Status == register.Active && n.Weight > 0 }) {
			s.join("last", "", 100)
		}
		s.settle()
		if len(s.converged()) > 0 {
			var gone []register.Member
			for _, n := range s.nodes {
				gone = append(gone, n.member)
			}
			r, ok := Lost(s.state, gone...)
			if !ok {
				t.Fatalf("partitions are stuck, and nobody is lost")
			}
			s.apply(&r)
			s.settle()
			if stuck := s.converged(); len(stuck) > 0 {
				t.Fatalf("still stuck: %v", stuck)
			}
		}
		s.kept()
		for _, n := range s.state.Nodes {
			if n.Status == register.Leaving {
				t.Fatalf("%s never gets away", n.Node)
			}
		}
	})
}
