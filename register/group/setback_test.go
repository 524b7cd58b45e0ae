package group

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

// disk is a copy of what a node has on disk now.
func (n *simNode) disk() *memstore.Mem {
	to := memstore.New()
	var b storeBatch
	for k, v := range n.store.Scan(nil, nil) {
		b.Set(k, v)
	}
	to.Commit(&b)()
	return to
}

// restart starts a node again, on another disk where one is given.
func (n *simNode) restart(on *memstore.Mem) {
	n.crash()
	if on != nil {
		n.store = on
	}
	n.err = nil
	n.start()
}

// TestWhoStartsHearsTheLeaderBeforeItVotes: of three voters one is cut off from the
// leader, and another one, whose disk was set back, is asked for its vote as soon as
// it has started. What the leader has committed with it would be gone.
func TestWhoStartsHearsTheLeaderBeforeItVotes(t *testing.T) {
	s := newSim(t, 31)
	s.grow(3)
	l := s.leader()
	var others []*simNode
	for _, n := range s.nodes {
		if n != l {
			others = append(others, n)
		}
	}
	forgetful, apart := others[0], others[1]
	old := forgetful.disk()
	for _, way := range [][2]string{{l.self.Node, apart.self.Node}, {apart.self.Node, l.self.Node}} {
		s.cut[way] = true
	}
	s.fill(l, 0, 20, 10)
	to := [2]string{l.self.Node, forgetful.self.Node}
	s.cut[to] = true
	forgetful.restart(old)
	for range 25 { // the leader's connection takes its time
		apart.feed(Campaign{})
		s.run(20*time.Millisecond, nil)
	}
	delete(s.cut, to)
	s.must(5*time.Second, "found out", func() bool { return forgetful.err != nil })
	if !errors.Is(forgetful.err, ErrForgot) {
		t.Fatal(forgetful.err)
	}
	clear(s.cut)
	if res := s.do(apart, register.Request{}); len(res.State.Values) < 20 {
		t.Fatalf("of 20 values that were set, there are %d", len(res.State.Values))
	}
	if l.err != nil || apart.err != nil {
		t.Fatal(l.err, apart.err)
	}
}

// TestTheOnlyVoterThatHearsOfALeaderHasForgotten: the first node of a group comes back
// on the disk of when it was alone, and is a majority by itself. Nobody can lead
// a group, or know more of its log, without its only voter.
func TestTheOnlyVoterThatHearsOfALeaderHasForgotten(t *testing.T) {
	for _, asked := range []bool{false, true} { // by a candidate that knows more
		s := newSim(t, 32)
		a := s.add(s.name(1)).format()
		s.fill(a, 0, 3, 10)
		old := a.disk()
		b, c := s.add(s.name(2)).join(), s.add(s.name(3)).join()
		s.invite(a, b)
		s.invite(a, c)
		s.must(20*time.Second, "three", func() bool { return s.settled(3, 3) })
		s.fill(a, 3, 7, 10)
		a.crash()
		s.must(10*time.Second, "led by another", func() bool { l := s.leader(); return l != nil && l != a })
		s.fill(s.leader(), 10, 10, 10)
		b.restart(nil) // whoever knew how often it had started has forgotten that
		c.restart(nil)
		clear(s.led) // a forgetful node may lead a term once more
		if asked {
			a.restart(old)
			b.feed(Campaign{})
			s.must(2*time.Second, "found out when somebody stands", func() bool { return a.err != nil })
		} else {
			s.must(10*time.Second, "led", func() bool { return s.leader() != nil })
			a.restart(old)
			s.must(2*time.Second, "found out when somebody leads", func() bool { return a.err != nil })
		}
		if !errors.Is(a.err, ErrForgot) {
			t.Fatal(a.err)
		}
		s.must(10*time.Second, "led", func() bool { return s.leader() != nil })
		s.do(s.leader(), register.Request{}) // the others go on
	}
}

// TestTwoVotersSetBackOneAfterTheOther: both are found out, and nothing is decided by
// what they have forgotten. The third, with no majority left, has everything: an
// operator has it begin the register anew.
func TestTwoVotersSetBackOneAfterTheOther(t *testing.T) {
	s := newSim(t, 33)
	s.grow(3)
	l := s.leader()
	var others []*simNode
	var old []*memstore.Mem
	for _, n := range s.nodes {
		if n != l {
			others, old = append(others, n), append(old, n.disk())
		}
	}
	s.fill(l, 0, 20, 10)
	for i, n := range others {
		n.restart(old[i])
		s.must(5*time.Second, "found out", func() bool { return n.err != nil })
		if !errors.Is(n.err, ErrForgot) {
			t.Fatal(n.err)
		}
	}
	l.crash()
	state, err := Export(l.store)
	if err != nil || len(state.Values) != 20 {
		t.Fatalf("of 20 values there are %d: %v", len(state.Values), err)
	}
}

// TestWhoIsTakenForATwinByTheLeaderAloneHasForgotten: a member starts for the second time, and its
// disk is set back to the first. It starts for the second time once more, which the leader takes
// for another process in its place. The others have started since and know of none, so that no
// second one says so: it neither ended nor followed the leader, for ever.
func TestWhoIsTakenForATwinByTheLeaderAloneHasForgotten(t *testing.T) {
	s := newSim(t, 34)
	s.grow(5)
	l := s.leader()
	forgetful := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	old := forgetful.disk()
	forgetful.restart(nil)
	s.run(5*time.Second, nil)
	s.fill(l, 0, 20, 10)
	s.run(time.Second, nil)
	forgetful.crash()
	for _, n := range s.nodes {
		if n != l && n != forgetful {
			n.restart(nil)
			s.run(5*time.Second, nil)
		}
	}
	if s.leader() != l {
		t.Fatal("another one leads, and nobody remembers the member")
	}
	forgetful.restart(old)
	s.must(10*time.Second, "found out", func() bool { return forgetful.err != nil })
	if !errors.Is(forgetful.err, ErrForgot) {
		t.Fatal(forgetful.err)
	}
	s.do(l, register.Request{}) // the others go on
}
