package node

import (
	"errors"
	"os"
	"testing"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register/group"
)

// outgrown is a trio of which the first node is about to come back on the directory of
// when it was alone: register, facts and superblock. Nothing on its disk tells.
func outgrown(t *testing.T) *trioOnDisk { return outgrows(t, joinConfig(t, "n1")) }

// outgrows is the same with a first node of its own.
func outgrows(t *testing.T, first *config.Config) *trioOnDisk {
	r := &trioOnDisk{t: t, nodes: make([]*Node, 3)}
	t.Cleanup(func() {
		for _, n := range r.nodes {
			if n != nil {
				stop(t, n)
			}
		}
	})
	r.configs = []*config.Config{first}
	r.begin(0)
	first.PeerListen = r.nodes[0].PeerAddr().String()
	full(t, r.nodes[0], 1)
	r.end(0)
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(first.Data)); err != nil {
		t.Fatal(err)
	}
	r.begin(0)
	for i, name := range []string{"n2", "n3"} {
		c := joinConfig(t, name, r.nodes[0])
		r.configs = append(r.configs, c)
		r.begin(i + 1)
		c.PeerListen = r.nodes[i+1].PeerAddr().String()
	}
	for _, n := range r.nodes {
		full(t, n, 3)
	}
	eventually(t, "three vote in the register", func() bool { return len(r.nodes[0].members.group.Load().Status().Voters) == 3 })
	r.enqueue(40)
	r.end(0)
	if err := errors.Join(os.RemoveAll(first.Data), os.CopyFS(first.Data, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	return r
}

// again has the first node end, as one that has forgotten, and come back.
func (r *trioOnDisk) again(tasks uint64) {
	r.t.Helper()
	n, old := r.nodes[0], r.nodes[0].self.Incarnation
	eventually(r.t, "it ends", func() bool { return n.Alive() != nil })
	if err := n.Failure(); !forgot(err) || !errors.Is(err, ErrStartAgain) {
		r.t.Fatalf("it ends with %v", err)
	}
	r.end(0)
	r.begin(0)
	full(r.t, r.nodes[0], 3)
	if now := r.nodes[0].self.Incarnation; now == old {
		r.t.Fatal("it is the same incarnation as before")
	}
	for i := range r.nodes {
		eventually(r.t, "everything is there", func() bool {
			return through(r.t, r.nodes[i], nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{}).Total.Total == tasks
		})
	}
}

// TestAFirstNodeSetBackToWhenItWasAlone, on whose disk nothing tells that there are
// others, hears it from them as soon as they reach it, and becomes another one.
func TestAFirstNodeSetBackToWhenItWasAlone(t *testing.T) {
	t.Parallel()
	t.Run("the others run", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		r := outgrown(t)
		r.begin(0)
		r.again(40)
	})
	t.Run("the others were restarted", func(t *testing.T) {
		t.Parallel()
		r := outgrown(t)
		r.end(1)
		r.end(2)
		r.begin(1)
		r.begin(2)
		r.begin(0)
		r.again(40)
	})
	t.Run("the others come later", func(t *testing.T) {
		t.Parallel()
		r := outgrown(t)
		r.end(1)
		r.end(2)
		r.begin(0)
		// Alone it acknowledges and grants; nobody can know better.
		task := &nornv1.TaskSpec{Queue: "alone"}
		if got := through(t, r.nodes[0], nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{task}}, &nornv1.EnqueueReply{}); len(got.Results) != 1 {
			t.Fatal(got)
		}
		claim := &nornv1.ClaimRequest{Queues: []string{"alone"}, MaxTasks: 1, LeaseSeconds: 5, WaitSeconds: 10, Session: make([]byte, 16), RequestNo: 1}
		early := through(t, r.nodes[0], nornv1.Method_METHOD_CLAIM, claim, &nornv1.ClaimReply{})
		r.begin(1)
		r.begin(2)
		r.again(41)
		claim.RequestNo = 2
		late := through(t, r.nodes[1], nornv1.Method_METHOD_CLAIM, claim, &nornv1.ClaimReply{})
		if len(early.Grants) != 1 || len(late.Grants) != 1 || late.Grants[0].Token <= early.Grants[0].Token {
			t.Fatalf("granted alone: %v, by the cluster: %v", early.Grants, late.Grants)
		}
	})
}

// TestAFirstNodeThatIsToJoinAsksFirst: with --join it asks those before it begins, and
// acknowledges and grants nothing by itself. Where nobody answers it begins.
func TestAFirstNodeThatIsToJoinAsksFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := outgrown(t)
	r.configs[0].Join = []string{r.configs[0].PeerListen, r.configs[1].PeerListen}
	r.begin(0)
	if n := r.nodes[0]; n.begun.Load() || !errors.Is(n.Failure(), group.ErrForgot) {
		t.Fatalf("it has begun: %t; %v", n.begun.Load(), n.Failure())
	}
	r.again(40)

	c := joinConfig(t, "alone")
	n := start(t, c, Options{})
	full(t, n, 1)
	stop(t, n)
	c.Join = []string{n.PeerAddr().String(), "127.0.0.1:1"}
	n = start(t, c, Options{})
	defer stop(t, n)
	full(t, n, 1)
}

// TestAFirstNodeAfterARestoreAsksFirst: the nodes of the life before are in its register,
// as removed ones. It was alone all the same.
func TestAFirstNodeAfterARestoreAsksFirst(t *testing.T) {
	t.Parallel() // it waits most of the time
	place := t.TempDir()
	n := start(t, backupConfig(t, "n0", place), Options{})
	full(t, n, 1)
	backedUp(t, n, place)
	stop(t, n)
	r := outgrows(t, restoreConfig(t, "n1", place))
	r.configs[0].Join = []string{r.configs[1].PeerListen}
	r.begin(0)
	if n := r.nodes[0]; n.begun.Load() || !errors.Is(n.Failure(), group.ErrForgot) {
		t.Fatalf("it has begun: %t; %v", n.begun.Load(), n.Failure())
	}
	r.again(40)
}

// TestTheLastNodeDoesNotGoByRemovedOnes: of those that it has outlived one may still run.
func TestTheLastNodeDoesNotGoByRemovedOnes(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := joinConfig(t, "n1")
	n := start(t, c, Options{})
	full(t, n, 1)
	c.PeerListen = n.PeerAddr().String()
	removed := start(t, joinConfig(t, "n2", n), Options{})
	defer stop(t, removed)
	full(t, n, 2)
	remove := &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Remove{Remove: &nornv1.RemoveNode{Node: "n2", Force: true}}}
	through(t, n, nornv1.Method_METHOD_CLUSTER, remove, &nornv1.ClusterReply{})
	full(t, n, 1)
	stop(t, n)
	c.Join = []string{removed.PeerAddr().String()}
	n = start(t, c, Options{})
	defer stop(t, n)
	full(t, n, 1)
}
