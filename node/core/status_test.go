package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// status asks a node, and waits for what it asks the others.
func (r *trio) status(i int) *nornv1.StatusReply {
	r.t.Helper()
	from := r.send(i, &nornv1.StatusRequest{})
	r.settle()
	if _, ok := r.peers[i].replies[from]; !ok {
		r.pass(2 * time.Second)
		r.settle()
	}
	reply, ok := r.peers[i].replies[from]
	if !ok || reply.Err != nil {
		r.t.Fatalf("node %d: %v, answered %v", i+1, reply.Err, ok)
	}
	return reply.Message.(*nornv1.StatusReply)
}

// fill puts something into every partition.
func (r *trio) fill() {
	r.t.Helper()
	var tasks []*nornv1.TaskSpec
	for range 50 {
		tasks = append(tasks, spec("q"))
	}
	for _, res := range ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks}).Results {
		if res.Error != nil {
			r.t.Fatal(res.Error)
		}
	}
}

func nodeOf(s *nornv1.StatusReply, name string) *nornv1.NodeStatus {
	at := slices.IndexFunc(s.Nodes, func(n *nornv1.NodeStatus) bool { return n.Name == name })
	if at < 0 {
		return nil
	}
	return s.Nodes[at]
}

// TestStatusOfACluster: every node shows all nodes and partitions, and what is
// left to move.
func TestStatusOfACluster(t *testing.T) {
	r := newGrowing(t)
	if s := r.status(0); len(s.Nodes) != 1 || s.Nodes[0].State != "up" || s.Nodes[0].Led != testPartitions || s.Nodes[0].Vnodes != testPartitions || !s.Register.Majority || s.Node != "n1" {
		t.Fatalf("a cluster of one: %v", s)
	}
	r.fill()
	r.join()
	r.join()
	r.tell()
	moving := r.status(0)
	if m := moving.Movement; m.CopiesLeft == 0 || m.HandoversLeft != 0 || nodeOf(moving, "n3").CopiesLeft == 0 || !moving.Partitions[0].Moving || len(moving.Partitions[0].Planned) != 3 {
		t.Fatalf("while it grows: %v", moving)
	}
	r.run(3)
	for i := range r.peers {
		s := r.status(i)
		led, held := uint32(0), uint32(0)
		for _, n := range s.Nodes {
			led, held = led+n.Led, held+n.Vnodes
			if n.State != "up" || !n.Alive || n.CopiesLeft+n.HandoversLeft != 0 || n.Weight != 1 {
				t.Errorf("node %d shows %v", i+1, n)
			}
		}
		if len(s.Nodes) != 3 || led != testPartitions || held != 3*testPartitions || s.Replicas != 3 || s.Movement.CopiesLeft != 0 || s.Movement.HandedOver != 0 {
			t.Fatalf("node %d: %d nodes lead %d, keep %d: %v", i+1, len(s.Nodes), led, held, s.Movement)
		}
		for _, p := range s.Partitions {
			if p.Moving || p.Copies != 3 || !p.EnqueueAvailable || !p.ClaimAvailable || p.Leader == "" {
				t.Errorf("node %d shows %v", i+1, p)
			}
		}
	}
}

// TestStatusOfADeadNode: it is down, and one that leaves is listed until it is
// gone.
func TestStatusOfADeadNode(t *testing.T) {
	r := newGrowing(t)
	r.fill()
	r.join()
	r.join()
	r.run(3)
	r.kill(2)
	r.tell()
	s := r.status(0)
	if n := nodeOf(s, "n3"); n.State != "down" || n.Alive || n.Vnodes != testPartitions {
		t.Errorf("a dead node: %v", n)
	}
	for _, p := range s.Partitions {
		if p.Copies != 2 || p.ClaimAvailable != (p.Leader != "n3") {
			t.Errorf("with one node dead: %v", p)
		}
	}
	r.open(2)
	r.set(r.peers[2].self, register.Leaving)
	r.tell()
	if n := nodeOf(r.status(0), "n3"); n.State != "leaving" {
		t.Errorf("a node that leaves: %v", n)
	}
	for range 100 {
		r.pass(time.Second)
		r.tell()
		r.settle()
	}
	s = r.status(1)
	if n := nodeOf(s, "n3"); n == nil || n.State != "removed" || n.Vnodes != 0 || n.HandoversLeft != 0 {
		t.Errorf("a node that has left and runs: %v", n)
	}
	if s.Movement.HandedOver != testPartitions {
		t.Errorf("%d partitions were handed over", s.Movement.HandedOver)
	}
	r.kill(2)
	r.tell()
	if s = r.status(1); len(s.Nodes) != 2 {
		t.Errorf("a node that has left: %v", s.Nodes)
	}
	from := r.send(1, &nornv1.StatusRequest{Removed: true})
	r.settle()
	if all := r.peers[1].replies[from].Message.(*nornv1.StatusReply); nodeOf(all, "n3").GetState() != "removed" {
		t.Errorf("asked for all: %v", all.Nodes)
	}
}

// TestStatusDoesNotWaitForTheSilent: a node that hangs is shown as it looks from
// here, after a second.
func TestStatusDoesNotWaitForTheSilent(t *testing.T) {
	r := newGrowing(t)
	r.fill()
	r.join()
	r.run(2)
	r.tell()
	r.cut[[2]int{0, 1}] = true
	from := r.send(0, &nornv1.StatusRequest{})
	r.settle()
	if _, ok := r.peers[0].replies[from]; ok {
		t.Fatal("nobody was asked")
	}
	r.pass(1100 * time.Millisecond)
	s := r.peers[0].replies[from].Message.(*nornv1.StatusReply)
	if len(s.Partitions) != testPartitions {
		t.Errorf("got %v", s)
	}
	// Else what the sums lack would count as done.
	if nodeOf(s, "n1").Repair == nil || nodeOf(s, "n2").Repair != nil || !nodeOf(s, "n2").Alive {
		t.Errorf("who has said what it did of repair: %v", s.Nodes)
	}
	r.cut[[2]int{0, 1}] = false
	r.run(2)
	if s := r.status(0); nodeOf(s, "n1").Repair == nil || nodeOf(s, "n2").Repair == nil {
		t.Errorf("when all answer: %v", s.Nodes)
	}
}

// TestStatusKnowsAddresses: from the nodes themselves, or else from what the
// edge has heard; and who votes.
func TestStatusKnowsAddresses(t *testing.T) {
	r := newGrowing(t)
	r.fill()
	r.join()
	r.run(2)
	c := r.peers[0].core
	r.check(c.Step(r.now, message.Changed{State: *r.state(), Voters: []register.Member{{Node: "n2"}, {Node: "n1"}}, Majority: true}))
	r.check(c.Step(r.now, message.Alive{Clients: map[register.Member]string{r.peers[1].self: "10.0.0.2:7711"}}))
	r.turn(0)
	s := r.status(0)
	if n := nodeOf(s, "n2"); n.State != "down" || n.Address != "10.0.0.2:7711" {
		t.Errorf("got %v", n)
	}
	if !slices.Equal(s.Voters, []string{"n1", "n2"}) || !s.Register.Majority || s.Register.Revision == 0 {
		t.Errorf("voters %v, %v", s.Voters, s.Register)
	}
}
