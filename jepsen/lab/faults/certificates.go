package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// certificates are the faults of who shows what (F19).
func certificates() []Fault {
	fault := func(name, about string, run func(identity) error) Fault {
		return Fault{Name: name, About: about, Dress: cluster.Certified, Group: "certificates", run: func(n *nemesis) error { return run(identity{n}) }}
	}
	return []Fault{
		fault("rotate-certificates", "all certificates and their authority are replaced while everything runs: clients see nothing of it, and in the end the old ones are refused (F19)", identity.rotated),
		fault("expired-certificates", "a client and a node whose certificates have expired are let in by nobody; a member whose certificate runs out is refused by the others until it has another one (F19)", identity.expired),
	}
}

// identity is the nemesis of certificates.
type identity struct{ *nemesis }

// stranger is a client with a certificate of its own.
func (n identity) stranger(a *cluster.Authority, until time.Time) (*tls.Config, error) {
	c, err := n.Pki.Issue(a, "a stranger", "", until)
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(c.Cert, c.Key)
	return n.Pki.Tls(&own), err
}

// refuses has a client try all it can through each node: nothing may succeed, and it is
// told that its certificate is the reason, in words that an authority's or a library's
// message has.
func (n identity) refuses(c *tls.Config, whose, words string) {
	tried, told, last := 0, 0, error(nil)
	for _, p := range n.Members() {
		d, err := client.Dial(context.Background(), []string{p.Dial}, client.WithTLS(c), client.WithTimeout(2*time.Second))
		if err != nil {
			last = err
			continue
		}
		for what, do := range intruder(n).attempts(d) { // Any order: none may succeed.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := do(ctx)
			cancel()
			if tried++; err == nil {
				n.Found("security", "%s by %s has succeeded through %s", what, whose, p.Name) // I19
			} else if last = err; strings.Contains(err.Error(), words) {
				told++
			}
		}
		_ = d.Close()
	}
	if n.does("%s: %d of %d attempts are told %q", whose, told, tried, words); told < tried || tried == 0 {
		n.Found("security", "%s is refused %d times of %d for %q; the last time: %v", whose, told, tried, words, last)
	}
}

// issuers are who has signed what the client port of each node shows to whom connects now.
func (n identity) issuers() (all []string, err error) {
	for _, p := range n.Members() {
		raw, err := net.DialTimeout("tcp", p.Dial, machine.Patience)
		if err != nil {
			return nil, err
		}
		_ = raw.SetDeadline(time.Now().Add(machine.Patience))
		c := tls.Client(raw, n.Pki.Tls(nil))
		err = c.Handshake()
		if err == nil {
			all = append(all, c.ConnectionState().PeerCertificates[0].Issuer.CommonName)
		}
		if err = errors.Join(err, raw.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return all, nil
}

// comers are clients that connect anew for everything, while something goes on that must
// not keep them out.
type comers struct {
	identity
	hands []*workloads.Hand
	over  chan struct{}
	work  sync.WaitGroup

	mu                     sync.Mutex // guards what follows
	calls, failed, starved int
	first                  error
}

// come begins to connect through each node again and again.
func (n identity) come() *comers {
	c := &comers{identity: n, over: make(chan struct{})}
	for _, p := range n.Members() {
		c.hands = append(c.hands, &workloads.Hand{Crew: &workloads.Crew{Lab: n.Lab}, Process: n.Rec.Process(), Node: p})
	}
	for _, h := range c.hands {
		c.work.Go(func() {
			for {
				select {
				case <-c.over:
					return
				case <-time.After(20 * time.Millisecond):
					c.call(h)
				}
			}
		})
	}
	return c
}

// call connects and enqueues a task with one copy, which every node that is reached must
// take.
func (c *comers) call(h *workloads.Hand) {
	before := h.Strain.Patient(h.Node)
	d, err := client.Dial(context.Background(), []string{h.Node.Dial}, h.Options(client.WithTimeout(3*time.Second))...)
	if err == nil {
		h.Client = d
		task := d.NewID()
		got := h.Send([]client.Task{{ID: task, Queue: workloads.Queues[0], Payload: fmt.Appendf(nil, "%s", task)}}, client.One, false)
		if err = d.Close(); len(got) != 1 {
			err = fmt.Errorf("nothing is answered")
		} else if got[0].Err != nil {
			err = got[0].Err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.calls++
	case h.Strain.Starved(h.Node, before):
		c.starved++
	default:
		c.calls++
		if c.failed++; c.first == nil {
			c.first = fmt.Errorf("%s: %w", h.Node.Name, err)
		}
	}
}

// gone ends it, and says what they have met.
func (c *comers) gone() {
	close(c.over)
	c.work.Wait()
	c.does("%d new connections meanwhile, %d failed", c.calls, c.failed)
	if c.failed > 0 {
		c.Found("availability", "certificates are replaced, and %d of %d clients that connect anew are kept out, the first with: %v", c.failed, c.calls, c.first)
	}
	cluster.Proven(c.Lab, c.calls > 0, "replaced certificates: no client has connected meanwhile")
}

// rotated: everything is signed by another authority in the end. First all believe both,
// then all show what the new one has signed, then nobody believes the old one.
func (n identity) rotated() error {
	old, fresh, err := n.Pki.Ca, (*cluster.Authority)(nil), error(nil)
	if fresh, err = n.Pki.Founds(); err != nil {
		return err
	}
	late, err := n.stranger(old, time.Now().Add(cluster.Lives))
	if err != nil {
		return err
	}
	before, err := reloads(n.Members())
	if err != nil {
		return err
	}
	came := n.come()
	n.does("all believe %s and %s", old.Cert.Subject.CommonName, fresh.Cert.Subject.CommonName)
	err = n.Pki.Trust(true, old, fresh)
	n.wait(2*cluster.Reload, 2*time.Second)
	if err == nil {
		err = n.Pki.Show(fresh)
	}
	for _, p := range n.some(len(n.Members())) {
		n.does("%s shows what %s has signed", p.Name, fresh.Cert.Subject.CommonName)
		err = errors.Join(err, n.Pki.Give(p, "port", cluster.Lives))
		n.wait(0, cluster.Reload)
		err = errors.Join(err, n.Pki.Give(p, "peer", cluster.Lives))
	}
	n.wait(2*cluster.Reload, 2*time.Second) // before a node believes the new one alone all others show what it has signed
	n.does("nobody believes %s", old.Cert.Subject.CommonName)
	err = errors.Join(err, n.Pki.Trust(true, fresh))
	n.wait(2*cluster.Reload, 2*time.Second)
	came.gone()
	if err != nil {
		return err
	}
	shown, err := n.issuers()
	if err != nil {
		n.Found("security", "all certificates are replaced, and whoever believes the new authority alone does not get in: %v", err)
		return cluster.ErrStuck
	}
	cluster.Proven(n.Lab, !slices.ContainsFunc(shown, func(s string) bool { return s != fresh.Cert.Subject.CommonName }), "replaced certificates: nodes show those of %v", shown)
	n.refuses(late, "a client with a certificate of "+old.Cert.Subject.CommonName, "unknown certificate authority")
	if err := n.restarted(); err != nil { // it meets the others with what they show now
		return err
	}
	if err := n.Whole(n.Caller.GoesOn(), cluster.Rest); err != nil {
		n.Found("stuck", "all certificates are replaced, and a node was restarted: %v", err)
		return cluster.ErrStuck
	}
	after, err := reloads(n.Members())
	for p, k := range after { // Any order: each is judged for itself.
		cluster.Proven(n.Lab, k > before[p], "replaced certificates: %s has read none for other nodes", p.Name)
	}
	return err
}

// reloads are how often nodes have read other certificates for each other, or were started.
func reloads(some []*cluster.Process) (map[*cluster.Process]int, error) {
	n := map[*cluster.Process]int{}
	for _, p := range some {
		all, err := p.Logged("tls.reloaded")
		if err != nil {
			return nil, err
		}
		p.Mu.Lock()
		n[p] = p.Lives
		p.Mu.Unlock()
		for _, e := range all {
			if e.Settings == "peer-tls" {
				n[p]++
			}
		}
	}
	return n, nil
}

// expired: what has expired lets nobody in, and it is said.
func (n identity) expired() error {
	past, err := n.stranger(n.Pki.Ca, time.Now().Add(-time.Minute))
	if err != nil {
		return err
	}
	n.refuses(past, "a client whose certificate has expired", "expired certificate")
	if err := n.rogue(); err != nil {
		return err
	}
	return n.runsOut()
}

// rogue has a node come whose certificate has expired.
func (n identity) rogue() error {
	p, err := n.Add()
	if err != nil {
		return err
	}
	if err := n.Pki.Give(p, "peer", -time.Minute); err != nil {
		return err
	}
	n.does("%s comes with a certificate that has expired", p.Name)
	p.Gone = true
	p.May(true)
	err = n.Attempt(p)
	p.Gone = true // no member, whatever it thinks of itself
	if err != nil {
		return err
	}
	seen := n.told(p, 0, "expired certificate", "has expired")
	for _, o := range n.Members() {
		s, err := n.Status(context.Background(), o)
		if err == nil && slices.ContainsFunc(s.GetNodes(), func(m *nornv1.NodeStatus) bool { return m.GetName() == p.Name }) {
			n.Found("security", "%s has taken %s for a member, whose certificate has expired", o.Name, p.Name) // I19
		}
		seen = seen || n.told(o, 0, "has expired", "expired certificate")
	}
	cluster.Proven(n.Lab, seen, "an expired certificate: neither %s nor who is asked says so", p.Name)
	return p.Kill()
}

// told waits until the log of a node has one of some texts, from some byte on.
func (n identity) told(p *cluster.Process, from int, texts ...string) bool {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		b, err := os.ReadFile(p.Log)
		b = b[min(from, len(b)):]
		if err == nil && slices.ContainsFunc(texts, func(s string) bool { return bytes.Contains(b, []byte(s)) }) {
			return true
		}
	}
	return false
}

// runsOut: the certificate of a member ends while it is away. The others go on without it,
// and with another certificate it is back by itself.
func (n identity) runsOut() error {
	two := n.some(2)
	p, witness := two[0], two[1]
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	n.does("the certificate of %s has expired when it is restarted", p.Name)
	if err := n.Pki.Give(p, "peer", -time.Second); err != nil {
		return err
	}
	var said [2]int // bytes of the logs
	for i, o := range two {
		b, err := os.ReadFile(o.Log)
		if err != nil {
			return err
		}
		said[i] = len(b)
	}
	if err := p.Stop(); err != nil {
		n.Found("internal", "SIGTERM: %v", err)
	}
	if err := n.Begin(p); err != nil {
		return err
	}
	n.wait(4*time.Second, 8*time.Second)
	s, err := n.Status(context.Background(), witness)
	if err != nil {
		return err
	}
	alive := slices.ContainsFunc(s.GetNodes(), func(m *nornv1.NodeStatus) bool { return m.GetName() == p.Name && m.GetAlive() })
	cluster.Proven(n.Lab, !alive, "an expired certificate: %s reaches %s all the same", witness.Name, p.Name)
	if !n.told(witness, said[1], "has expired", "expired certificate") {
		n.Found("security", "the certificate of %s has expired, and %s does not say why it lets nothing in", p.Name, witness.Name)
	}
	if !n.told(p, said[0], "tls.expired") {
		n.Found("security", "the certificate of %s has expired, and it does not say so", p.Name)
	}
	n.does("%s gets another one", p.Name)
	return n.Pki.Give(p, "peer", cluster.Lives)
}
