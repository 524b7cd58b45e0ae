package group

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
)

// spare makes members that have a record and no process.
func (s *sim) spare(count int) []register.Member {
	s.t.Helper()
	var out []register.Member
	for i := range count {
		m := s.name(100 + i)
		res := s.do(s.leader(), register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: m, Status: register.Joining}}}})
		if !res.NodesWon[0] || !s.set(s.leader(), m, register.Active) {
			s.fatalf("%v is no member", m)
		}
		out = append(out, m)
	}
	return out
}

// names is a change of a cell to a cohort, and removes is a removal; both as a node sees
// the register at the time.
func names(s *register.State, cohort ...register.Member) register.Request {
	old := s.Cells[0]
	return register.Request{Changes: []register.Change{{Old: old, New: register.Cell{Epoch: old.Epoch + 1, Nonce: old.Nonce + 1, Cohort: cohort}}}}
}

func removes(s *register.State, m register.Member) register.Request {
	n, _ := s.Find(m)
	return register.Request{Nodes: []register.NodeChange{{Old: n.Version, New: withStatus(n, register.Removed)}}}
}

// TestTheCohortOfSeed465139: a change of a cohort to a node that was removed while the
// change was on its way is refused, whoever sends it and wherever the removal is.
func TestTheCohortOfSeed465139(t *testing.T) {
	for name, c := range map[string]struct {
		leads   bool // the leader itself asks for the change
		applied bool // the removal is applied by then
	}{"leader, applied": {true, true}, "leader, in the log": {true, false}, "follower, applied": {false, true}, "follower, in the log": {false, false}} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 465139)
			s.grow(3)
			l := s.leader()
			asks := l
			if !c.leads {
				asks = s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
			}
			gone := s.spare(1)[0]
			before := l.machine.State()
			voted := names(&before, s.name(1), gone)
			var removed, res *register.Result
			l.ask(removes(&before, gone), func(r register.Result) { removed = &r })
			if c.applied {
				s.must(5*time.Second, "removed", func() bool { return removed != nil })
			}
			asks.ask(voted, func(r register.Result) { res = &r })
			s.must(5*time.Second, "answered", func() bool { return removed != nil && res != nil })
			if removed.Err != nil || !removed.NodesWon[0] || res.Err != nil || res.Won[0] || !res.State.Cells[0].Same(&before.Cells[0]) {
				t.Fatalf("removed %+v; then the change: won %v, error %v, %+v", removed.NodesWon, res.Won, res.Err, res.State.Cells[0])
			}
			after := l.machine.State()
			if r := s.do(asks, names(&after, s.name(1), s.name(2))); !r.Won[0] {
				t.Errorf("another cohort is refused, too: %+v", r.State.Cells[0])
			}
		})
	}
}

// TestANewLeaderKnowsOfRemovalsBeforeIt: of what is in its log from earlier terms it has
// not looked at anything before it has applied it.
func TestANewLeaderKnowsOfRemovalsBeforeIt(t *testing.T) {
	for _, own := range []bool{true, false} { // the new leader asks, or the other follower
		s := newSim(t, 33)
		s.grow(3)
		l, gone := s.leader(), s.spare(1)[0]
		before := l.machine.State()
		s.run(time.Second, nil)
		s.eaten = func(m *Message) bool { return m.To == l.self } // it never hears that the others have it
		l.ask(removes(&before, gone), func(register.Result) {})
		s.run(50*time.Millisecond, nil)
		l.crash()
		s.must(10*time.Second, "another leader", func() bool { return s.leader() != nil })
		n := s.leader()
		if state := n.machine.State(); state.Revision != before.Revision || n.machine.disk.last() <= n.machine.applied {
			t.Fatalf("the removal is not just in the log: revision %d, %d of %d applied", state.Revision, n.machine.applied, n.machine.disk.last())
		}
		asks := n
		if !own {
			asks = s.nodes[slices.IndexFunc(s.nodes, func(o *simNode) bool { return o != n && o != l })]
		}
		var res *register.Result
		asked := s.now
		asks.ask(names(&before, s.name(1), gone), func(r register.Result) { res = &r })
		s.must(5*time.Second, "answered", func() bool { return res != nil })
		if r, _ := res.State.Find(gone); r.Status != register.Removed || res.Won[0] || !res.State.Cells[0].Same(&before.Cells[0]) {
			t.Errorf("the node is %v; the change: won %v, %+v", r.Status, res.Won, res.State.Cells[0])
		}
		if d := time.Duration(s.now - asked); own && d > 100*time.Millisecond {
			t.Errorf("it was answered after %v: kept until it was sent again", d)
		}
	}
}

// TestARemovalThatLostBarsNobody: what a leader keeps back for a removal in its log it
// takes again when the removal has come to nothing.
func TestARemovalThatLostBarsNobody(t *testing.T) {
	s := newSim(t, 31)
	s.grow(3)
	l, m := s.leader(), s.spare(1)[0]
	before := l.machine.State()
	late := removes(&before, m)
	if !s.set(l, m, register.Leaving) {
		t.Fatal("it does not leave")
	}
	if r := s.do(l, late); r.NodesWon[0] {
		t.Fatal("the removal of an older record has won")
	}
	now := l.machine.State()
	if r := s.do(l, names(&now, s.name(1), m)); !r.Won[0] {
		t.Errorf("refused: %+v", r.State.Cells[0])
	}
	if len(l.machine.screen.leaving) > 0 {
		t.Errorf("still remembered: %v", l.machine.screen.leaving)
	}
}

// TestACohortKeepsARemovedMember: the leader of its partition moves away from there step
// by step, and may be elected anew before.
func TestACohortKeepsARemovedMember(t *testing.T) {
	s := newSim(t, 32)
	s.grow(3)
	l, m := s.leader(), s.spare(1)[0]
	for _, q := range []func(*register.State) register.Request{
		func(st *register.State) register.Request { return names(st, s.name(1), m) },
		func(st *register.State) register.Request { return removes(st, m) },
		func(st *register.State) register.Request { return names(st, s.name(1), m) },
	} {
		now := l.machine.State()
		if r := s.do(l, q(&now)); slices.Contains(append(r.Won, r.NodesWon...), false) {
			t.Fatalf("lost: %+v", r.State.Cells[0])
		}
	}
}

// TestNoCohortGetsARemovedMember in a storm: removals and changes of cohorts meet each
// other on every way, through leaders that have just been elected and with messages lost.
func TestNoCohortGetsARemovedMember(t *testing.T) {
	refused, written := 0, 0
	for seed := range uint64(12) {
		s := newSim(t, 600+seed)
		s.grow(3)
		spares := s.spare(10)
		s.loss, s.double = 0.05, 0.02
		last := map[*simNode]register.State{}
		s.saw = func(n *simNode, state *register.State) {
			old, ok := last[n]
			last[n] = *state
			if !ok || old.Revision+1 != state.Revision {
				return // from a snapshot, or since a restart
			}
			for p := range state.Cells {
				for _, m := range state.Cells[p].Cohort {
					if r, _ := old.Find(m); r.Status == register.Removed && !slices.Contains(old.Cells[p].Cohort, m) {
						s.fatalf("revision %d of %s gives partition %d to %s, which was removed", state.Revision, n.self.Node, p, m.Node)
					}
				}
			}
		}
		for _, m := range spares {
			for range 4 { // tries that meet the one removal
				if n := s.nodes[s.rand.IntN(3)]; n.machine != nil {
					state := n.machine.State()
					n.ask(names(&state, s.name(1), m), func(r register.Result) {
						switch {
						case r.Err != nil:
						case r.Won[0]:
							written++
						case r.State.Cells[0].Same(&state.Cells[0]):
							refused++
						}
					})
				}
				s.run(time.Duration(s.rand.Int64N(int64(8*time.Millisecond))), nil)
				if n := s.nodes[s.rand.IntN(3)]; n.machine != nil && s.rand.IntN(3) == 0 {
					state := n.machine.State()
					n.ask(removes(&state, m), func(register.Result) {})
				}
			}
			if l := s.leader(); l != nil && s.rand.IntN(2) == 0 {
				l.crash()
				s.after(int64(time.Second), func() { l.start() })
			}
			s.run(2*time.Second, nil)
		}
	}
	if refused < 10 || written < 10 {
		t.Errorf("%d changes were refused and %d written: too few to say anything", refused, written)
	}
	t.Logf("%d refused, %d written", refused, written)
}

// TestADamagedRemovalIsPassedOver: what could be read of a command that cannot be read to its
// end was noted as a removal in the log, in a map that a new leader has not made yet.
func TestADamagedRemovalIsPassedOver(t *testing.T) {
	s := newSim(t, 32)
	s.grow(3)
	l, m := s.leader(), s.spare(1)[0]
	now := l.machine.State()
	c := command{request: removes(&now, m)}
	l.machine.screen = screen{} // as that of a leader which has seen nothing yet
	if _, data, v := l.machine.screen.look(l.machine, append(c.encode(), 0)); v != accepted || len(data) == 0 {
		t.Fatalf("verdict %v", v)
	}
	got, _, _ := l.machine.screen.look(l.machine, append(c.encode(), 0))
	l.machine.screen.logged(&got)
	if len(l.machine.screen.leaving) > 0 {
		t.Errorf("it counts as one that removes %v", l.machine.screen.leaving)
	}
}
