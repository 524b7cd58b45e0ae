package register

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// numbered gives a member of its own incarnation.
func numbered(n int) Member {
	m := Member{Node: fmt.Sprintf("n%05d", n)}
	binary.LittleEndian.PutUint64(m.Incarnation[:], uint64(n)+1)
	return m
}

// TestLimitsOfARecord: what a peer may make every node hold for ever is bounded, and
// what is there already may be changed at the bound.
func TestLimitsOfARecord(t *testing.T) {
	s := First(Cluster{ID: UUID{1}, Partitions: 1}, Node{Member: numbered(0)})
	for n, want := range map[int]bool{MaxCohort: true, MaxCohort + 1: false} {
		c := Change{Old: s.Cells[0], New: Cell{Epoch: 1, Nonce: 1}}
		for i := range n {
			c.New.Cohort = append(c.New.Cohort, numbered(i))
		}
		if _, res, _ := s.Apply(&Request{Changes: []Change{c}}); res.Won[0] != want {
			t.Errorf("a cohort of %d: %v", n, res.Won[0])
		}
	}
	s.Queues, s.Values, s.Names = map[string]Queue{}, map[string]Value{}, map[string]Name{}
	for n := range MaxNamed {
		s.Queues[fmt.Sprint(n)], s.Values[fmt.Sprint(n)] = Queue{Version: 1}, Value{Version: 1}
	}
	for n := range MaxNames {
		s.Names[fmt.Sprint(n)] = Name{Version: 1, Data: []byte("x")}
	}
	_, res, _ := s.Apply(&Request{
		Queues: []QueueChange{{Name: "one more", Settings: []byte("s")}, {Name: "1", Old: 1, Settings: []byte("t")}},
		Values: []ValueChange{{Name: "one more"}, {Name: "1", Old: 1}},
		Names:  []NameChange{{Name: "one more", Data: []byte("x")}, {Name: "1", Old: 1, Data: []byte("y")}},
	})
	for what, won := range map[string][]bool{"queues": res.QueuesWon, "values": res.ValuesWon, "names": res.NamesWon} {
		if won[0] || !won[1] {
			t.Errorf("%s at the limit: one more %v, a change %v", what, won[0], won[1])
		}
	}
}

// TestANameHasOneMember: also while the one that has it hands over what it holds.
func TestANameHasOneMember(t *testing.T) {
	for _, status := range []NodeStatus{Joining, Active, Leaving, Removed} {
		old, next := numbered(0), numbered(1)
		next.Node = old.Node
		s := First(Cluster{ID: UUID{1}, Partitions: 1}, Node{Member: numbered(7)})
		s.Nodes = []Node{{Member: old, Version: 1, Status: status}, {Member: next, Version: 1, Status: Joining}, s.Nodes[0]}
		_, res, _ := s.Apply(&Request{Nodes: []NodeChange{{Old: 1, New: Node{Member: next, Status: Active}}}})
		if want := status == Joining || status == Removed; res.NodesWon[0] != want {
			t.Errorf("while the other one is %v it becomes a member: %v", status, res.NodesWon[0])
		}
	}
}

// TestTheFirstRemovedIsForgotten: a node that was removed last is the one that may come
// back with the only copy of something.
func TestTheFirstRemovedIsForgotten(t *testing.T) {
	s := First(Cluster{ID: UUID{1}, Partitions: 1}, Node{Member: numbered(99_999)})
	self := s.Nodes
	s.Nodes = nil
	for n := range MaxRemoved {
		s.Nodes = append(s.Nodes, Node{Member: numbered(n), Version: 1, Status: Removed, Changed: uint64(10 + (n+500)%MaxRemoved)})
	}
	last := numbered(MaxRemoved)
	s.Nodes = append(append(s.Nodes, Node{Member: last, Version: 1, Status: Active}), self...)
	s.Revision = 10_000
	next, res, _ := s.Apply(&Request{Nodes: []NodeChange{{Old: 1, New: Node{Member: last, Status: Removed}}}})
	if !res.NodesWon[0] || len(next.Nodes) != MaxRemoved+1 {
		t.Fatalf("won %v, %d nodes", res.NodesWon, len(next.Nodes))
	}
	first := numbered(MaxRemoved - 500)
	if _, there := next.Find(first); there {
		t.Errorf("%s, which was removed first, is remembered", first.Node)
	}
	if _, there := next.Find(last); !there {
		t.Errorf("%s, which was removed last, is forgotten", last.Node)
	}
}

// TestAForcedRegisterKeepsOneMember: all others count as removed, whatever they were.
func TestAForcedRegisterKeepsOneMember(t *testing.T) {
	s := First(Cluster{ID: UUID{1}, Partitions: 1}, Node{Member: numbered(0)})
	for n, status := range []NodeStatus{Joining, Active, Leaving, Removed} {
		s.Nodes = append(s.Nodes, Node{Member: numbered(n + 1), Version: 3, Status: status, Changed: 1})
	}
	next := s.Restored(Node{Member: numbered(0)})
	for _, n := range next.Nodes {
		if want := map[bool]NodeStatus{true: Active, false: Removed}[n.Member == numbered(0)]; n.Status != want {
			t.Errorf("%s is %v", n.Node, n.Status)
		}
	}
	if len(next.Members) != 1 || next.Members[0] != numbered(0) {
		t.Errorf("members: %v", next.Members)
	}
}
