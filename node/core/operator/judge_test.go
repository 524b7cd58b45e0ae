package operator

import (
	"slices"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestReplicasAreJudged: two that answered have to be the same, one that did not is none, and of
// the queues those stay that are counted differently.
func TestReplicasAreJudged(t *testing.T) {
	replica := func(root byte, completed uint64, queues ...*nornv1.QueueCounters) *nornv1.ReplicaState {
		return &nornv1.ReplicaState{Root: []byte{root}, Completed: completed, Queues: queues}
	}
	silent := &nornv1.ReplicaState{Problem: "it does not answer"}
	for what, c := range map[string]struct {
		of              []*nornv1.ReplicaState
		differs, silent bool
	}{
		"nobody":          {nil, false, true},
		"one":             {[]*nornv1.ReplicaState{replica(1, 2)}, false, false},
		"same":            {[]*nornv1.ReplicaState{replica(1, 2), replica(1, 2)}, false, false},
		"another root":    {[]*nornv1.ReplicaState{replica(1, 2), replica(2, 2)}, true, false},
		"another count":   {[]*nornv1.ReplicaState{replica(1, 2), replica(1, 3)}, true, false},
		"one is silent":   {[]*nornv1.ReplicaState{silent, replica(1, 2), replica(1, 2)}, false, true},
		"the third is it": {[]*nornv1.ReplicaState{replica(1, 2), silent, replica(2, 2)}, true, true},
	} {
		p := &nornv1.VerifiedPartition{Replicas: c.of}
		if judge(p); p.Differs != c.differs || p.Unreachable != c.silent {
			t.Errorf("%s: differs %v, unreachable %v", what, p.Differs, p.Unreachable)
		}
	}
	q := func(name string, facts uint64) *nornv1.QueueCounters {
		return &nornv1.QueueCounters{Queue: name, Unfinished: facts}
	}
	p := &nornv1.VerifiedPartition{Replicas: []*nornv1.ReplicaState{replica(1, 2, q("a", 1), q("b", 1)), replica(1, 2, q("a", 1), q("b", 2))}}
	judge(p)
	for i, s := range p.Replicas {
		if len(s.Queues) != 1 || s.Queues[0].GetQueue() != "b" {
			t.Errorf("of replica %d the queues %v are told", i, s.Queues)
		}
	}
}

// TestPartitionsAreNamedBriefly: the first eight, and that there are more.
func TestPartitionsAreNamedBriefly(t *testing.T) {
	if got := list([]uint32{1, 2}); got != "1 2" {
		t.Errorf("two are %q", got)
	}
	if got := list([]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}); got != "1 2 3 4 5 6 7 8 …" {
		t.Errorf("nine are %q", got)
	}
	if got := about([]uint32{2, 9}, 4); !slices.Equal(got, []ring.Partition{2}) {
		t.Errorf("of four, asked for 2 and 9, it is about %v", got)
	}
	if got := about(nil, 3); len(got) != 3 {
		t.Errorf("asked for none it is about %v", got)
	}
}

// TestAClusterIsDestroyedByItsOwnID alone.
func TestAClusterIsDestroyedByItsOwnID(t *testing.T) {
	s := &register.State{Cluster: register.Cluster{ID: register.UUID{1}}, Values: map[string]register.Value{}}
	if Destroyed(s) {
		t.Error("nobody has ended it")
	}
	s.Values[destroyValue] = register.Value{Data: make([]byte, len(s.Cluster.ID))}
	if Destroyed(s) {
		t.Error("another cluster's ID ends it")
	}
	if s.Values[destroyValue] = (register.Value{Data: s.Cluster.ID[:]}); !Destroyed(s) {
		t.Error("its own ID does not end it")
	}
}

// TestOfNodesOfOneNameTheMemberIsMeant: the one that joins else, and then one that was removed.
func TestOfNodesOfOneNameTheMemberIsMeant(t *testing.T) {
	of := func(s register.NodeStatus) int { return rank(&register.Node{Status: s}) }
	if of(register.Active) != of(register.Leaving) || of(register.Active) <= of(register.Joining) || of(register.Joining) <= of(register.Removed) {
		t.Errorf("active is %d, leaving %d, joining %d, removed %d", of(register.Active), of(register.Leaving), of(register.Joining), of(register.Removed))
	}
}
