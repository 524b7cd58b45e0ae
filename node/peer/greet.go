package peer

import (
	"crypto/x509"

	"github.com/norn-dev/norn/internal/logins"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// life is the latest start of a data directory that was seen.
type life struct {
	boot, tag uint64
	proven    bool // it was asked back about, and not only said
}

// maxLives bounds how many of them are remembered: members, and removed ones.
const maxLives = register.MaxNodes + register.MaxRemoved

// hello is what this node says first on a lane.
func (n *Network) hello(l *lane, nonce uint64) *nornv1.PeerHello {
	c := &n.cfg
	return &nornv1.PeerHello{
		MinVersion: MinVersion, MaxVersion: MaxVersion, Cluster: cluster(n.Cluster()), Generation: c.Generation(), Revision: c.Revision(),
		From: node(c.Self), To: node(l.to), Boot: c.Boot, Life: n.life, Lane: nornv1.PeerLane(l.which),
		Addresses: c.Advertise, Secret: []byte(c.Secrets.First()), Build: c.Build, Nonce: nonce,
	}
}

// greet judges a hello and answers it.
func (n *Network) greet(h *Hello, secret []byte) (*nornv1.PeerHelloReply, *Refusal) {
	version, refusal := speak(h.MinVersion, h.MaxVersion)
	reply := &nornv1.PeerHelloReply{From: node(n.cfg.Self), Build: n.cfg.Build}
	if refusal == nil {
		refusal = n.checkSecret(secret)
	}
	if refusal == nil {
		refusal = n.checkNames(h.shown, h.From.Node)
	}
	if refusal == nil { // who has proved to belong here hears more
		reply.Cluster, reply.Generation = cluster(n.Cluster()), n.cfg.Generation()
		reply.Secret = []byte(n.cfg.Secrets.First())
		refusal = n.judge(h)
	}
	if refusal != nil {
		reply.Refusal, reply.Error = refusal.Reason, refusal.proto()
		return reply, refusal
	}
	if !h.proven { // what it says is no sign that the member it names lives
		version = min(version, shares-1)
	}
	reply.Version = version
	return reply, nil
}

// checkSecret refuses who does not know a secret of the cluster. The comparison takes constant
// time (package secrets).
func (n *Network) checkSecret(secret []byte) *Refusal {
	if n.cfg.Secrets.Accepts(secret) {
		return nil
	}
	what, login := "wrong", logins.WrongSecret
	switch {
	case len(secret) == 0:
		what, login = "missing", logins.NoSecret
	case len(n.cfg.Secrets) == 0:
		what = "not set on the node that was dialled"
	}
	r := refuse(nornv1.PeerRefusal_PEER_REFUSAL_SECRET, "the cluster's secret is %s: it must be the same on all nodes", what)
	r.login = login
	return r
}

// checkNames refuses a node whose certificate is not for its name.
func (n *Network) checkNames(shown *x509.Certificate, node string) *Refusal {
	if err := n.cfg.Names.Of(shown, node); err != nil {
		r := refuse(nornv1.PeerRefusal_PEER_REFUSAL_NOT_ADMITTED, "%v", err)
		r.login = logins.Name
		return r
	}
	return nil
}

// judge decides about a peer that speaks our version and knows our secret.
func (n *Network) judge(h *Hello) *Refusal {
	self, own := n.cfg.Self, n.Cluster()
	switch {
	case h.From.Incarnation == self.Incarnation:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_SELF,
			"nodes %q and %q have the same incarnation %s: one runs on a copy of the other's data directory, or an address is wrong", h.From.Node, self.Node, self.Incarnation)
	case own == register.UUID{}:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_NOT_READY, "node %q is not a member of a cluster yet", self.Node)
	case h.Cluster != own:
		if n.cfg.Rival != nil && h.To.Node == self.Node && h.Cluster != (register.UUID{}) {
			n.cfg.Rival(h)
		}
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_CLUSTER, "node %q belongs to cluster %s, node %q to %s: check the address", h.From.Node, h.Cluster, self.Node, own)
	case h.To != self:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_OTHER_NODE,
			"node %q of incarnation %s was meant, and at this address is node %q of incarnation %s: it was formatted anew or replaced, or the address is out of date", h.To.Node, h.To.Incarnation, self.Node, self.Incarnation)
	}
	if r := n.quiet(); r != nil {
		return r
	}
	if n.cfg.Admit != nil {
		if err := n.cfg.Admit(*h); err != nil {
			return refuse(nornv1.PeerRefusal_PEER_REFUSAL_NOT_ADMITTED, "%v", err)
		}
	}
	from := n.askBack(h)
	h.proven = from == proven
	return n.alive(h, from)
}

// alive refuses a start of a data directory that is not the latest: it runs on a
// copy, and may have forgotten what it promised (design K4). What is remembered as the
// latest decides about its incarnation, so that who only says that it is this node does
// not change it.
//
// What is remembered is bounded by [maxLives], and what was only said gives way to what asking
// back has shown.
func (n *Network) alive(h *Hello, from origin) *Refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.lives[h.From.Incarnation]
	for _, lane := range []Lane{Control, Bulk} {
		// One that has ended is gone within Timing.Idle, and at once where only the
		// process has. One that only said that it is this node gives way to who proves it.
		if from == proven && !known.proven {
			break
		}
		if s := n.sessions[sessionKey{h.From, lane}]; s != nil && s.said.Life != h.Life && s.said.Boot > 0 && s.said.Boot <= h.Boot {
			return refuse(nornv1.PeerRefusal_PEER_REFUSAL_OLD_LIFE,
				"node %q is connected in start %d already, and this is start %d: one process runs on a copy of the other's data directory; stop it and format it anew", h.From.Node, s.said.Boot, h.Boot)
		}
	}
	switch {
	case from == foreign:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_OLD_LIFE,
			"node %q answers at its address and has not said this hello: one process runs on a copy of the other's data directory, or says that it is another node", h.From.Node)
	case h.Boot == 0:
		return nil
	case from == proven && !known.proven && (known.boot > 0 || len(n.lives) < maxLives):
		n.lives[h.From.Incarnation] = life{h.Boot, h.Life, true} // what was said before was said by nobody that could be asked
	case h.Boot < known.boot:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_SET_BACK,
			"start %d of node %q was seen already and this is start %d: its data directory was set back, or is an old copy", known.boot, h.From.Node, h.Boot)
	case h.Boot == known.boot && h.Life != known.tag:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_SET_BACK,
			"another process was in start %d of node %q: the data directory was set back, or one runs on a copy of the other's", h.Boot, h.From.Node)
	case from != proven && h.Boot-known.boot > maxJump:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_NOT_ADMITTED,
			"node %q says that this is its start %d, and was seen in start %d; it does not answer at its address, where it could be asked: set --peer-advertise to where others reach it", h.From.Node, h.Boot, known.boot)
	case known.boot > 0 || len(n.lives) < maxLives:
		n.lives[h.From.Incarnation] = life{h.Boot, h.Life, from == proven}
	}
	return nil
}

// agree judges the answer to a hello.
func (n *Network) agree(to register.Member, p *nornv1.PeerHelloReply) error {
	if err := refusalOf(p.GetRefusal(), p.GetError(), p.GetFrom()); err != nil {
		return err
	}
	from, err := member(p.GetFrom())
	if err != nil {
		return err
	}
	theirs, err := uuid(p.GetCluster())
	if err != nil {
		return err
	}
	own := n.Cluster()
	switch {
	case !n.cfg.Secrets.Accepts(p.GetSecret()):
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_SECRET, "node %q does not know the cluster's secret", from.Node)
	case theirs != own:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_CLUSTER, "node %q belongs to cluster %s, this one to %s", from.Node, theirs, own)
	case from != to:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_OTHER_NODE, "node %q of incarnation %s answers instead of node %q of incarnation %s", from.Node, from.Incarnation, to.Node, to.Incarnation)
	case p.GetVersion() < MinVersion || p.GetVersion() > MaxVersion:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_VERSION, "node %q wants to speak version %d of the peer protocol, this build speaks %d to %d", from.Node, p.GetVersion(), MinVersion, MaxVersion)
	}
	return nil
}
