package group

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
)

// TestALeaderSetBack: of what a leader has written, one follower has everything and
// another one, which was cut off, nothing. The leader's disk is set back. It must not
// vote for the one that was cut off, nor be voted for by it.
func TestALeaderSetBack(t *testing.T) {
	for _, stands := range []string{"the other", "itself"} {
		s := newSim(t, 35)
		s.grow(3)
		l := s.leader()
		var others []*simNode
		for _, n := range s.nodes {
			if n != l {
				others = append(others, n)
			}
		}
		keeper, apart := others[0], others[1]
		old := l.disk()
		s.part(apart, l, keeper)
		s.fill(l, 0, 20, 10)
		l.restart(old)
		clear(s.cut)
		s.part(apart, keeper)
		// The keeper's word is on its way when the others would agree.
		for range 300 {
			if l.machine == nil {
				break
			}
			if stands == "itself" {
				l.feed(Campaign{})
			} else {
				apart.feed(Campaign{})
			}
			s.run(10*time.Millisecond, nil)
		}
		if !errors.Is(l.err, ErrForgot) {
			t.Fatalf("%s stood; the leader that was set back ends with %v", stands, l.err)
		}
		clear(s.cut)
		if res := s.do(keeper, register.Request{}); len(res.State.Values) < 20 {
			t.Fatalf("%s stood; of 20 values that were set, there are %d", stands, len(res.State.Values))
		}
	}
}

// part cuts one node off from others.
func (s *sim) part(n *simNode, from ...*simNode) {
	for _, o := range from {
		s.cut[[2]string{n.self.Node, o.self.Node}], s.cut[[2]string{o.self.Node, n.self.Node}] = true, true
	}
}

// TestAVoteThatWasForgotten: a voter has voted in a term, and its disk is set back to
// before that. Whoever got the vote has not written anything since that would show it.
func TestAVoteThatWasForgotten(t *testing.T) {
	s := newSim(t, 36)
	s.grow(3)
	l := s.leader()
	var others []*simNode
	for _, n := range s.nodes {
		if n != l {
			others = append(others, n)
		}
	}
	voter, candidate := others[0], others[1]
	l.crash()
	s.run(900*time.Millisecond, nil)
	if s.leader() != nil {
		t.Fatal("elected before the test is ready")
	}
	old := voter.disk()
	term := candidate.machine.Status().Term
	// The vote is given, and nothing of the leader arrives.
	s.eaten = func(m *Message) bool { return m.To == voter.self && s.leader() != nil }
	candidate.feed(Campaign{})
	s.must(5*time.Second, "elected", func() bool { return s.leader() == candidate })
	if got := candidate.machine.Status().Term; got <= term {
		t.Fatalf("elected in term %d", got)
	}
	voter.crash()
	s.eaten = nil
	voter.store = old
	voter.start()
	s.must(time.Second, "found out", func() bool { return voter.err != nil })
	if !errors.Is(voter.err, ErrForgot) {
		t.Fatal(voter.err)
	}
}

// TestWhoIsGivenTheLeadAfterASetBack: a leader that wants another one to lead has it
// stand at once. Whoever has just started waits for what the others know of its disk.
func TestWhoIsGivenTheLeadAfterASetBack(t *testing.T) {
	s := newSim(t, 37)
	s.grow(3)
	l := s.leader()
	next := s.nodes[0]
	if next == l {
		next = s.nodes[1]
	}
	old := next.disk()
	s.fill(l, 0, 20, 10)
	term := l.machine.Status().Term
	s.eaten = func(m *Message) bool { return m.To == next.self } // but for what gives the lead
	next.restart(old)
	for range 20 {
		next.feed(Received{timeoutNow(l, next, term)})
		s.run(20*time.Millisecond, nil)
	}
	if next.machine == nil {
		t.Fatal(next.err)
	}
	if st := next.machine.Status(); st.Leads || st.Term > term {
		t.Fatalf("it stood in term %d, leads: %t", st.Term, st.Leads)
	}
	s.eaten = nil
	s.must(5*time.Second, "found out", func() bool { return next.err != nil })
}

// TestTheOnlyVoterOfTwoSetBack: of two nodes one votes, and the other one has what it
// wrote. Set back, the voter would lead at once and write something else.
func TestTheOnlyVoterOfTwoSetBack(t *testing.T) {
	for _, also := range []bool{false, true} { // the other one has started again, too
		s := newSim(t, 38)
		a := s.add(s.name(1)).format()
		b := s.add(s.name(2)).join()
		s.invite(a, b)
		s.must(20*time.Second, "two", func() bool { return s.settled(2, 1) })
		old := a.disk()
		s.fill(a, 0, 20, 10)
		s.run(time.Second, nil) // the learner hears what is decided
		if also {
			b.restart(nil)
			s.run(time.Second, nil)
		}
		clear(s.led)
		a.restart(old)
		s.must(5*time.Second, "found out", func() bool { return a.err != nil })
		if !errors.Is(a.err, ErrForgot) {
			t.Fatal(a.err)
		}
		state, err := Export(b.store)
		if err != nil || len(state.Values) != 20 {
			t.Fatalf("of 20 values the learner has %d: %v", len(state.Values), err)
		}
	}
}

// TestTheOnlyVoterLeadsSoonAfterItsStart: it asks the others, and does not wait longer
// than it has to.
func TestTheOnlyVoterLeadsSoonAfterItsStart(t *testing.T) {
	s := newSim(t, 39)
	a := s.add(s.name(1)).format()
	b := s.add(s.name(2)).join()
	s.invite(a, b)
	s.must(20*time.Second, "two", func() bool { return s.settled(2, 1) })
	a.restart(nil)
	s.must(100*time.Millisecond, "leading again", func() bool { return s.leader() == a })
	b.crash()
	a.restart(nil)
	s.must(1100*time.Millisecond, "leading without the other", func() bool { return s.leader() == a })
}

// TestOneSetBackToBeforeItsFirstStart: a voter comes back on the disk of before it had
// a register. Nobody remembers how often it had started.
func TestOneSetBackToBeforeItsFirstStart(t *testing.T) {
	s := newSim(t, 40)
	s.grow(3)
	l := s.leader()
	var others []*simNode
	for _, n := range s.nodes {
		if n != l {
			others = append(others, n)
		}
	}
	empty, apart := others[0], others[1]
	s.part(apart, l)
	s.fill(l, 0, 20, 10)
	l.restart(nil)
	apart.restart(nil)
	empty.crash()
	s.run(20*time.Millisecond, nil) // what was on its way is gone
	empty.boot++
	fresh := s.add(empty.self)
	s.nodes = s.nodes[:len(s.nodes)-1]
	empty.store, empty.err = fresh.store, nil
	empty.join()
	for range 8 {
		apart.feed(Campaign{})
		s.run(100*time.Millisecond, nil)
		if got := s.leader(); got == apart {
			t.Fatal("who was cut off leads with the vote of a disk that is empty")
		}
	}
}

// timeoutNow is the message that has another one stand at once.
func timeoutNow(from, to *simNode, term uint64) []byte {
	body, err := proto.Marshal(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), From: new(from.machine.id), To: new(to.machine.id), Term: new(term)})
	if err != nil {
		panic(err)
	}
	m := from.machine
	gen, _ := m.generation()
	e := envelope{cluster: m.meta.cluster, generation: gen, from: m.cfg.Self, life: m.life, to: to.self.Incarnation, kind: kindRaft, body: body}
	return e.encode()
}
