package lab

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
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// certificates are the faults of who shows what (F19).
func certificates() []Fault {
	fault := func(name, about string, run func(identity) error) Fault {
		return Fault{Name: name, About: about, dress: certified, group: "certificates", run: func(n *nemesis) error { return run(identity{n}) }}
	}
	return []Fault{
		fault("rotate-certificates", "all certificates and their authority are replaced while everything runs: clients see nothing of it, and in the end the old ones are refused (F19)", identity.rotated),
		fault("expired-certificates", "a client and a node whose certificates have expired are let in by nobody; a member whose certificate runs out is refused by the others until it has another one (F19)", identity.expired),
	}
}

// identity is the nemesis of certificates.
type identity struct{ *nemesis }

// stranger is a client with a certificate of its own.
func (n identity) stranger(a *authority, until time.Time) (*tls.Config, error) {
	c, err := n.pki.issue(a, "a stranger", "", until)
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(c.cert, c.key)
	return n.pki.tls(&own), err
}

// refuses has a client try all it can through each node: nothing may succeed, and it is
// told that its certificate is the reason, in words that an authority's or a library's
// message has.
func (n identity) refuses(c *tls.Config, whose, words string) {
	tried, told, last := 0, 0, error(nil)
	for _, p := range n.members() {
		d, err := client.Dial(context.Background(), []string{p.dial}, client.WithTLS(c), client.WithTimeout(2*time.Second))
		if err != nil {
			last = err
			continue
		}
		for what, do := range intruder(n).attempts(d) { // Any order: none may succeed.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := do(ctx)
			cancel()
			if tried++; err == nil {
				n.found("security", "%s by %s has succeeded through %s", what, whose, p.name) // I19
			} else if last = err; strings.Contains(err.Error(), words) {
				told++
			}
		}
		_ = d.Close()
	}
	if n.does("%s: %d of %d attempts are told %q", whose, told, tried, words); told < tried || tried == 0 {
		n.found("security", "%s is refused %d times of %d for %q; the last time: %v", whose, told, tried, words, last)
	}
}

// issuers are who has signed what the client port of each node shows to whom connects now.
func (n identity) issuers() (all []string, err error) {
	for _, p := range n.members() {
		raw, err := net.DialTimeout("tcp", p.dial, patience)
		if err != nil {
			return nil, err
		}
		_ = raw.SetDeadline(time.Now().Add(patience))
		c := tls.Client(raw, n.pki.tls(nil))
		err = c.Handshake()
		if err == nil {
			all = append(all, c.ConnectionState().PeerCertificates[0].Issuer.CommonName)
		}
		if err = errors.Join(err, raw.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return all, nil
}

// comers are clients that connect anew for everything, while something goes on that must
// not keep them out.
type comers struct {
	identity
	hands []*hand
	over  chan struct{}
	work  sync.WaitGroup

	mu                     sync.Mutex // guards what follows
	calls, failed, starved int
	first                  error
}

// come begins to connect through each node again and again.
func (n identity) come() *comers {
	c := &comers{identity: n, over: make(chan struct{})}
	for _, p := range n.members() {
		c.hands = append(c.hands, &hand{crew: &crew{lab: n.lab}, process: n.rec.process(), node: p})
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
func (c *comers) call(h *hand) {
	before := h.strain.patient(h.node)
	d, err := client.Dial(context.Background(), []string{h.node.dial}, h.options(client.WithTimeout(3*time.Second))...)
	if err == nil {
		h.client = d
		task := d.NewID()
		got := h.send([]client.Task{{ID: task, Queue: queues[0], Payload: fmt.Appendf(nil, "%s", task)}}, client.One, false)
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
	case h.strain.starved(h.node, before):
		c.starved++
	default:
		c.calls++
		if c.failed++; c.first == nil {
			c.first = fmt.Errorf("%s: %w", h.node.name, err)
		}
	}
}

// gone ends it, and says what they have met.
func (c *comers) gone() {
	close(c.over)
	c.work.Wait()
	c.does("%d new connections meanwhile, %d failed", c.calls, c.failed)
	if c.failed > 0 {
		c.found("availability", "certificates are replaced, and %d of %d clients that connect anew are kept out, the first with: %v", c.failed, c.calls, c.first)
	}
	proven(c.lab, c.calls > 0, "replaced certificates: no client has connected meanwhile")
}

// rotated: everything is signed by another authority in the end. First all believe both,
// then all show what the new one has signed, then nobody believes the old one.
func (n identity) rotated() error {
	old, fresh, err := n.pki.ca, (*authority)(nil), error(nil)
	if fresh, err = n.pki.founds(); err != nil {
		return err
	}
	late, err := n.stranger(old, time.Now().Add(lives))
	if err != nil {
		return err
	}
	before, err := reloads(n.members())
	if err != nil {
		return err
	}
	came := n.come()
	n.does("all believe %s and %s", old.cert.Subject.CommonName, fresh.cert.Subject.CommonName)
	err = n.pki.trust(true, old, fresh)
	n.wait(2*reload, 2*time.Second)
	if err == nil {
		err = n.pki.show(fresh)
	}
	for _, p := range n.some(len(n.members())) {
		n.does("%s shows what %s has signed", p.name, fresh.cert.Subject.CommonName)
		err = errors.Join(err, n.pki.give(p, "port", lives))
		n.wait(0, reload)
		err = errors.Join(err, n.pki.give(p, "peer", lives))
	}
	n.wait(2*reload, 2*time.Second) // before a node believes the new one alone all others show what it has signed
	n.does("nobody believes %s", old.cert.Subject.CommonName)
	err = errors.Join(err, n.pki.trust(true, fresh))
	n.wait(2*reload, 2*time.Second)
	came.gone()
	if err != nil {
		return err
	}
	shown, err := n.issuers()
	if err != nil {
		n.found("security", "all certificates are replaced, and whoever believes the new authority alone does not get in: %v", err)
		return errStuck
	}
	proven(n.lab, !slices.ContainsFunc(shown, func(s string) bool { return s != fresh.cert.Subject.CommonName }), "replaced certificates: nodes show those of %v", shown)
	n.refuses(late, "a client with a certificate of "+old.cert.Subject.CommonName, "unknown certificate authority")
	if err := n.restarted(); err != nil { // it meets the others with what they show now
		return err
	}
	if err := n.whole(n.caller.goesOn(), rest); err != nil {
		n.found("stuck", "all certificates are replaced, and a node was restarted: %v", err)
		return errStuck
	}
	after, err := reloads(n.members())
	for p, k := range after { // Any order: each is judged for itself.
		proven(n.lab, k > before[p], "replaced certificates: %s has read none for other nodes", p.name)
	}
	return err
}

// reloads are how often nodes have read other certificates for each other, or were started.
func reloads(some []*process) (map[*process]int, error) {
	n := map[*process]int{}
	for _, p := range some {
		all, err := p.logged("tls.reloaded")
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		n[p] = p.lives
		p.mu.Unlock()
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
	past, err := n.stranger(n.pki.ca, time.Now().Add(-time.Minute))
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
	p, err := n.add()
	if err != nil {
		return err
	}
	if err := n.pki.give(p, "peer", -time.Minute); err != nil {
		return err
	}
	n.does("%s comes with a certificate that has expired", p.name)
	p.gone = true
	p.may(true)
	err = n.attempt(p)
	p.gone = true // no member, whatever it thinks of itself
	if err != nil {
		return err
	}
	seen := n.told(p, 0, "expired certificate", "has expired")
	for _, o := range n.members() {
		s, err := n.status(context.Background(), o)
		if err == nil && slices.ContainsFunc(s.GetNodes(), func(m *nornv1.NodeStatus) bool { return m.GetName() == p.name }) {
			n.found("security", "%s has taken %s for a member, whose certificate has expired", o.name, p.name) // I19
		}
		seen = seen || n.told(o, 0, "has expired", "expired certificate")
	}
	proven(n.lab, seen, "an expired certificate: neither %s nor who is asked says so", p.name)
	return p.kill()
}

// told waits until the log of a node has one of some texts, from some byte on.
func (n identity) told(p *process, from int, texts ...string) bool {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		b, err := os.ReadFile(p.log)
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
	n.hurt(p, true)
	defer n.hurt(p, false)
	n.does("the certificate of %s has expired when it is restarted", p.name)
	if err := n.pki.give(p, "peer", -time.Second); err != nil {
		return err
	}
	var said [2]int // bytes of the logs
	for i, o := range two {
		b, err := os.ReadFile(o.log)
		if err != nil {
			return err
		}
		said[i] = len(b)
	}
	if err := p.stop(); err != nil {
		n.found("internal", "SIGTERM: %v", err)
	}
	if err := n.begin(p); err != nil {
		return err
	}
	n.wait(4*time.Second, 8*time.Second)
	s, err := n.status(context.Background(), witness)
	if err != nil {
		return err
	}
	alive := slices.ContainsFunc(s.GetNodes(), func(m *nornv1.NodeStatus) bool { return m.GetName() == p.name && m.GetAlive() })
	proven(n.lab, !alive, "an expired certificate: %s reaches %s all the same", witness.name, p.name)
	if !n.told(witness, said[1], "has expired", "expired certificate") {
		n.found("security", "the certificate of %s has expired, and %s does not say why it lets nothing in", p.name, witness.name)
	}
	if !n.told(p, said[0], "tls.expired") {
		n.found("security", "the certificate of %s has expired, and it does not say so", p.name)
	}
	n.does("%s gets another one", p.name)
	return n.pki.give(p, "peer", lives)
}
