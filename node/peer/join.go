package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// JoinRequest is what a node that wants to become a member says.
type JoinRequest struct {
	MinVersion, MaxVersion uint32        // of the peer protocol; filled in by [Dialer.Join]
	Cluster                register.UUID // that it means; zero: whichever answers
	Node                   register.Node // as it wants to be known; Status, Version and Changed do not count
	Build                  string        // version of the program
	Remote                 string        // the address it comes from; filled in by who is asked
	// Reached is to be called when the node was found where it says it is: until then there is
	// less time, and others have places of their own. Filled in by who is asked.
	Reached func()

	shown *x509.Certificate // by the joiner; nil: none
}

// JoinReply is what a node that was let in has to know.
type JoinReply struct {
	Cluster    register.Cluster
	Generation uint64          // of the register
	Members    []register.Node // for the first contact; Version and Changed are 0
	By         register.Member // who has answered; filled in by the network
}

// Identity is who answers at an address.
type Identity struct {
	Member                 register.Member
	MinVersion, MaxVersion uint32        // of the peer protocol
	Cluster                register.UUID // zero: it is no member yet
	Generation             uint64
	Rebuilt                uint64 // the generation that last began from a backup; 0: none
	Build                  string
	Expect                 int    // of one that is no member: with how many nodes it is to make a cluster; 0: none
	Among                  []byte // tells those apart that are to make it with others
	Known                  *Known // with [Dialer.Spare]: what it knows of who asks; nil: nothing is said
}

// Known is what a node knows of another one, and of the register.
type Known struct {
	Boot, Life   uint64 // the latest start of its directory, and its process; 0: none was seen
	Term, Commit uint64 // of the register's group
	Follows      bool   // it hears a leader, so that it knows what is decided
}

// session, continued: the requests that come instead of a hello.

func (s *session) probe(f transport.Frame) error {
	var p nornv1.PeerProbe
	if err := gproto.Unmarshal(f.Body, &p); err != nil {
		return s.malformed(f, err)
	}
	n := s.n
	_, refusal := speak(p.GetMinVersion(), p.GetMaxVersion())
	if refusal == nil {
		refusal = n.checkSecret(p.GetSecret())
	}
	if refusal != nil {
		s.refused(register.Member{}, s.link.RemoteAddr().String(), refusal)
		return s.last(f, &nornv1.PeerProbeReply{Refusal: refusal.Reason, Error: refusal.proto(), From: node(n.cfg.Self)})
	}
	reply := &nornv1.PeerProbeReply{
		MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(n.cfg.Self),
		Cluster: cluster(n.Cluster()), Generation: n.cfg.Generation(), Build: n.cfg.Build,
		Rebuilt: n.cfg.Rebuilt(),
	}
	if n.Cluster() == (register.UUID{}) {
		reply.Expect, reply.Among = uint32(n.cfg.Expect), n.cfg.Among
	}
	if p.GetSpare() != nil && n.cfg.Spare != nil {
		who, err := member(p.GetSpare())
		if err != nil {
			return s.malformed(f, err)
		}
		reply.Spare = spareProto(n.cfg.Spare(who), n.cfg.Addresses)
		reply.Known = knownHere(n, who)
	}
	reply.Yours = p.GetNonce() != 0 && n.hellos.has(p.GetNonce())
	if p.GetMembers() && n.cfg.Members != nil {
		for _, m := range n.cfg.Members() {
			reply.Members = append(reply.Members, memberProto(m))
		}
	}
	return s.last(f, reply)
}

func (s *session) join(f transport.Frame) error {
	var p nornv1.PeerJoin
	err := gproto.Unmarshal(f.Body, &p)
	r := JoinRequest{MinVersion: p.GetMinVersion(), MaxVersion: p.GetMaxVersion(), Build: build(p.GetBuild()), Remote: s.link.RemoteAddr().String(), shown: s.shown}
	if err == nil {
		r.Cluster, err = uuid(p.GetCluster())
	}
	if err == nil {
		r.Node, err = memberOf(p.GetNode())
	}
	if err != nil {
		return s.malformed(f, err)
	}
	if refusal := s.n.mayAsk(&r, p.GetSecret()); refusal != nil {
		s.refused(r.Node.Member, r.Remote, refusal)
		return s.last(f, &nornv1.PeerJoinReply{Refusal: refusal.Reason, Error: refusal.proto(), From: node(s.n.cfg.Self)})
	}
	s.n.arrivals.known(s.nc, false)
	f.Body = nil // it is the reader's
	ctx, cancel := context.WithTimeout(s.n.ctx, s.n.cfg.Timing.Join)
	ctx, end := context.WithCancelCause(ctx)
	one := s.n.joins.enter(addrOf(s.nc), end)
	late := time.AfterFunc(2*s.n.cfg.Timing.Hello, func() { end(errUnreached) })
	r.Reached = func() {
		if late.Stop() {
			s.n.joins.reached(one)
		}
	}
	over := func() {
		late.Stop()
		s.n.joins.leave(one)
		end(nil)
		cancel()
	}
	s.abandon, s.stop = cancel, beat(s.link, s.n.cfg.Timing.Alive)
	if !s.n.spawn(func() {
		defer over()
		_ = s.last(f, s.n.decide(ctx, r)) // an error ends the connection
	}) {
		over()
		return ErrClosed
	}
	return nil
}

// errUnreached ends a request whose node is not found where it says it is.
var errUnreached = errors.New("the node was not reached in time at the address that it says; set --peer-advertise to where others reach it")

// mayAsk judges a request to join before anyone thinks about it.
func (n *Network) mayAsk(r *JoinRequest, secret []byte) *Refusal {
	if _, refusal := speak(r.MinVersion, r.MaxVersion); refusal != nil {
		return refusal
	}
	if refusal := n.checkSecret(secret); refusal != nil {
		return refusal
	}
	if refusal := n.checkNames(r.shown, r.Node.Node); refusal != nil {
		return refusal
	}
	self, own := n.cfg.Self, n.Cluster()
	switch {
	case r.Node.Incarnation == self.Incarnation:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_SELF, "this is the node itself, or one that runs on a copy of its data directory")
	case own == register.UUID{}:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_NOT_READY, "node %q is not a member of a cluster yet", self.Node)
	case r.Cluster != register.UUID{} && r.Cluster != own:
		return refuse(nornv1.PeerRefusal_PEER_REFUSAL_CLUSTER, "node %q belongs to cluster %s, not %s", self.Node, own, r.Cluster)
	}
	return nil
}

// decide asks the handler.
func (n *Network) decide(ctx context.Context, r JoinRequest) *nornv1.PeerJoinReply {
	reply, err := n.cfg.Handler.Join(ctx, r)
	p := &nornv1.PeerJoinReply{From: node(n.cfg.Self)}
	if err != nil && errors.Is(context.Cause(ctx), ErrBusy) {
		n.counts.refused.Add(1)
		p.Refusal, p.Error = errGaveWay.Reason, errGaveWay.proto()
		return p
	}
	if err != nil && errors.Is(context.Cause(ctx), errUnreached) {
		err = errUnreached
	}
	if err != nil {
		var known *proto.Error
		if !errors.As(err, &known) {
			known = &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, Message: err.Error()}
		}
		p.Error = known.Proto()
		n.unjoined.Say(func(times int) {
			n.cfg.Logger.Warn("peer.join", "peer", r.Node.Node, "incarnation", r.Node.Incarnation.String(), "remote", r.Remote, "error", err, "times", times)
		})
		return p
	}
	p.Cluster, p.Generation = cluster(reply.Cluster.ID), reply.Generation
	p.Partitions, p.Replicas = uint32(reply.Cluster.Partitions), uint32(reply.Cluster.Replicas)
	for _, m := range reply.Members {
		p.Members = append(p.Members, memberProto(m))
	}
	n.cfg.Logger.Info("peer.join", "peer", r.Node.Node, "incarnation", r.Node.Incarnation.String(), "remote", r.Remote)
	return p
}

// Join asks to become a member, at each of the addresses in turn until one says
// yes. ctx bounds all of it. The error joins what each of them said: a *Refusal,
// a *proto.Error of the cluster, or what became of the connection.
func (d Dialer) Join(ctx context.Context, addresses []string, r JoinRequest) (JoinReply, error) {
	ask := &nornv1.PeerJoin{
		MinVersion: MinVersion, MaxVersion: MaxVersion, Cluster: cluster(r.Cluster), Node: memberProto(r.Node),
		Secret: []byte(d.Secrets.First()), Build: d.Build,
	}
	all := []error{ErrNoAddress}
	for i, addr := range addresses {
		var p nornv1.PeerJoinReply
		err := d.ask(ctx, addr, nornv1.PeerMethod_PEER_METHOD_JOIN, ask, &p)
		var reply JoinReply
		if err == nil {
			reply, err = joinReplyOf(&p)
		}
		if err == nil {
			return reply, nil
		}
		if i == 0 {
			all = nil
		}
		all = append(all, fmt.Errorf("%s: %w", addr, err))
		if ctx.Err() != nil {
			break
		}
	}
	return JoinReply{}, errors.Join(all...)
}

func joinReplyOf(p *nornv1.PeerJoinReply) (r JoinReply, err error) {
	if err := refusalOf(p.GetRefusal(), p.GetError(), p.GetFrom()); err != nil {
		return r, err
	}
	if e := p.GetError(); e != nil {
		known := proto.FromProto(e)
		known.Message = text(known.Message)
		return r, known
	}
	r.Generation = p.GetGeneration()
	if r.By, err = member(p.GetFrom()); err != nil {
		return r, err
	}
	if r.Cluster.ID, err = uuid(p.GetCluster()); err != nil {
		return r, err
	}
	if r.Cluster.ID == (register.UUID{}) || p.GetPartitions() > math.MaxInt32 || p.GetReplicas() > math.MaxInt32 {
		return r, fmt.Errorf("%w: a cluster that cannot be", ErrMalformed)
	}
	r.Cluster.Partitions, r.Cluster.Replicas = int(p.GetPartitions()), int(p.GetReplicas())
	r.Members, err = membersOf(p.GetMembers())
	return r, err
}

// Probe asks who answers at an address.
func (d Dialer) Probe(ctx context.Context, addr string) (Identity, error) {
	return d.probe(ctx, addr, &nornv1.PeerProbe{}, &nornv1.PeerProbeReply{})
}

func (d Dialer) probe(ctx context.Context, addr string, ask *nornv1.PeerProbe, p *nornv1.PeerProbeReply) (Identity, error) {
	ask.MinVersion, ask.MaxVersion, ask.Secret = MinVersion, MaxVersion, []byte(d.Secrets.First())
	err := d.ask(ctx, addr, nornv1.PeerMethod_PEER_METHOD_PROBE, ask, p)
	if err == nil {
		err = refusalOf(p.GetRefusal(), p.GetError(), p.GetFrom())
	}
	if err != nil {
		return Identity{}, err
	}
	i := Identity{MinVersion: p.GetMinVersion(), MaxVersion: p.GetMaxVersion(), Generation: p.GetGeneration(), Rebuilt: p.GetRebuilt(), Build: build(p.GetBuild()), Expect: int(p.GetExpect()), Among: p.GetAmong()}
	if i.Member, err = member(p.GetFrom()); err != nil {
		return Identity{}, err
	}
	i.Cluster, err = uuid(p.GetCluster())
	return i, err
}
