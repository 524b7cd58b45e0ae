package group

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
)

// TestLearnersHearSeldom: what the leader of an idle group says does not grow by ten heartbeats a
// second with each member that only learns, nor do those lose it, and what is decided comes to them
// as soon as to the others.
func TestLearnersHearSeldom(t *testing.T) {
	const members, voters, seconds = 30, 5, 20
	s := newSim(t, 1)
	s.grow(members)
	s.run(5*time.Second, nil)
	leader, sent := s.leader(), 0
	s.eaten = func(m *Message) bool {
		if m.To != leader.self {
			sent++
		}
		return false
	}
	lost := 0
	for range 10 * seconds {
		s.run(100*time.Millisecond, nil)
		for _, n := range s.nodes {
			if who, _ := n.machine.Leader(); who != leader.self {
				lost++
			}
		}
	}
	if each := float64(sent) / seconds; each > 10*(voters-1)+1.5*(members-voters) {
		t.Errorf("the leader sends %.0f messages a second to %d voters and %d learners", each, voters-1, members-voters)
	}
	if lost > 0 {
		t.Errorf("%d times a member knew of no leader", lost)
	}
	s.eaten = nil
	if r := s.do(leader, register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: s.name(members + 1), Status: register.Joining}}}}); !r.NodesWon[0] {
		t.Fatal("not written")
	}
	s.must(200*time.Millisecond, "known to all", func() bool {
		for _, n := range s.nodes {
			st := n.machine.State()
			if _, known := st.Find(s.name(members + 1)); !known {
				return false
			}
		}
		return true
	})
}

// TestLearnersFindTheNextLeader when the one that they heard of has gone.
func TestLearnersFindTheNextLeader(t *testing.T) {
	s := newSim(t, 2)
	s.grow(12)
	s.run(5*time.Second, nil)
	old := s.leader()
	old.crash()
	s.must(8*time.Second, "followed by all", func() bool {
		next := s.leader()
		if next == nil || next == old {
			return false
		}
		for _, n := range s.nodes {
			if n.machine != nil {
				if who, _ := n.machine.Leader(); who != next.self {
					return false
				}
			}
		}
		return true
	})
}

// TestManyJoinAtOnce: nodes that come together are let in together; it was one after the other.
func TestManyJoinAtOnce(t *testing.T) {
	const joiners = 19
	s := newSim(t, 3)
	s.cfg.Stable = time.Second
	s.add(s.name(1)).format()
	for i := 2; i <= joiners+1; i++ {
		s.invite(s.nodes[0], s.add(s.name(i)).join())
	}
	began := s.now
	s.must(30*time.Second, "let in", func() bool {
		l := s.leader()
		return l != nil && len(l.machine.State().Members) == joiners+1
	})
	if took := time.Duration(s.now - began); took > 5*time.Second {
		t.Errorf("%d nodes were let in after %v", joiners, took)
	}
	s.must(15*time.Second, "settled", func() bool { return s.settled(joiners+1, 5) })
}

// TestStatusIsNotMadeAnewEachTime: it is asked for after each turn.
func TestStatusIsNotMadeAnewEachTime(t *testing.T) {
	s := newSim(t, 4)
	s.grow(20)
	m := s.leader().machine
	m.Status()
	if n := testing.AllocsPerRun(100, func() { m.Status() }); n > 1 {
		t.Errorf("%.0f allocations where nothing has changed", n)
	}
	if st := m.Status(); len(st.Voters) != 5 || len(st.Learners) != 15 {
		t.Errorf("%d voters, %d learners", len(st.Voters), len(st.Learners))
	}
}

// TestWhoRunsLateWaitsLonger: a process that gets the processor late does not take the place of a
// leader whose word waits to be heard.
func TestWhoRunsLateWaitsLonger(t *testing.T) {
	s := newSim(t, 5)
	s.grow(3)
	s.run(2*time.Second, nil)
	var n *simNode
	for _, o := range s.nodes {
		if o != s.leader() {
			n = o
		}
	}
	m := n.machine
	before := m.timers.patience(m)
	m.timers.draw(m)
	at := m.timers.campaignAt
	late := clock.Time{Mono: at + int64(300*time.Millisecond)}
	if err := m.Step(late, Tick{}); err != nil {
		t.Fatal(err)
	}
	if m.timers.term != m.node.BasicStatus().GetTerm() || m.timers.campaignAt <= late.Mono-int64(300*time.Millisecond) || m.timers.vote == m.id {
		t.Errorf("it stands at once, %v late", 300*time.Millisecond)
	}
	if after := m.timers.patience(m); after < 2*before {
		t.Errorf("it waits for %v, and %v before it was late", time.Duration(after), time.Duration(before))
	}
	for range 200 {
		if err := m.Step(clock.Time{Mono: m.now + 1}, Tick{}); err != nil {
			t.Fatal(err)
		}
	}
	if after := m.timers.patience(m); after != before {
		t.Errorf("it goes on waiting for %v", time.Duration(after))
	}
}
