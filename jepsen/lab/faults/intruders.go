package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// intruders are the fault of clients and nodes without the right words (F19).
func intruders() []Fault {
	return []Fault{{
		Name: "intruders", About: "clients with no token or a wrong one, and a node with another secret, try all they can: nothing of it may have an effect (F19)",
		Dress: locked, run: func(n *nemesis) error { return intruder{n}.broken() },
	}}
}

// locked has nodes ask for a token and a secret.
func locked(l *cluster.Lab, p *cluster.Process) error {
	token, secret := filepath.Join(l.Dir, "token"), filepath.Join(l.Dir, "secret")
	if l.Token == "" {
		l.Token = fmt.Sprintf("token of %d and of this run only", os.Getpid())
		for file, text := range map[string]string{token: l.Token, secret: "secret: " + l.Token, secret + ".wrong": "another secret, as long as the right one"} { // Any order: three files.
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	p.Args = append(p.Args, "--auth-token-file", token, "--peer-secret-file", secret)
	return nil
}

// intruder tries what is not allowed.
type intruder struct{ *nemesis }

func (n intruder) broken() error {
	n.does("clients without the token, a node without the secret")
	rogue, err := n.rogue()
	if err != nil {
		return err
	}
	refused := 0
	for end := time.Now().Add(n.upTo(8 * time.Second)); time.Now().Before(end); {
		for _, p := range n.Members() {
			for _, wrong := range []string{"", "wrong", n.Token + " ", n.Token[:len(n.Token)-1]} {
				refused += n.try(p, wrong)
			}
		}
	}
	if n.does("%d attempts were refused", refused); refused == 0 {
		n.Found("security", "no attempt was refused for its token: the test is wrong")
	}
	for _, p := range n.Members() {
		if s, err := n.Status(context.Background(), p); err == nil && slices.ContainsFunc(s.GetNodes(), func(m *nornv1.NodeStatus) bool { return m.GetName() == rogue.Name }) {
			n.Found("security", "%s has taken %s for a member, which does not know the secret", p.Name, rogue.Name) // I19
		}
	}
	return rogue.Kill()
}

// rogue starts a node that does not know the secret.
func (n intruder) rogue() (*cluster.Process, error) {
	p, err := n.Add()
	if err != nil {
		return nil, err
	}
	for i, a := range p.Args {
		if filepath.Base(a) == "secret" {
			p.Args = slices.Clone(p.Args)
			p.Args[i] = a + ".wrong"
		}
	}
	p.Gone = true
	p.May(true)
	err = n.Attempt(p)
	p.Gone = true // no member, whatever it thinks of itself
	return p, err
}

// try does with a wrong token what must not be possible: what it enqueues would
// be found on disks and in lists as sent by nobody. It counts what was refused for
// the token.
func (n intruder) try(p *cluster.Process, token string) (refused int) {
	c, err := client.Dial(context.Background(), []string{p.Dial}, n.Pki.Secure(client.WithAuthToken(token), client.WithTimeout(500*time.Millisecond))...)
	if err != nil {
		return 0
	}
	defer func() { _ = c.Close() }()
	for what, do := range n.attempts(c) { // Any order: none may succeed.
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		switch err := do(ctx); {
		case err == nil:
			n.Found("security", "%s with the token %q has succeeded through %s", what, token, p.Name)
		case record.Kind(err) == "UNAUTHENTICATED":
			refused++
		}
		cancel()
	}
	return refused
}

// attempts are what an intruder tries.
func (n intruder) attempts(c *client.Client) map[string]func(context.Context) error {
	some := n.someTask()
	return map[string]func(context.Context) error{
		"an enqueue": func(ctx context.Context) error {
			_, err := c.Enqueue(ctx, client.Task{ID: c.NewID(), Queue: workloads.Queues[0], Payload: []byte("of nobody")})
			return err
		},
		"a claim": func(ctx context.Context) error {
			_, err := c.Claim(ctx, client.ClaimRequest{Queues: workloads.Queues, Max: 1, Lease: time.Minute, Number: c.NextClaim()})
			return err
		},
		"a reading": func(ctx context.Context) error { _, err := c.Get(ctx, some); return err },
		"a cancellation": func(ctx context.Context) error {
			_, err := c.Cancel(ctx, []id.ID{some}, client.CancelOptions{})
			return err
		},
		"a setting": func(ctx context.Context) error {
			_, err := c.Queues().Pause(ctx, workloads.Queues[0], "by nobody")
			return err
		},
		"a change of members": func(ctx context.Context) error {
			_, err := c.Cluster().Leave(ctx, n.one().Name, client.ChangeOptions{})
			return err
		},
	}
}

// someTask is one that was sent.
func (n intruder) someTask() id.ID {
	n.Rec.Mu.Lock()
	defer n.Rec.Mu.Unlock()
	for _, e := range n.Rec.Events {
		for i := range e.Items {
			if !e.Items[i].Task.IsZero() {
				return e.Items[i].Task
			}
		}
	}
	return id.ID{}
}
