package group

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

func (s *sim) set(by *simNode, m register.Member, status register.NodeStatus) bool {
	s.t.Helper()
	res := s.do(by, register.Request{})
	n, ok := res.State.Find(m)
	if !ok {
		s.fatalf("%v is not known", m)
	}
	old := n.Version
	n.Status = status
	return s.do(by, register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}}).NodesWon[0]
}

func (s *sim) voters() []string {
	l := s.leader()
	if l == nil {
		return nil
	}
	var out []string
	for _, m := range l.machine.Status().Voters {
		out = append(out, fmt.Sprint(m.Node, "/", m.Incarnation[1]))
	}
	return out
}

func TestGroupsGrowAndShrink(t *testing.T) {
	s := newSim(t, 11)
	s.loss = 0.01
	s.grow(7)
	if v := s.voters(); len(v) != 5 {
		t.Fatalf("of seven nodes %v vote", v)
	}
	// Out with whoever leads, again and again, down to one.
	for left := 6; left >= 1; left-- {
		l := s.leader()
		s.set(l, l.self, register.Leaving)
		s.must(20*time.Second, "led by another", func() bool {
			now := s.leader()
			return now != nil && now != l && len(now.machine.Status().Outgoing) == 0 && !slices.Contains(now.machine.Status().Voters, l.self)
		})
		if !s.set(s.leader(), l.self, register.Removed) {
			t.Fatalf("%s was not removed", l.self.Node)
		}
		want := min(5, left)
		if want%2 == 0 {
			want--
		}
		s.must(20*time.Second, "shrunk", func() bool { return s.settled(left, want) })
		s.must(20*time.Second, "forgotten", func() bool { return !slices.Contains(s.leader().machine.Status().Learners, l.self) })
		s.do(s.leader(), value(fmt.Sprint("left", left), 0, nil))
	}
}

// TestOneToThreeNeedsNobody: while two nodes join that are down, the group goes
// on; there is never a configuration of two.
func TestOneToThreeNeedsNobody(t *testing.T) {
	s := newSim(t, 12)
	a := s.add(s.name(1)).format()
	b, c := s.add(s.name(2)).join(), s.add(s.name(3)).join()
	b.crash()
	c.crash()
	s.invite(a, b)
	s.invite(a, c)
	s.fill(a, 0, 20, 10)
	if v := s.voters(); len(v) != 1 {
		t.Fatalf("%v vote", v)
	}
	b.start()
	for range 50 {
		s.run(100*time.Millisecond, nil)
		if v := s.voters(); len(v) != 1 {
			t.Fatalf("%v vote of two members", v)
		}
	}
	c.start()
	s.must(10*time.Second, "three", func() bool { return s.settled(3, 3) })
}

func TestVotersSpreadOverZones(t *testing.T) {
	s := newSim(t, 13)
	zones := []string{"a", "a", "a", "b", "c"}
	s.cfg.Voters = 3
	for i, z := range zones {
		n := s.add(s.name(i + 1))
		n.zone = z
		if i == 0 {
			n.format()
			continue
		}
		s.invite(s.nodes[0], n.join())
	}
	s.must(20*time.Second, "spread", func() bool {
		v := s.voters()
		return s.settled(5, 3) && slices.Contains(v, "n4/0") && slices.Contains(v, "n5/0")
	})
}

// TestADeadVoterIsReplaced by a member that is there, after a time; the dead
// one stays a member.
func TestADeadVoterIsReplaced(t *testing.T) {
	s := newSim(t, 14)
	s.grow(4)
	var dead *simNode
	for _, n := range s.nodes {
		if n != s.leader() && slices.Contains(s.voters(), n.self.Node+"/0") {
			dead = n
		}
	}
	dead.crash()
	s.run(5*time.Second, nil)
	if !slices.Contains(s.voters(), dead.self.Node+"/0") {
		t.Fatal("a vote was lost after five seconds")
	}
	s.must(20*time.Second, "replaced", func() bool { return s.settled(4, 3) && !slices.Contains(s.voters(), dead.self.Node+"/0") })
	dead.start()
	s.must(20*time.Second, "caught up", func() bool { return dead.machine.applied == s.leader().machine.applied })
	s.run(5*time.Second, nil)
	if slices.Contains(s.voters(), dead.self.Node+"/0") {
		t.Fatal("the vote moved back without need")
	}
}

// TestARemovedVoterIsHeardAsLongAsItVotes: of three voters one is dead, and another
// one is removed before the dead one is replaced. Without its vote nobody can ever
// replace the two.
func TestARemovedVoterIsHeardAsLongAsItVotes(t *testing.T) {
	s := newSim(t, 18)
	s.grow(4)
	l := s.leader()
	var others []*simNode
	for _, n := range s.nodes {
		if n != l && slices.Contains(s.voters(), n.self.Node+"/0") {
			others = append(others, n)
		}
	}
	dead, leaves := others[0], others[1]
	dead.crash()
	for _, n := range others {
		if !s.set(l, n.self, register.Removed) {
			t.Fatalf("%s was not removed", n.self.Node)
		}
	}
	s.must(30*time.Second, "replaced", func() bool {
		now := s.leader()
		return now != nil && len(now.machine.Status().Outgoing) == 0 && !slices.Contains(s.voters(), dead.self.Node+"/0") && !slices.Contains(s.voters(), leaves.self.Node+"/0")
	})
	s.must(20*time.Second, "refused", func() bool { return leaves.machine.Status().Refused == RemovedNode })
	s.do(s.leader(), value("v", 0, nil))
}

// TestANewcomerTakesTheNameOfADeadMember, and waits while that one lives.
func TestANewcomerTakesTheNameOfADeadMember(t *testing.T) {
	s := newSim(t, 15)
	s.grow(3)
	l := s.leader()
	old := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	young := s.add(register.Member{Node: old.self.Node, Incarnation: register.Incarnation{old.self.Incarnation[0], 1}}).join()
	s.invite(l, young)
	s.run(10*time.Second, nil)
	if w := l.machine.Status().Waiting; len(w) != 1 || w[0] != young.self {
		t.Fatalf("while the old one lives, %v wait", w)
	}
	if m := l.machine.State().Members; slices.Contains(m, young.self) || !slices.Contains(m, old.self) {
		t.Fatalf("while the old one lives the members are %v", m)
	}
	old.crash()
	s.must(20*time.Second, "replaced", func() bool {
		return s.settled(3, 3) && slices.Contains(s.voters(), young.self.Node+"/1") && !slices.Contains(s.voters(), old.self.Node+"/0")
	})
	if n, _ := s.leader().machine.rep.state.Find(old.self); n.Status != register.Removed {
		t.Fatalf("the old one is %v", n.Status)
	}
	// The old one comes back and is told so.
	old.start()
	s.must(20*time.Second, "refused", func() bool { return old.machine.Status().Refused != 0 })
	if st := old.machine.Status(); st.Refused != RemovedNode && st.Refused != OtherNode || st.Leads {
		t.Fatalf("the old one was refused because %v", st.Refused)
	}
	s.do(young, value("v", 0, nil))
}

// heirs gives a member that does not lead, and what has another one come under its name.
func (s *sim) heirs(l *simNode) (old *simNode, again func(life byte) *simNode) {
	old = s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	return old, func(life byte) *simNode {
		n := s.add(register.Member{Node: old.self.Node, Incarnation: register.Incarnation{old.self.Incarnation[0], life}}).join()
		s.invite(l, n)
		return n
	}
}

// TestOneThatDiedWhileItJoinedGivesWay: the next one under its name becomes a member,
// and nobody waits for the one that is dead any more.
func TestOneThatDiedWhileItJoinedGivesWay(t *testing.T) {
	s := newSim(t, 17)
	s.grow(3)
	l := s.leader()
	old, again := s.heirs(l)
	first := again(1)
	s.run(3*time.Second, nil)
	old.crash()
	first.crash()
	second := again(2)
	s.must(30*time.Second, "replaced", func() bool { return s.settled(3, 3) && slices.Contains(s.voters(), second.self.Node+"/2") })
	for _, n := range []*simNode{old, first} {
		if n, _ := s.leader().machine.rep.state.Find(n.self); n.Status != register.Removed {
			t.Errorf("%v is %v", n.Member, n.Status)
		}
	}
	s.must(20*time.Second, "forgotten", func() bool { return len(s.leader().machine.Status().Learners) == 0 })
	s.do(second, value("v", 0, nil))
}

// TestOneThatDiesWhileAnotherTakesItsPlaceIsForgotten: of two that came for the place of
// a dead member the one that was there a moment ago never came back. The other one got
// the place, and the first was waited for.
func TestOneThatDiesWhileAnotherTakesItsPlaceIsForgotten(t *testing.T) {
	s := newSim(t, 23)
	s.grow(3)
	l := s.leader()
	old, again := s.heirs(l)
	old.crash()
	s.run(time.Duration(l.machine.cfg.Dead)-time.Second, nil)
	first := again(1)
	s.run(10*time.Millisecond, nil) // it has not caught up yet
	first.crash()
	second := again(2)
	status := func(n *simNode) register.NodeStatus {
		found, _ := s.leader().machine.rep.state.Find(n.self)
		return found.Status
	}
	s.must(30*time.Second, "a member", func() bool { return status(second) == register.Active })
	if status(first) != register.Joining {
		t.Fatalf("the first is %v by then", status(first))
	}
	s.must(30*time.Second, "given up", func() bool { return status(first) == register.Removed })
	s.must(30*time.Second, "replaced", func() bool { return s.settled(3, 3) && slices.Contains(s.voters(), second.self.Node+"/2") })
}

// TestOneThatHasJustBeenLetInIsNotDead: it has said nothing yet, and the leader leads
// for long. It lost its place to one under its name that had died, and was no longer
// waited for by then.
func TestOneThatHasJustBeenLetInIsNotDead(t *testing.T) {
	s := newSim(t, 19)
	s.grow(3)
	l := s.leader()
	old, again := s.heirs(l)
	first := again(1)
	s.run(30*time.Second, nil)
	old.crash()
	s.run(time.Duration(l.machine.cfg.Dead)-300*time.Millisecond, nil)
	first.crash() // and becomes a member all the same, because it has just been there
	second := again(2)
	s.cut[[2]string{l.self.Node, second.self.Node}] = true // nothing of it is heard
	s.run(5*time.Second, nil)
	delete(s.cut, [2]string{l.self.Node, second.self.Node})
	s.must(60*time.Second, "replaced", func() bool { return s.settled(3, 3) && slices.Contains(s.voters(), second.self.Node+"/2") })
}

// TestLateWordsOfTheOldOneOutliveNobody: what a member had said before it ended is late,
// and what the one says that came for its place is later. That one was taken for one that
// had died before the old one was started, and was removed.
func TestLateWordsOfTheOldOneOutliveNobody(t *testing.T) {
	s := newSim(t, 29)
	s.grow(3)
	l := s.leader()
	old, again := s.heirs(l)
	second := again(1)
	s.eaten = func(m *Message) bool { return m.To == second.self }
	s.run(time.Duration(l.machine.cfg.Dead)/2, nil)
	old.crash()
	s.run(time.Duration(l.machine.cfg.Dead)/2+200*time.Millisecond, nil)
	s.eaten = nil
	s.must(60*time.Second, "replaced", func() bool { return s.settled(3, 3) && slices.Contains(s.voters(), second.self.Node+"/1") })
}

// TestAnAddressPassesOn likewise.
func TestAnAddressPassesOn(t *testing.T) {
	s := newSim(t, 16)
	s.grow(3)
	l := s.leader()
	old := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	res := s.do(l, register.Request{})
	n, _ := res.State.Find(old.self)
	v := n.Version
	n.Addresses = []string{"10.0.0.1:7711"}
	s.do(l, register.Request{Nodes: []register.NodeChange{{Old: v, New: n}}})
	old.crash()
	young := s.add(s.name(9)).join()
	s.do(l, register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: young.self, Addresses: n.Addresses, Status: register.Joining}}}})
	s.must(20*time.Second, "replaced", func() bool {
		m := l.machine.State().Members
		return slices.Contains(m, young.self) && !slices.Contains(m, old.self)
	})
}

// TestAWipedMajorityIsForced: two of three disks are gone for good.
func TestAWipedMajorityIsForced(t *testing.T) {
	s := newSim(t, 17)
	s.grow(3)
	l := s.leader()
	before := s.do(l, register.Request{}).State
	s.do(l, value("v", 0, []byte("x")))
	cell := register.Cell{Epoch: 6, Cohort: before.Cells[1].Cohort, Leader: l.self, Nonce: 5}
	s.do(l, register.Request{Changes: []register.Change{{Partition: 1, Old: before.Cells[1], New: cell}}})
	for _, n := range s.nodes {
		n.store.Sync()
		n.crash()
	}
	left := s.nodes[2]
	var b storeBatch
	if err := Force(left.store, &b, register.Node{Member: left.self}); err != nil {
		t.Fatal(err)
	}
	left.store.Commit(&b)()
	left.start()
	res := s.do(left, register.Request{}).State
	if res.Generation != 1 || res.Cells[1].Epoch < register.EpochJump || len(res.Members) != 1 {
		t.Fatalf("after forcing: generation %d, cell %+v, members %v", res.Generation, res.Cells[1], res.Members)
	}
	if left == l && res.Values["v"].Version != 1 {
		t.Fatal("what the survivor had is gone")
	}
	// The others were not gone after all. They are a majority of the old group,
	// but none of the new one's life.
	s.nodes[0].start()
	s.must(20*time.Second, "refused", func() bool { return s.nodes[0].machine.Status().Refused != 0 })
	if left.machine.Status().Term == 0 || !left.machine.Status().Leads {
		t.Fatal("the new life was disturbed by the old one")
	}
	// Wiped, it joins again.
	again := s.nodes[1]
	again.self.Incarnation[1] = 1
	again.store = memstore.New()
	again.join()
	s.invite(left, again)
	s.must(20*time.Second, "joined", func() bool { return len(left.machine.State().Members) == 2 })
	if got := s.do(again, register.Request{}).State; got.Generation != 1 {
		t.Fatalf("the newcomer reads generation %d", got.Generation)
	}
}

func TestARestoredBackupIsAnotherLife(t *testing.T) {
	s := newSim(t, 18)
	n := s.add(s.name(1)).format()
	s.do(n, value("v", 0, []byte("x")))
	state, err := Export(n.store)
	if err != nil || state.Values["v"].Version != 1 {
		t.Fatalf("exported %+v, %v", state.Values, err)
	}
	s = newSim(t, 19)
	other := s.add(s.name(2))
	var b storeBatch
	if err := Restore(other.store, &b, state, 3, 42, register.Node{Member: other.self}); err != nil {
		t.Fatal(err)
	}
	other.store.Commit(&b)()
	other.start()
	got := s.do(other, register.Request{}).State
	if got.Cluster.ID != state.Cluster.ID || got.Generation != 3 || got.Cells[0].Epoch != 3*register.EpochJump || got.Values["v"].Version != 1 {
		t.Fatalf("restored %+v", got)
	}
	if g, at := got.LastRebuilt(); g != 3 || at != 42 {
		t.Errorf("rebuilt as generation %d at %d", g, at)
	}
	s.do(other, value("v", 1, nil))
}

// TestACopiedDirectoryIsFoundOut: somebody copies the directory of a running
// member and starts it too.
func TestACopiedDirectoryIsFoundOut(t *testing.T) {
	s := newSim(t, 20)
	s.grow(3)
	l := s.leader()
	original := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	s.must(time.Second, "idle", func() bool { return !original.busy })
	copied := s.add(original.self)
	var b storeBatch
	for k, v := range original.store.Scan(nil, nil) {
		b.Set(k, v)
	}
	copied.store.Commit(&b)()
	copied.start()
	s.must(10*time.Second, "found out", func() bool { return original.err != nil || copied.err != nil })
	// The one that was started last goes on, or what it lacks is found out too.
	if !errors.Is(original.err, ErrTwin) {
		t.Fatalf("the original ends with %v, the copy with %v", original.err, copied.err)
	}
	s.do(l, value("v", 0, nil))
	// The original is started again, and comes to the same number as the copy.
	original.err = nil
	original.start()
	s.must(10*time.Second, "found out", func() bool { return original.err != nil })
	if !errors.Is(original.err, ErrTwin) || copied.err != nil && !errors.Is(copied.err, ErrTwin) {
		t.Fatalf("the original ends with %v, the copy with %v", original.err, copied.err)
	}
	s.do(l, value("w", 0, nil))
}

// TestANewLeaderTakesNobodyForAliveUnheard: of five voters two are dead, and two others
// are to leave. That has to wait for others to vote. A leader that has just come knows
// as little of the dead ones as of those that live; if it took both for healthy it would
// leave the group to one voter that lives and two that are dead, for ever.
func TestANewLeaderTakesNobodyForAliveUnheard(t *testing.T) {
	s := newSim(t, 21)
	s.grow(5)
	l := s.leader()
	var living []*simNode
	for _, n := range s.nodes {
		if n != l && len(living) < 2 {
			living = append(living, n)
		} else if n != l {
			n.crash()
		}
	}
	s.run(10*time.Second, nil)
	for _, n := range living {
		s.set(s.leader(), n.self, register.Leaving)
	}
	for range 5 { // the lead changes, and nobody has heard of the dead ones since
		s.must(20*time.Second, "led", func() bool { return s.leader() != nil })
		s.leader().crash()
		s.run(200*time.Millisecond, nil)
		for _, n := range append(slices.Clone(living), l) {
			if n.machine == nil {
				n.start()
			}
		}
		s.run(5*time.Second, nil)
	}
	s.must(20*time.Second, "led", func() bool { return s.leader() != nil })
	s.do(l, value("goes on", 0, nil))
}
