package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// A newcomer under the name of a dead node gets that node's partitions, and
// nothing else moves.
func TestReplacement(t *testing.T) {
	s := settled(t, 5, 64)
	before := s.state
	old := s.nodes[2]
	for p := range s.facts {
		s.write(ring.Partition(p))
	}
	old.up = false
	s.run(20 * time.Second)
	young := s.join("c", "", 100)
	s.settle()
	if stuck := s.converged(); len(stuck) > 0 {
		t.Fatalf("stuck: %v", stuck)
	}
	s.kept()
	had := 0
	for p := range s.state.Cells {
		was := before.Cells[p].Cohort
		if i := slices.Index(was, old.member); i >= 0 {
			was = slices.Concat(was[:i], was[i+1:], []register.Member{young.member})
			had++
		}
		for _, m := range s.state.Cells[p].Cohort {
			if !slices.Contains(was, m) {
				t.Errorf("partition %d of %s came to %s", p, names(was), names(s.state.Cells[p].Cohort))
			}
		}
	}
	if had == 0 {
		t.Error("it had nothing; the test shows nothing")
	}
}

// Without a spare node the cohorts of a removed one shrink, after Settle, and
// one after the other down to a single node; a node that joins fills them.
func TestRemovedWithoutSpare(t *testing.T) {
	s := settled(t, 3, 16)
	size := func(want int) {
		t.Helper()
		for p := range s.state.Cells {
			if got := len(s.state.Cells[p].Cohort); got != want {
				t.Fatalf("partition %d has %d members, want %d", p, got, want)
			}
		}
	}
	for left := 2; left > 0; left-- {
		s.write(0)
		n := s.nodes[left]
		n.up = false
		s.run(time.Minute)
		size(left + 1) // dead, and nobody has removed it
		s.set(n.member, register.Removed)
		s.settle()
		size(left)
	}
	s.kept()
	s.join("d", "", 100)
	s.settle()
	size(2)
	s.converged()
}

// Two of three removed at once: what only they had seen may be missing, so the
// cells wait, readable, until an operator gives the two up.
func TestMajorityRemoved(t *testing.T) {
	s := settled(t, 3, 16)
	for _, n := range s.nodes[1:] {
		n.up = false
		s.set(n.member, register.Removed)
	}
	s.join("d", "", 100)
	s.settle()
	if got := len(s.converged()); got != 16 {
		t.Fatalf("%d of 16 wait", got)
	}
	if got := See(s.state, s.alive()).Progress(); got.Stuck != 16 || got.Copies != 16 {
		t.Errorf("progress %+v", got)
	}
	r, ok := Lost(s.state, s.nodes[1].member, s.nodes[2].member)
	if !ok {
		t.Fatal("nobody is given up")
	}
	s.apply(&r)
	s.settle()
	if stuck := s.converged(); len(stuck) > 0 {
		t.Errorf("stuck: %v", stuck)
	}
}

// TestTheLastOneGoesOnAtOnce: two of three are given up and nobody else is there. The cells are
// the third one's as soon as that is said, and nothing is left to move: each of the two took ten
// seconds, and what they were to hand over was waited for.
func TestTheLastOneGoesOnAtOnce(t *testing.T) {
	s := settled(t, 3, 16)
	for _, n := range s.nodes[1:] {
		n.up = false
		s.set(n.member, register.Removed)
	}
	s.run(time.Minute)
	r, _ := Lost(s.state, s.nodes[1].member, s.nodes[2].member)
	s.apply(&r)
	s.run(2 * time.Second)
	for p := range s.state.Cells {
		if got := s.state.Cells[p].Cohort; len(got) != 1 || got[0] != s.nodes[0].member {
			t.Fatalf("partition %d has %v", p, got)
		}
	}
	for _, n := range See(s.state, s.alive()).Progress().Nodes {
		if n.In+n.Out > 0 {
			t.Errorf("%s: %+v", n.Member.Node, n)
		}
	}
}

// Three zones of two nodes: every cohort is in all of them, also when a zone's
// nodes are replaced by one, and with two zones both have a replica.
func TestZones(t *testing.T) {
	s := newSim(t, 3, 64, 3, "x")
	for i, name := range []string{"b", "c", "d", "e", "f"} {
		s.join(name, []string{"x", "y", "y", "z", "z"}[i], 100)
	}
	zones := func(want int) {
		t.Helper()
		s.settle()
		s.converged()
		for p := range s.state.Cells {
			in := map[string]bool{}
			for _, m := range s.state.Cells[p].Cohort {
				n, _ := s.state.Find(m)
				in[n.Zone] = true
			}
			if len(in) != want {
				t.Fatalf("partition %d is in %d zones, want %d", p, len(in), want)
			}
		}
	}
	zones(3)
	s.set(s.nodes[4].member, register.Leaving)
	zones(3)
	s.set(s.nodes[5].member, register.Leaving)
	zones(2)
}

// Leaving is taken back: what had not moved yet stays, and the rest comes back.
func TestLeavingTakenBack(t *testing.T) {
	s := settled(t, 5, 64)
	n := s.nodes[1]
	s.silent = true
	s.set(n.member, register.Leaving)
	s.run(2 * time.Second)
	s.set(n.member, register.Active)
	s.settle()
	s.converged()
	if s.leads()["b"] == 0 {
		t.Error("it leads nothing")
	}
}

// The last nodes of a cluster are not removed, whatever they are told.
func TestEverybodyLeaves(t *testing.T) {
	s := settled(t, 3, 16)
	for _, n := range s.nodes {
		s.set(n.member, register.Leaving)
	}
	s.settle()
	if got := len(s.in()); got == 0 {
		t.Error("nobody is left")
	}
}

// A leaving node goes when it asks, which it does when it has handed over what
// it had. If it never asks it goes after Linger, in which it and the others were
// alive: it may have the only copy of something.
func TestLinger(t *testing.T) {
	s := settled(t, 5, 16)
	n, other := s.nodes[3], s.nodes[4]
	s.silent = true
	s.set(n.member, register.Leaving)
	empty := func() bool { _, ok := See(s.state, nil).Leave(n.member); return ok }
	for !empty() {
		s.run(time.Duration(tick))
	}
	removed := func(want bool) {
		t.Helper()
		if got := s.status(n.member) == register.Removed; got != want {
			t.Errorf("removed: %v", got)
		}
	}
	away := func(f *fake, d time.Duration) {
		f.up = false
		s.run(d)
		f.back()
	}
	s.run(29 * time.Second)
	away(n, time.Minute)
	s.run(29 * time.Second)
	away(other, 9*time.Second) // what it leads takes no tasks
	s.run(29 * time.Second)
	removed(false)
	s.run(2 * time.Second)
	removed(true)
	n = other
	s.silent = false
	s.set(n.member, register.Leaving)
	for !empty() {
		s.run(time.Duration(tick))
	}
	s.run(3 * time.Second)
	removed(true) // it asked
}
