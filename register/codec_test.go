package register

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"
)

func drawMember(t *rapid.T) Member {
	n := rapid.IntRange(1, 5).Draw(t, "node")
	return Member{Node: fmt.Sprintf("n%d", n), Incarnation: Incarnation{byte(n), byte(rapid.IntRange(0, 1).Draw(t, "inc"))}}
}

func drawRequest(t *rapid.T) (q Request) {
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		q.Changes = append(q.Changes, Change{
			Partition: ring.Partition(rapid.IntRange(0, 5).Draw(t, "partition")),
			Old:       Cell{Epoch: rapid.Uint64Range(0, 3).Draw(t, "old"), Nonce: rapid.Uint64Range(0, 1).Draw(t, "nonce")},
			New:       Cell{Epoch: rapid.Uint64Range(0, 4).Draw(t, "new"), Nonce: rapid.Uint64Range(0, 1).Draw(t, "nonce"), Cohort: []Member{drawMember(t)}, Leader: drawMember(t)},
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "queues") {
		q.Queues = append(q.Queues, QueueChange{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"), Old: rapid.Uint64Range(0, 2).Draw(t, "old"), Settings: rapid.SampledFrom([][]byte{nil, []byte("s")}).Draw(t, "settings")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "nodes") {
		q.Nodes = append(q.Nodes, NodeChange{Old: rapid.Uint64Range(0, 4).Draw(t, "old"), New: Node{
			Member: drawMember(t), Addresses: []string{"a:1"}, Zone: "z", Weight: 3, Status: NodeStatus(rapid.IntRange(1, 4).Draw(t, "status")),
		}})
	}
	for range rapid.IntRange(0, 2).Draw(t, "names") {
		c := NameChange{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Old: rapid.Uint64Range(0, 9).Draw(t, "old"), Other: rapid.Bool().Draw(t, "other")}
		if rapid.Bool().Draw(t, "held") {
			c.Data = []byte("h")
		}
		q.Names = append(q.Names, c)
	}
	if rapid.Bool().Draw(t, "more") {
		q.Values = []ValueChange{{Name: "gc-grace", Old: rapid.Uint64Range(0, 2).Draw(t, "old"), Data: []byte("1h")}}
		q.Plan = &PlanChange{Old: rapid.Uint64Range(0, 2).Draw(t, "old"), Data: []byte{1}}
	}
	if rapid.Bool().Draw(t, "replicas") {
		q.Replicas = &ReplicasChange{Old: rapid.IntRange(0, 5).Draw(t, "old"), New: rapid.IntRange(0, ring.MaxReplicas+1).Draw(t, "new")}
	}
	drawSchedules(t, &q)
	return q
}

func encoded(s *State) []byte {
	var w wire.Writer
	AppendState(&w, s)
	return w.B
}

// TestApply holds the replicated machine to its laws over random requests:
// what a state was stays, epochs rise, versions rise, one member per name,
// removed is final, and a state and a request survive their encoding.
func TestApply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := First(Cluster{ID: UUID{1}, Partitions: 4, Replicas: 3}, Node{Member: Member{Node: "n1", Incarnation: Incarnation{1}}, Weight: 1})
		model := map[string]*Schedule{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			q := drawRequest(t)
			var w wire.Writer
			AppendRequest(&w, &q)
			r := wire.NewReader(w.B)
			if back := ReadRequest(r); r.End() != nil || !reflect.DeepEqual(back, q) {
				t.Fatalf("a request %+v became %+v", q, back)
			}
			before := encoded(&s)
			next, res, changed := s.Apply(&q)
			if !bytes.Equal(before, encoded(&s)) {
				t.Fatal("a state changed under its holder")
			}
			lawful(t, &s, &next, &q, &res, changed)
			lawfulSchedules(t, model, &s, &next, &q, &res)
			b := encoded(&next)
			r = wire.NewReader(b)
			if back := ReadState(r); r.End() != nil || !bytes.Equal(encoded(&back), b) || !reflect.DeepEqual(back.Members, next.Members) {
				t.Fatalf("a state %+v became %+v", next, back)
			}
			s = next
		}
	})
}

func lawful(t *rapid.T, s, next *State, q *Request, res *Result, changed bool) {
	if changed != (next.Revision == s.Revision+1) || !changed && next.Revision != s.Revision {
		t.Fatalf("changed is %v, the revision went from %d to %d", changed, s.Revision, next.Revision)
	}
	cluster := s.Cluster
	if c := q.Replicas; c != nil && c.Old == cluster.Replicas && c.New != c.Old && c.New >= 1 && c.New <= ring.MaxReplicas {
		cluster.Replicas = c.New
	}
	if next.Cluster != cluster || res.ReplicasWon != (cluster != s.Cluster) {
		t.Fatalf("%+v of %+v: %+v, won %v", q.Replicas, s.Cluster, next.Cluster, res.ReplicasWon)
	}
	for p := range s.Cells {
		old, now := s.Cells[p], next.Cells[p]
		if now.Epoch < old.Epoch || now.Epoch == old.Epoch && !reflect.DeepEqual(old, now) {
			t.Fatalf("K1: cell %d went from %+v to %+v", p, old, now)
		}
	}
	for i, c := range q.Changes { // a single change is decided by the state before
		if len(q.Changes) == 1 && int(c.Partition) < len(s.Cells) {
			want := s.Cells[c.Partition].Same(&c.Old) && c.New.Epoch > c.Old.Epoch
			if res.Won[i] != want {
				t.Fatalf("change %+v of %+v: won %v", c, s.Cells[c.Partition], res.Won[i])
			}
		}
	}
	named := map[string]int{}
	for _, n := range next.Nodes {
		if n.Status == Active || n.Status == Leaving {
			named[n.Node]++
		}
		if named[n.Node] > 1 {
			t.Fatalf("two members are called %s: %+v", n.Node, next.Nodes)
		}
		old, _ := s.Find(n.Member)
		if old.Status == Removed && !reflect.DeepEqual(old, n) {
			t.Fatalf("a removed node went from %+v to %+v", old, n)
		}
	}
}

func TestRestoredLeavesNothingAhead(t *testing.T) {
	a, b := Member{"a", Incarnation{1}}, Member{"b", Incarnation{2}}
	s := First(Cluster{ID: UUID{1}, Partitions: 2, Replicas: 3}, Node{Member: a})
	s, _, _ = s.Apply(&Request{
		Changes: []Change{{Partition: 1, New: Cell{Epoch: 7, Cohort: []Member{a, b}, Leader: b, Nonce: 3}}},
		Nodes:   []NodeChange{{New: Node{Member: b, Status: Joining}}, {Old: 1, New: Node{Member: b, Status: Active}}},
	})
	for _, self := range []Member{a, {"c", Incarnation{3}}} {
		n := s.Restored(Node{Member: self})
		if n.Generation != 1 || n.Cells[1].Epoch != 7+1<<20 || n.Cells[1].Leader != (Member{}) || n.Cells[1].Same(&s.Cells[1]) {
			t.Fatalf("restored: generation %d, cell %+v", n.Generation, n.Cells[1])
		}
		if len(n.Cells[1].Cohort) != 2 {
			t.Fatal("the cohort, which says who may hold data, is gone")
		}
		if !reflect.DeepEqual(n.Members, []Member{self}) {
			t.Fatalf("members are %v, want %v alone", n.Members, self)
		}
		if old, _ := n.Find(b); old.Status != Removed {
			t.Fatalf("the other node is %v", old.Status)
		}
		r := s.Rebuilt(Node{Member: self}, 4, 0)
		if r.Generation != 4 || r.Cells[1].Epoch != 7+4<<20 || !reflect.DeepEqual(r.Cells[1].Cohort, []Member{self}) || r.Cells[1].Leader != (Member{}) {
			t.Fatalf("rebuilt: generation %d, cell %+v", r.Generation, r.Cells[1])
		}
		if s.Generation != 0 || s.Cells[1].Epoch != 7 || len(s.Cells[1].Cohort) != 2 || s.Nodes[1].Status != Active {
			t.Fatal("the state before was written")
		}
	}
}

func TestNodesTakeAName(t *testing.T) {
	old, young := Member{"a", Incarnation{1}}, Member{"a", Incarnation{2}}
	s := First(Cluster{Partitions: 1}, Node{Member: old})
	set := func(version uint64, n Node) bool {
		next, res, _ := s.Apply(&Request{Nodes: []NodeChange{{Old: version, New: n}}})
		s = next
		return res.NodesWon[0]
	}
	if set(0, Node{Member: young, Status: Active}) {
		t.Error("a node became a member without joining")
	}
	if !set(0, Node{Member: young, Status: Joining}) {
		t.Error("a node under a name in use may wait, and was refused")
	}
	if set(1, Node{Member: young, Status: Active}) {
		t.Error("two members of one name")
	}
	if !set(1, Node{Member: old, Status: Removed}) || !set(1, Node{Member: young, Status: Active}) {
		t.Error("the name did not pass on")
	}
	if set(2, Node{Member: old, Status: Joining}) || set(2, Node{Member: old, Status: Active}) {
		t.Error("a removed incarnation came back")
	}
	if set(0, Node{Member: Member{"b", Incarnation{2, 0, 0, 0, 0, 0, 0, 0, 9}}, Status: Joining}) {
		t.Error("two nodes with one ID in the group")
	}
}

func FuzzReadState(f *testing.F) {
	s := First(Cluster{ID: UUID{1}, Partitions: 2, Replicas: 3}, Node{Member: Member{"n1", Incarnation{1}}, Addresses: []string{"a:1"}})
	f.Add(encoded(&s))
	s, _, _ = s.Apply(&Request{Queues: []QueueChange{{Name: "q", Settings: []byte("x")}}, Plan: &PlanChange{Data: []byte{1}}, Values: []ValueChange{{Name: "v"}}})
	f.Add(encoded(&s))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		s := ReadState(r)
		if r.End() != nil {
			return
		}
		again := encoded(&s)
		r = wire.NewReader(again)
		if back := ReadState(r); r.End() != nil || !bytes.Equal(encoded(&back), again) {
			t.Fatal("what was read cannot be written and read again")
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	var w wire.Writer
	AppendRequest(&w, &Request{Changes: []Change{{Partition: 1, New: Cell{Epoch: 1, Leader: Member{"n", Incarnation{}}}}}, Plan: &PlanChange{}})
	f.Add(w.B)
	w.B = nil
	AppendRequest(&w, &Request{Replicas: &ReplicasChange{Old: 3, New: 5}})
	f.Add(w.B)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		q := ReadRequest(r)
		if r.End() != nil {
			return
		}
		var w, again wire.Writer
		AppendRequest(&w, &q)
		r = wire.NewReader(w.B)
		back := ReadRequest(r)
		if AppendRequest(&again, &back); r.End() != nil || !bytes.Equal(w.B, again.B) {
			t.Fatal("what was read cannot be written and read again")
		}
	})
}
