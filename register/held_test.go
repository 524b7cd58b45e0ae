package register

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/register/wire"
)

// among gives a state with one member and some other nodes.
func among(nodes ...Node) State {
	s := First(Cluster{ID: UUID{1}, Partitions: 1}, Node{Member: numbered(0)})
	s.Nodes = append(s.Nodes, nodes...)
	return s
}

// TestARecordIsChangedFromWhatWasRead: of its version, and to a status that may follow.
func TestARecordIsChangedFromWhatWasRead(t *testing.T) {
	const none = NodeStatus(0)
	ways := map[[2]NodeStatus]bool{
		{none, Joining}: true, {Joining, Joining}: true, {Joining, Leaving}: true, {Joining, Active}: true, {Active, Active}: true, {Active, Leaving}: true,
		{Leaving, Active}: true, {Leaving, Leaving}: true, {Joining, Removed}: true, {Active, Removed}: true, {Leaving, Removed}: true,
	}
	for from := none; from <= Removed; from++ {
		for to := Joining; to <= Removed; to++ {
			for _, version := range []uint64{2, 3, 4} {
				s, of := among(), uint64(0)
				if from != none {
					s, of = among(Node{Member: numbered(1), Version: 3, Status: from}), 3
				} else {
					version -= 3 // 0 for none
				}
				_, res, _ := s.Apply(&Request{Nodes: []NodeChange{{Old: version, New: Node{Member: numbered(1), Status: to}}}})
				if want := version == of && ways[[2]NodeStatus{from, to}]; res.NodesWon[0] != want {
					t.Errorf("%v, version %d, becomes %v, from version %d: %v", from, of, to, version, res.NodesWon[0])
				}
			}
		}
	}
}

// TestRecordsThatAreNone: they would be on every node for ever.
func TestRecordsThatAreNone(t *testing.T) {
	long := strings.Repeat("x", 256)
	for what, spoil := range map[string]func(*Node){
		"nothing is wrong":   func(*Node) {},
		"no name":            func(n *Node) { n.Node = "" },
		"a long name":        func(n *Node) { n.Node = long },
		"a long zone":        func(n *Node) { n.Zone = long },
		"a long address":     func(n *Node) { n.Addresses = []string{long} },
		"an address of zero": func(n *Node) { n.Addresses = []string{"a:1", ""} },
		"many addresses":     func(n *Node) { n.Addresses = strings.Split(strings.Repeat("a:1 ", MaxAddresses)+"a:1", " ") },
	} {
		n := Node{Member: numbered(1), Status: Joining}
		spoil(&n)
		if _, res, _ := among().Apply(&Request{Nodes: []NodeChange{{New: n}}}); res.NodesWon[0] != strings.HasPrefix(what, "nothing") {
			t.Errorf("%s: %v", what, res.NodesWon[0])
		}
	}
}

// TestSoManyNodesAreKnown, those that were removed apart, and one that leaves is a member.
func TestSoManyNodesAreKnown(t *testing.T) {
	for _, status := range []NodeStatus{Leaving, Removed} {
		s := among()
		for n := range MaxNodes - 1 {
			s.Nodes = append(s.Nodes, Node{Member: numbered(n + 1), Version: 1, Status: status})
		}
		next, res, _ := s.Apply(&Request{Nodes: []NodeChange{
			{New: Node{Member: numbered(MaxNodes), Status: Joining}},
			{Old: 1, New: Node{Member: numbered(0), Status: Leaving}},
		}})
		if res.NodesWon[0] != (status == Removed) || !res.NodesWon[1] {
			t.Errorf("beside %d that are %v: one more %v, a change %v", MaxNodes-1, status, res.NodesWon[0], res.NodesWon[1])
		}
		if want := map[NodeStatus]int{Leaving: MaxNodes, Removed: 1}[status]; len(next.Members) != want {
			t.Errorf("%d members, not %d", len(next.Members), want)
		}
	}
}

// TestAForcedRegisterGoesOn: it is another state than before, in which the record of the one
// member is another one, too, and no more removed nodes are remembered than anywhere.
func TestAForcedRegisterGoesOn(t *testing.T) {
	s := among(Node{Member: numbered(99_998), Version: 1, Status: Active})
	for n := range MaxRemoved {
		s.Nodes = append(s.Nodes[:n+1], append([]Node{{Member: numbered(n + 1), Version: 1, Status: Removed, Changed: 5}}, s.Nodes[n+1:]...)...)
	}
	s.Revision, s.Nodes[0].Version = 70, 8
	next := s.Restored(Node{Member: numbered(0)})
	if self, _ := next.Find(numbered(0)); next.Revision != 71 || self.Version != 9 || self.Changed != 71 {
		t.Errorf("revision %d, version %d of revision %d", next.Revision, self.Version, self.Changed)
	}
	if len(next.Nodes) != MaxRemoved+1 {
		t.Errorf("%d nodes", len(next.Nodes))
	}
}

// TestLimitsOfBytes: of names, settings, values, the plan, and what is kept of a worker.
func TestLimitsOfBytes(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for more := range 2 {
		name, data := text(MaxName+more), []byte(text(MaxData+more))
		q := &Request{
			Queues: []QueueChange{{Name: name, Settings: []byte("s")}, {Name: "q", Settings: data}},
			Values: []ValueChange{{Name: name}, {Name: "v", Data: data}},
			Names:  []NameChange{{Name: text(MaxHolder + more), Data: []byte("x")}, {Name: "n", Data: []byte(text(MaxNameData + more))}},
			Plan:   &PlanChange{Data: []byte(text(MaxPlan + more))},
		}
		_, res, changed := among().Apply(q)
		for what, won := range map[string][]bool{"queues": res.QueuesWon, "values": res.ValuesWon, "names": res.NamesWon, "plan": {res.PlanWon}} {
			for i, won := range won {
				if won != (more == 0) {
					t.Errorf("%s, number %d, with %d bytes more than there may be: %v", what, i+1, more, won)
				}
			}
		}
		if changed != (more == 0) {
			t.Errorf("with %d bytes more: changed %v", more, changed)
		}
	}
}

// TestTheRegisterKeepsItsOwnBytes: those of a request are somebody else's.
func TestTheRegisterKeepsItsOwnBytes(t *testing.T) {
	b := []byte("a")
	next, _, _ := among().Apply(&Request{
		Queues: []QueueChange{{Name: "q", Settings: b}}, Values: []ValueChange{{Name: "v", Data: b}}, Names: []NameChange{{Name: "n", Data: b}},
		Plan: &PlanChange{Data: b}, Schedules: []ScheduleChange{{Name: "s", Definition: b, State: b}},
	})
	b[0] = 'z'
	s := next.Schedules.Get("s")
	if got := string(next.Queues["q"].Settings) + string(next.Values["v"].Data) + string(next.Names["n"].Data) + string(next.Plan.Data) + string(s.Definition) + string(s.State); got != "aaaaaa" {
		t.Errorf("kept is %q", got)
	}
}

// TestNamesSayWhenTheyHaveChanged, and who has them: every node looks at them by that.
func TestNamesSayWhenTheyHaveChanged(t *testing.T) {
	s := among()
	for i, step := range []struct {
		c              NameChange
		names, holders uint64
		won            bool
	}{
		{NameChange{Name: "a"}, 0, 0, false}, // nobody has it
		{NameChange{Name: "a", Data: []byte("x"), Other: true}, 2, 2, true},
		{NameChange{Name: "a", Old: 2, Data: []byte("y")}, 3, 2, true}, // renewed
		{NameChange{Name: "a", Old: 2, Data: []byte("z"), Other: true}, 3, 2, false},
		{NameChange{Name: "a", Old: 3, Other: true}, 4, 4, true},
	} {
		next, res, changed := s.Apply(&Request{Names: []NameChange{step.c}})
		if res.NamesWon[0] != step.won || changed != step.won || next.NamesAt != step.names || next.HoldersAt != step.holders {
			t.Errorf("step %d: won %v, changed %v, names of %d, holders of %d", i, res.NamesWon[0], changed, next.NamesAt, next.HoldersAt)
		}
		s = next
	}
}

// TestWhatShrinksIsTaken, also where there is more than there may be: else nothing could be
// noted of a launch any more.
func TestWhatShrinksIsTaken(t *testing.T) {
	s := among()
	s, _, _ = s.Apply(&Request{Schedules: []ScheduleChange{{Name: "s", Definition: []byte("dd"), State: []byte("ssss")}}})
	s.Schedules.bytes += MaxScheduleBytes
	for state, want := range map[string]bool{"sss": true, "sssss": false} {
		_, res, _ := s.Apply(&Request{Schedules: []ScheduleChange{{Name: "s", Old: s.Schedules.Get("s").Revision, State: []byte(state)}}})
		if res.SchedulesWon[0] != want {
			t.Errorf("a state of %d bytes after one of 4: %v", len(state), res.SchedulesWon[0])
		}
	}
}

// TestTwoOfOneNameAreDamaged: what is encoded is in order, and each name is there once.
func TestTwoOfOneNameAreDamaged(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "a"}} {
		var holders, schedules wire.Writer
		holders.Uint(1)
		holders.Uint(1)
		holders.Uint(2)
		appendSchedules(&schedules, &State{})
		schedules.B = schedules.B[:len(schedules.B)-1] // their number
		schedules.Uint(2)
		for _, name := range names {
			holders.String(name)
			holders.Uint(1)
			holders.Bytes([]byte("x"))
			schedules.String(name)
			schedules.Uint(1)
			schedules.Bytes(nil)
			schedules.Bytes(nil)
		}
		r := wire.NewReader(holders.B)
		if readNames(r, &State{}); (r.End() == nil) != (names[0] < names[1]) {
			t.Errorf("names %v: %v", names, r.End())
		}
		r = wire.NewReader(schedules.B)
		if readSchedules(r, &State{}); (r.End() == nil) != (names[0] != names[1]) { // which one comes first is by their hashes
			t.Errorf("schedules %v: %v", names, r.End())
		}
	}
}
