package node

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// joinConfig is a node that joins another one.
func joinConfig(t testing.TB, name string, seeds ...*Node) *config.Config {
	c := testConfig(t)
	c.Name, c.Partitions, c.GossipInterval, c.RepairInterval = name, 16, 200*time.Millisecond, time.Second
	for _, s := range seeds {
		c.Join = append(c.Join, s.PeerAddr().String())
	}
	return c
}

// eventually asks until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.Tick(20 * time.Millisecond); !so(); {
		select {
		case <-tick:
		case <-ctx.Done():
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}

// through calls a node until it is ready for it. A call that is not answered fails the test.
func through[M gproto.Message](t testing.TB, n *Node, m nornv1.Method, req gproto.Message, reply M) M {
	t.Helper()
	eventually(t, m.String(), func() bool {
		err := once(t, n, patience, m, req, reply)
		var e *proto.Error
		if err != nil && !(errors.As(err, &e) && e.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE) {
			t.Fatal(n.self.Node, m, err)
		}
		return err == nil
	})
	return reply
}

// once calls a node one time, and waits for the answer for so long.
func once(t testing.TB, n *Node, wait time.Duration, m nornv1.Method, req, reply gproto.Message) error {
	t.Helper()
	p, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
	defer func() { _ = p.c.Close() }()
	if err != nil {
		return err
	}
	return p.within(wait, m, req, reply)
}

// full waits until every partition has a cohort of so many, all with a leader.
func full(t testing.TB, n *Node, replicas int) {
	t.Helper()
	eventually(t, "full cohorts", func() bool {
		for _, p := range through(t, n, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{}, &nornv1.StatusReply{}).Partitions {
			if len(p.Cohort) != replicas || p.Leader == "" {
				return false
			}
		}
		return true
	})
}

// TestThreeNodes: two nodes join a third; a task that was there before is on
// all of them, and through each of them everything can be done.
func TestThreeNodes(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := joinConfig(t, "n1")
	nodes := []*Node{start(t, c, Options{})}
	defer func() {
		for _, n := range nodes {
			stop(t, n)
		}
	}()
	before := connect(t, nodes[0]).enqueue(&nornv1.TaskSpec{Queue: "q"})
	for _, name := range []string{"n2", "n3"} {
		nodes = append(nodes, start(t, joinConfig(t, name, nodes[0]), Options{}))
	}
	for _, n := range nodes {
		full(t, n, 3)
	}
	total := uint64(1)
	for _, n := range nodes {
		var tasks []*nornv1.TaskSpec
		for range 20 {
			tasks = append(tasks, &nornv1.TaskSpec{Queue: "q"})
		}
		for _, r := range through(t, n, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: tasks, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}}, &nornv1.EnqueueReply{}).Results {
			if r.Error != nil || r.Receipt.DurableCopies != 3 {
				t.Fatalf("through %s: %v", n.self.Node, r)
			}
		}
		total += 20
	}
	for _, n := range nodes {
		if got := through(t, n, nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{}).Total.Total; got != total {
			t.Errorf("%s counts %d tasks of %d", n.self.Node, got, total)
		}
		if got := through(t, n, nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: taskID(t, before[0])}, &nornv1.GetReply{}); got.Task.Id != before[0] {
			t.Errorf("%s reads %v", n.self.Node, got)
		}
	}
	seen := map[string]bool{}
	for uint64(len(seen)) < total {
		for _, n := range nodes {
			reply := through(t, n, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 7, WaitSeconds: 0.5}, &nornv1.ClaimReply{})
			for _, g := range reply.Grants {
				if seen[g.Task.Id] {
					t.Fatalf("%s was claimed twice", g.Task.Id)
				}
				seen[g.Task.Id] = true
			}
		}
	}
}

// TestClientsAreToldAnAddressThatReaches: of a port on every address of its machine a node
// told [::]:7711, which `norn cluster members` showed.
func TestClientsAreToldAnAddressThatReaches(t *testing.T) {
	for _, c := range []struct{ ip, host, want string }{
		{"10.0.0.1", "10.0.0.9", "10.0.0.1:7711"},
		{"::", "10.0.0.9", "10.0.0.9:7711"},
		{"0.0.0.0", "a.lan", "a.lan:7711"},
		{"::", "fd00::1", "[fd00::1]:7711"},
		{"::", "::", "[::]:7711"},
		{"::", "", "[::]:7711"},
	} {
		if got := reachedAt(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 7711}, c.host); got != c.want {
			t.Errorf("on %s, with the port for nodes at %q: %s, want %s", c.ip, c.host, got, c.want)
		}
	}
}
