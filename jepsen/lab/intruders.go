package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// intruders are the fault of clients and nodes without the right words (F19).
func intruders() []Fault {
	return []Fault{{
		Name: "intruders", About: "clients with no token or a wrong one, and a node with another secret, try all they can: nothing of it may have an effect (F19)",
		dress: locked, run: func(n *nemesis) error { return intruder{n}.broken() },
	}}
}

// locked has nodes ask for a token and a secret.
func locked(l *lab, p *process) error {
	token, secret := filepath.Join(l.dir, "token"), filepath.Join(l.dir, "secret")
	if l.token == "" {
		l.token = fmt.Sprintf("token of %d and of this run only", os.Getpid())
		for file, text := range map[string]string{token: l.token, secret: "secret: " + l.token, secret + ".wrong": "another secret, as long as the right one"} { // Any order: three files.
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	p.args = append(p.args, "--auth-token-file", token, "--peer-secret-file", secret)
	return nil
}

// options are those of every client that may do something.
func (l *lab) options(more ...client.Option) []client.Option {
	if l.token != "" {
		more = append(more, client.WithAuthToken(l.token))
	}
	return l.pki.secure(more...)
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
		for _, p := range n.members() {
			for _, wrong := range []string{"", "wrong", n.token + " ", n.token[:len(n.token)-1]} {
				refused += n.try(p, wrong)
			}
		}
	}
	if n.does("%d attempts were refused", refused); refused == 0 {
		n.found("security", "no attempt was refused for its token: the test is wrong")
	}
	for _, p := range n.members() {
		if s, err := n.status(context.Background(), p); err == nil && slices.ContainsFunc(s.GetNodes(), func(m *nornv1.NodeStatus) bool { return m.GetName() == rogue.name }) {
			n.found("security", "%s has taken %s for a member, which does not know the secret", p.name, rogue.name) // I19
		}
	}
	return rogue.kill()
}

// rogue starts a node that does not know the secret.
func (n intruder) rogue() (*process, error) {
	p, err := n.add()
	if err != nil {
		return nil, err
	}
	for i, a := range p.args {
		if filepath.Base(a) == "secret" {
			p.args = slices.Clone(p.args)
			p.args[i] = a + ".wrong"
		}
	}
	p.gone = true
	p.may(true)
	err = n.attempt(p)
	p.gone = true // no member, whatever it thinks of itself
	return p, err
}

// try does with a wrong token what must not be possible: what it enqueues would
// be found on disks and in lists as sent by nobody. It counts what was refused for
// the token.
func (n intruder) try(p *process, token string) (refused int) {
	c, err := client.Dial(context.Background(), []string{p.dial}, n.pki.secure(client.WithAuthToken(token), client.WithTimeout(500*time.Millisecond))...)
	if err != nil {
		return 0
	}
	defer func() { _ = c.Close() }()
	for what, do := range n.attempts(c) { // Any order: none may succeed.
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		switch err := do(ctx); {
		case err == nil:
			n.found("security", "%s with the token %q has succeeded through %s", what, token, p.name)
		case kind(err) == "UNAUTHENTICATED":
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
			_, err := c.Enqueue(ctx, client.Task{ID: c.NewID(), Queue: queues[0], Payload: []byte("of nobody")})
			return err
		},
		"a claim": func(ctx context.Context) error {
			_, err := c.Claim(ctx, client.ClaimRequest{Queues: queues, Max: 1, Lease: time.Minute, Number: c.NextClaim()})
			return err
		},
		"a reading": func(ctx context.Context) error { _, err := c.Get(ctx, some); return err },
		"a cancellation": func(ctx context.Context) error {
			_, err := c.Cancel(ctx, []id.ID{some}, client.CancelOptions{})
			return err
		},
		"a setting": func(ctx context.Context) error { _, err := c.Queues().Pause(ctx, queues[0], "by nobody"); return err },
		"a change of members": func(ctx context.Context) error {
			_, err := c.Cluster().Leave(ctx, n.one().name, client.ChangeOptions{})
			return err
		},
	}
}

// someTask is one that was sent.
func (n intruder) someTask() id.ID {
	n.rec.mu.Lock()
	defer n.rec.mu.Unlock()
	for _, e := range n.rec.events {
		for i := range e.Items {
			if !e.Items[i].Task.IsZero() {
				return e.Items[i].Task
			}
		}
	}
	return id.ID{}
}
