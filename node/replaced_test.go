package node

import (
	"slices"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// votes tells whether a node votes in the register's group, as another one sees it.
func votes(seen, n *Node) bool {
	g := seen.members.group.Load()
	return g != nil && slices.Contains(g.Status().Voters, n.self)
}

// TestTheOldOneComesBack: a node is lost with a task that nobody else has, and
// another one takes its name, its vote and its place. When the old one comes back,
// intact, at another address, it gives away what only it has, and leads nothing
// (design 4).
func TestTheOldOneComesBack(t *testing.T) {
	t.Parallel() // it waits most of the time
	first := start(t, joinConfig(t, "n1"), Options{})
	defer func() { stop(t, first) }()
	second := start(t, joinConfig(t, "n2", first), Options{})
	defer func() { stop(t, second) }()
	lost := joinConfig(t, "n3", first)
	old := start(t, lost, Options{})
	for _, n := range []*Node{first, second, old} {
		full(t, n, 3)
	}
	eventually(t, "three vote", func() bool { return votes(first, old) })

	stop(t, second)
	stop(t, first)
	one := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	only := through(t, old, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}, Durability: one}, &nornv1.EnqueueReply{}).Results[0]
	if only.Error != nil || only.Receipt.DurableCopies+only.Receipt.Hinted != 1 {
		t.Fatalf("got %v", only)
	}
	stop(t, old)
	first = start(t, first.cfg, Options{})
	second.cfg.Join = []string{first.PeerAddr().String()} // at another port than before
	second = start(t, second.cfg, Options{})
	young := start(t, joinConfig(t, "n3", first, second), Options{})
	defer func() { stop(t, young) }()
	full(t, young, 3)
	eventually(t, "the vote passes on", func() bool { return votes(first, young) && !votes(first, old) })
	task := &nornv1.GetRequest{Id: taskID(t, only.Receipt.Id)}
	if countOf(t, first, "q").Total != 0 {
		t.Fatal("the others have the task")
	}

	lost.Join = []string{first.PeerAddr().String()}
	back := start(t, lost, Options{})
	eventually(t, "the task of the old one", func() bool { return countOf(t, first, "q").Total == 1 })
	through(t, young, nornv1.Method_METHOD_GET, task, &nornv1.GetReply{})
	if enqueue, claim := back.Ready(); enqueue || claim {
		t.Errorf("the old one serves: enqueues %v, claims %v", enqueue, claim)
	}
	stop(t, back)
}
