package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// changes are the faults of membership (F12, F16).
func changes() []Fault {
	return []Fault{
		{Name: "join-leave", About: "a node joins, gets its share, and leaves again (F12)", run: func(n *nemesis) error { return operator{n}.cameAndWent() }},
		{Name: "remove", About: "a node dies and is removed; it comes back, with or without what it had (F12, F16)", run: func(n *nemesis) error { return operator{n}.removed() }},
		{Name: "replace", About: "a node dies and a new one takes its place (F12)", run: func(n *nemesis) error { return operator{n}.replaced() }},
		{Name: "replicas", About: "of five nodes each partition is to be on more, or fewer, and then on three again, now and then before that is done or while a node dies (F12)", Nodes: 5, run: func(n *nemesis) error { return operator{n}.resized() }},
	}
}

// operator is the nemesis that changes who is a member.
type operator struct{ *nemesis }

// ask has a node's cluster do something, and repeats what cannot be done yet.
func (n operator) ask(through *cluster.Process, what string, do func(context.Context, client.Cluster) (*nornv1.ClusterReply, error)) error {
	c, err := n.Dial(5*time.Second, through)
	if err != nil {
		return err
	}
	n.does("%s", what)
	for end := time.Now().Add(time.Minute); ; {
		if _, err = do(context.Background(), c.Cluster()); err == nil || time.Now().After(end) || n.Caller.Ended() {
			break
		}
		<-time.After(500 * time.Millisecond)
	}
	if err != nil {
		n.Found("stuck", "%s: %v", what, err)
		return cluster.ErrStuck
	}
	return nil
}

// until waits until a node sees a member in a state; "": not at all.
func (n operator) until(through *cluster.Process, name, state string) error {
	last := ""
	for end := time.Now().Add(cluster.Rest); time.Now().Before(end) && !n.Caller.Ended(); <-time.After(200 * time.Millisecond) {
		s, err := n.Status(context.Background(), through)
		if err != nil {
			last = err.Error()
			continue
		}
		last = ""
		for _, m := range s.GetNodes() {
			if m.GetName() == name && (m.GetState() != "removed" || last == "") {
				last = m.GetState()
			}
		}
		if last == state || state == "removed" && last == "" {
			return nil
		}
	}
	n.Found("stuck", "%s sees %s as %q, not as %s", through.Name, name, last, state)
	return cluster.ErrStuck
}

func (n operator) cameAndWent() error {
	witness := n.one()
	p, err := n.Add()
	if err != nil {
		return err
	}
	n.does("%s joins", p.Name)
	if err := n.Begin(p); err != nil {
		return err
	}
	if err := n.Whole(context.Background(), cluster.Rest); err != nil {
		n.Found("stuck", "%s joins: %v", p.Name, err)
		return cluster.ErrStuck
	}
	n.wait(time.Second, 4*time.Second)
	if err := n.leaves(witness, p); err != nil {
		return err
	}
	return n.left(witness, p)
}

func (n operator) removed() error {
	two := n.some(2)
	p, witness := two[0], two[1]
	n.does("kill -9 %s", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	if err := n.until(witness, p.Name, "down"); err != nil {
		return err
	}
	remove := func(ctx context.Context, c client.Cluster) (*nornv1.ClusterReply, error) {
		return c.Remove(ctx, p.Name, client.ChangeOptions{})
	}
	if err := n.ask(witness, "remove "+p.Name, remove); err != nil {
		return err
	}
	p.Gone = true
	if err := n.Whole(context.Background(), cluster.Rest); err != nil {
		n.Found("stuck", "%s is removed: %v", p.Name, err)
		return cluster.ErrStuck
	}
	if n.Rnd.IntN(2) == 0 {
		n.does("start %s as it was", p.Name)
		if err := n.Begin(p); err != nil {
			return err
		}
		n.wait(2*time.Second, 6*time.Second)
		if err := p.Kill(); err != nil {
			return err
		}
	}
	n.does("start %s empty", p.Name)
	n.Wiped(p)
	if err := p.Wipe(); err != nil {
		return err
	}
	return n.Begin(p)
}

func (n operator) replaced() error {
	two := n.some(2)
	p, witness := two[0], two[1]
	fresh, err := n.Add()
	if err != nil {
		return err
	}
	n.does("kill -9 %s, start %s", p.Name, fresh.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	p.Gone = true
	if err := n.Begin(fresh); err != nil {
		return err
	}
	if err := n.until(witness, p.Name, "down"); err != nil {
		return err
	}
	if err := n.until(witness, fresh.Name, "up"); err != nil {
		return err
	}
	n.Mu.Lock()
	n.Heirs[p] = fresh
	n.Mu.Unlock()
	return n.ask(witness, fmt.Sprintf("replace %s by %s", p.Name, fresh.Name), func(ctx context.Context, c client.Cluster) (*nornv1.ClusterReply, error) {
		return c.Replace(ctx, p.Name, fresh.Name, client.ChangeOptions{})
	})
}
