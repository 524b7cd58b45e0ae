package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// nodes is how many the demo has: the fewest that go on without one of them.
const nodes = 3

// server is one node.
type server struct {
	name               string
	listen, peer, http string
	*child             // nil before it runs
}

// form starts three nodes and waits until all of them hold every partition.
func (t *tour) form(ctx context.Context) error {
	addrs, err := freeAddresses(3 * nodes)
	if err != nil {
		return err
	}
	for i := range nodes {
		t.nodes = append(t.nodes, &server{name: fmt.Sprintf("n%d", i+1), listen: addrs[3*i], peer: addrs[3*i+1], http: addrs[3*i+2]})
	}
	if err := t.say("2. Starting %d nodes with empty directories, for clients on %v", nodes, t.clientAddresses()); err != nil {
		return err
	}
	for _, n := range t.nodes {
		if err := t.startNode(n); err != nil {
			return err
		}
	}
	if t.client, err = client.Dial(ctx, t.clientAddresses(), client.WithAgent("norn demo"), client.WithTimeout(time.Minute)); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	for {
		s, err := t.client.Cluster().Status(ctx, client.StatusOptions{})
		if err == nil && whole(s) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("demo: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// whole tells whether any node may die now: everything is on all of them, and
// all vote.
func whole(s *nornv1.StatusReply) bool {
	for _, p := range s.GetPartitions() {
		if len(p.GetCohort()) != nodes || p.GetCopies() != nodes || p.GetLeader() == "" {
			return false
		}
	}
	return len(s.GetPartitions()) > 0 && len(s.GetVoters()) == nodes
}

// startNode starts a node, on the directory that it had if it was there before.
// All but the first join.
func (t *tour) startNode(n *server) (err error) {
	args := []string{
		"server", "--data", filepath.Join(t.dir, n.name), "--name", n.name, "--listen", n.listen, "--peer-listen", n.peer, "--http-listen", n.http,
		"--eta", "2s", "--repair-interval", "1s",
	}
	if n != t.nodes[0] {
		args = append(args, "--join", t.nodes[0].peer)
	}
	n.child, err = spawn(t.log, t.failed, nil, t.Binary, args...)
	return err
}

func (t *tour) clientAddresses() (all []string) {
	for _, n := range t.nodes {
		all = append(all, n.listen)
	}
	return all
}

// killNode kills the first node, to which all clients are connected.
func (t *tour) killNode(done int) error {
	t.nodes[0].kill()
	t.verdict.Kills++
	t.verdict.DoneAtKill = done
	return t.say("   kill -9 of node %s after %d tasks: the other two go on", t.nodes[0].name, done)
}

// returnNode starts it again on its directory.
func (t *tour) returnNode() error {
	if err := t.say("   starting node %s again on its directory", t.nodes[0].name); err != nil {
		return err
	}
	return t.startNode(t.nodes[0])
}
