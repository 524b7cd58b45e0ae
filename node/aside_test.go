package node

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// forgetful is a node that collects at once and forgets after seconds.
func forgetful(t *testing.T, name string, seeds ...*Node) *config.Config {
	c := joinConfig(t, name, seeds...)
	c.Partitions, c.Eta, c.GCGrace, c.Retention, c.CollectInterval = 8, 500*time.Millisecond, 5*time.Second, 0, time.Second
	return c
}

// statusOf asks one node about the cluster.
func statusOf(t *testing.T, n *Node) *nornv1.StatusReply {
	t.Helper()
	return through(t, n, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{}, &nornv1.StatusReply{})
}

// verified is what the replicas of all partitions hold.
func verified(t *testing.T, n *Node) []*nornv1.VerifiedPartition {
	t.Helper()
	all := &nornv1.VerifyRequest{}
	for p := range n.cluster.Partitions {
		all.Partitions = append(all.Partitions, uint32(p))
	}
	return through(t, n, nornv1.Method_METHOD_VERIFY, all, &nornv1.VerifyReply{}).Partitions
}

// setAside gives the tasks that replicas keep aside, with how many do.
func setAside(t *testing.T, n *Node) map[string]int {
	t.Helper()
	named := map[string]int{}
	for _, p := range verified(t, n) {
		for _, r := range p.Replicas {
			for _, task := range r.Quarantined {
				named[task]++
			}
		}
	}
	return named
}

// leavesWhileAway has a node that is not there be one that is to leave, as if an
// operator had said so before, and waits until nobody counts on it.
func leavesWhileAway(t *testing.T, first *Node, away register.Member) {
	t.Helper()
	group := first.members.group.Load()
	eventually(t, "it is to leave", func() bool {
		state := group.State()
		n, ok := state.Find(away)
		if ok && n.Status == register.Leaving {
			return true
		}
		old := n.Version
		n.Status = register.Leaving
		group.Do(register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}}, func(register.Result) {})
		return false
	})
	eventually(t, "its partitions have moved", func() bool {
		return !slices.ContainsFunc(statusOf(t, first).Partitions, func(p *nornv1.PartitionStatus) bool {
			return len(p.Cohort) != 3 || p.Leader == "" || slices.Contains(p.Cohort, away.Node)
		})
	})
}

// finishAll completes so many tasks of a queue, and waits until nobody knows them
// any more.
func finishAll(t *testing.T, n *Node, queue string, count int) (tasks []string) {
	t.Helper()
	eventually(t, "all are finished", func() bool {
		done := &nornv1.CompleteRequest{}
		for _, g := range through(t, n, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{queue}, MaxTasks: uint32(count), WaitSeconds: 0.1}, &nornv1.ClaimReply{}).Grants {
			done.Completions = append(done.Completions, &nornv1.Completion{Id: taskID(t, g.Task.Id), Token: g.Token, AutoSeq: true})
			tasks = append(tasks, g.Task.Id)
		}
		if len(done.Completions) > 0 {
			through(t, n, nornv1.Method_METHOD_COMPLETE, done, &nornv1.WriteReply{})
		}
		return len(tasks) == count
	})
	eventually(t, "all are forgotten", func() bool {
		facts := uint64(0)
		for _, p := range verified(t, n) {
			for _, r := range p.Replicas {
				facts += r.Facts
			}
		}
		return facts == 0
	})
	return tasks
}

// TestOldFactsAreKeptAside: while one of four nodes is away, its partitions move,
// and everything it has is finished, collected and forgotten. When it comes back,
// what it has is kept aside by a majority of each cohort, which any node shows;
// nothing is back, and the node has nothing left.
func TestOldFactsAreKeptAside(t *testing.T) {
	t.Parallel() // it waits most of the time
	first := start(t, forgetful(t, "n1"), Options{})
	defer stop(t, first)
	for _, name := range []string{"n2", "n3"} {
		defer stop(t, start(t, forgetful(t, name, first), Options{}))
	}
	c := forgetful(t, "n4", first)
	away := start(t, c, Options{})
	eventually(t, "four nodes have their share", func() bool {
		s := statusOf(t, first)
		full := !slices.ContainsFunc(s.Partitions, func(p *nornv1.PartitionStatus) bool { return len(p.Cohort) != 3 || p.Leader == "" || p.Moving })
		return len(s.Nodes) == 4 && s.Movement.CopiesLeft+s.Movement.HandoversLeft == 0 && full
	})
	enqueueAll(t, first, "q", 40)
	stop(t, away)
	leavesWhileAway(t, first, away.self)
	tasks := finishAll(t, first, "q", 40)

	c.Join = []string{first.PeerAddr().String()}
	back := start(t, c, Options{})
	eventually(t, "it has handed over what it had, and is removed", func() bool {
		return len(setAside(t, first)) > 0 && !slices.ContainsFunc(statusOf(t, first).Nodes, func(n *nornv1.NodeStatus) bool { return n.Name == "n4" && n.State != "removed" })
	})
	stop(t, back)
	named, total, shown := setAside(t, first), 0, 0
	for task, n := range named {
		if total += n; !slices.Contains(tasks, task) || n < 2 {
			t.Errorf("%s is kept aside by %d", task, n)
		}
	}
	for _, n := range statusOf(t, first).Nodes {
		shown += int(n.QuarantinedTasks)
	}
	if len(named) < 10 || shown != total {
		t.Errorf("%d tasks are kept aside, %d copies, and the status shows %d", len(named), total, shown)
	}
	if n := countOf(t, first, "q").GetTotal(); n != 0 {
		t.Errorf("%d tasks are back", n)
	}
}
