package node

import (
	"errors"
	"path/filepath"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// leave has a node leave, and waits until it has.
func (r *trioOnDisk) leave(i int) {
	r.t.Helper()
	through(r.t, r.nodes[0], nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Leave{
		Leave: &nornv1.LeaveNode{Node: r.nodes[i].self.Incarnation.String()}}}, &nornv1.ClusterReply{})
	eventually(r.t, "it has left", func() bool { return Left(r.nodes[i]) })
}

// TestTheVolumeOfANodeThatHasLeftJoinsAnew: three, two and three again, twice, on the same
// volumes: each time the node is a new member, with all copies.
func TestTheVolumeOfANodeThatHasLeftJoinsAnew(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	r.enqueue(10)
	seen := map[string]bool{}
	for range 2 {
		seen[r.nodes[2].self.Incarnation.String()] = true
		r.leave(2)
		r.end(2)
		join := r.configs[2].Join
		r.configs[2].Join = nil
		if n, err := Start(r.configs[2], Options{}); !errors.Is(err, ErrDirectory) {
			if err == nil {
				stop(t, n)
			}
			t.Fatalf("without join: %v", err)
		}
		r.configs[2].Join = join
		r.begin(2)
		full(t, r.nodes[2], 3)
		eventually(t, "it is ready", func() bool { return Filled(r.nodes[2]) })
		if id := r.nodes[2].self.Incarnation.String(); seen[id] {
			t.Fatalf("it came back as incarnation %s", id)
		}
		if !exists(filepath.Join(r.configs[2].Data, leftDir, identityFile)) || exists(filepath.Join(r.configs[2].Data, leftFile)) {
			t.Error("what it had is not set aside")
		}
	}
	if got := countOf(t, r.nodes[2], "q").Total; got != 10 {
		t.Errorf("%d tasks of 10", got)
	}
}

// TestTheVolumeOfARemovedNodeJoinsAnew: it was removed while it was off. Started again it hands
// over what it has and joins as a new member. One that is removed while it runs does not.
func TestTheVolumeOfARemovedNodeJoinsAnew(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	eventually(t, "it has its copies", func() bool { return Filled(r.nodes[2]) })
	old := r.nodes[2].self
	remove := func() {
		through(t, r.nodes[0], nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Remove{
			Remove: &nornv1.RemoveNode{Node: r.configs[2].Name, Force: true}}}, &nornv1.ClusterReply{})
	}
	r.end(2)
	remove()
	r.begin(2)
	eventually(t, "it starts again", func() bool { return r.nodes[2].Alive() != nil })
	if err := r.nodes[2].Failure(); !errors.Is(err, ErrStartAgain) {
		t.Fatal(err)
	}
	r.end(2)
	r.begin(2)
	full(t, r.nodes[2], 3)
	if r.nodes[2].self == old {
		t.Error("it came back as the same incarnation")
	}
	eventually(t, "it is ready", func() bool { return Filled(r.nodes[2]) })
	remove()
	eventually(t, "it has handed over", func() bool { return r.nodes[2].members.empty.Load() })
	if err := r.nodes[2].Alive(); err != nil {
		t.Errorf("it joins again by itself though it was removed while it runs: %v", err)
	}
}
