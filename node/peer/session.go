package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// maxHello bounds a frame of a connection that has not said who it is, bytes.
	maxHello = 64 << 10
	// replyQueue bounds what waits for a node that has dialled: replies and signs
	// of life, bytes.
	replyQueue = 8 << 20
)

// sessionKey names what there is once: a newer connection takes the place of an
// older one, which may be half open, and begins when that has ended. So what
// comes from a peer on one lane is handed over one at a time and in order.
type sessionKey struct {
	from register.Member
	lane Lane
}

// errReplaced ends a connection whose node has dialled again.
var errReplaced = errors.New("peer: replaced by a newer connection")

// session is a connection that another node has dialled. Its methods run on the
// goroutine that reads.
type session struct {
	n       *Network
	nc      net.Conn // as it was accepted
	over    net.Conn // what the link is of: TLS, perhaps
	link    *transport.Link
	shown   *x509.Certificate // by the other side; nil: none
	named   bool              // has said who it is
	open    bool              // messages may come
	key     sessionKey
	said    Hello         // what it was let in with; not changed once open
	done    chan struct{} // closed when nothing of it is under way any more
	burst   []message.PeerMessage
	version uint32             // that is spoken
	live    atomic.Bool        // the hello was answered
	watched watched            // by the watch alone
	stop    func()             // of the signs of life while a request to join is decided
	abandon context.CancelFunc // of a request to join
}

var _ transport.LinkHandler = (*session)(nil)

// Frame takes one frame.
func (s *session) Frame(f transport.Frame) error {
	method := nornv1.PeerMethod(f.Method)
	switch {
	case f.Flags&transport.FlagResponse != 0:
		return s.malformed(f, proto.Invalid("an answer came where none was asked for"))
	case method == nornv1.PeerMethod_PEER_METHOD_ALIVE && s.named:
	case !s.open && s.named:
		return s.malformed(f, proto.Invalid("one request is all that may come on this connection"))
	case !s.open:
		return s.first(f)
	case method == nornv1.PeerMethod_PEER_METHOD_RAFT:
		s.raft(f)
	case method == nornv1.PeerMethod_PEER_METHOD_ROUND:
		s.round(f)
	default:
		s.n.counts.unknown.Add(1)
	}
	return nil
}

// raft takes a message of the register's group, if it is of who has said hello: what a
// member says of itself may cost that member its place, and nobody else.
func (s *session) raft(f transport.Frame) {
	if sender := s.n.cfg.Sender; sender != nil {
		if from, err := sender(f.Body); err != nil || from != s.key.from {
			s.n.counts.malformed.Add(1)
			if s.n.journal.once("sender " + s.key.from.Incarnation.String()) {
				s.n.cfg.Logger.Error("peer.malformed", "peer", s.key.from.Node, "method", f.Method, "bytes", len(f.Body), "error", fmt.Sprintf("a message of the register's group, of %q", from.Node))
			}
			return
		}
	}
	s.n.raft.deliver(f.Body)
}

// round takes what the other node had for this one at the end of one of its rounds. A
// message that makes no sense costs only itself: its sender sends again, and a connection
// that ends takes more with it.
func (s *session) round(f transport.Frame) {
	err := decodeRound(slices.Clone(f.Body), func(method nornv1.PeerMethod, body []byte) {
		m, err := Decode(method, body)
		switch {
		case errors.Is(err, ErrUnknown):
			s.n.counts.unknown.Add(1)
		case err != nil:
			s.malformedMessage(uint16(method), len(body), err)
		default:
			s.n.counts.received.Add(1)
			s.burst = append(s.burst, m)
		}
	})
	if err != nil {
		s.malformedMessage(f.Method, len(f.Body), err)
	}
}

// malformedMessage counts and logs what makes no sense.
func (s *session) malformedMessage(method uint16, bytes int, err error) {
	s.n.counts.malformed.Add(1)
	if s.n.journal.once("malformed " + s.key.from.Incarnation.String()) {
		s.n.cfg.Logger.Error("peer.malformed", "peer", s.key.from.Node, "method", method, "bytes", bytes, "error", err)
	}
}

// Burst hands over what one read has brought.
func (s *session) Burst() {
	if len(s.burst) == 0 {
		return
	}
	s.n.cfg.Handler.Messages(s.key.from, s.burst)
	clear(s.burst)
	s.burst = s.burst[:0]
}

// Refused counts a frame that was passed over.
func (s *session) Refused(f transport.Frame, err error) {
	s.n.counts.crowded.Add(1)
	if s.n.journal.once("crowded " + s.key.from.Incarnation.String()) {
		s.n.cfg.Logger.Warn("peer.crowded", "peer", s.key.from.Node, "method", f.Method, "error", err)
	}
}

// Damaged counts a frame that did not fit its sums. Where it is the first one, the other
// side may have no sums: it hears so in a frame without them.
func (s *session) Damaged(err error) {
	who := s.key.from
	damaged(s.n, who.Node, who.Incarnation.String(), s.link.RemoteAddr().String(), err)
	if s.named {
		return
	}
	if b, err := gproto.Marshal(errNoSums.Proto()); err == nil {
		s.n.tell(s.over, string(transport.AppendFrame(nil, transport.Frame{Flags: transport.FlagResponse | transport.FlagError, Body: b})))
	}
}

// errNoSums is said to who may be of another version, or no node.
var errNoSums = proto.Invalid("the first frame does not fit its sums: a node of another build has sent it, and this one speaks version %d of the peer protocol, so update the older of the two; or it was damaged on its way (this is the port of nodes; clients have one of their own)", MaxVersion)

// damaged counts and logs a frame that did not fit its sums.
func damaged(n *Network, node, incarnation, remote string, err error) {
	n.counts.damaged.Add(1)
	if n.journal.once("damaged " + incarnation + " " + node) {
		n.cfg.Logger.Error("peer.damaged", "peer", node, "remote", remote, "reason", err)
	}
}

// first takes the first frame of a connection.
func (s *session) first(f transport.Frame) error {
	s.named = true
	switch nornv1.PeerMethod(f.Method) {
	case nornv1.PeerMethod_PEER_METHOD_HELLO:
		return s.hello(f)
	case nornv1.PeerMethod_PEER_METHOD_PROBE:
		return s.probe(f)
	case nornv1.PeerMethod_PEER_METHOD_JOIN:
		return s.join(f)
	}
	return s.malformed(f, proto.Invalid("method %d cannot come first", f.Method))
}

func (s *session) hello(f transport.Frame) error {
	var p nornv1.PeerHello
	if err := gproto.Unmarshal(f.Body, &p); err != nil {
		return s.malformed(f, err)
	}
	h, err := helloOf(&p)
	if err != nil {
		return s.malformed(f, err)
	}
	h.Remote, h.shown = s.link.RemoteAddr().String(), s.shown
	reply, refusal := s.n.greet(&h, p.GetSecret())
	s.key, s.said, s.done, s.version = sessionKey{h.From, h.Lane}, h, make(chan struct{}), reply.GetVersion()
	if refusal == nil {
		if refusal = s.n.enter(s); refusal != nil {
			reply.Refusal, reply.Error = refusal.Reason, refusal.proto()
		}
	}
	if refusal != nil {
		s.refused(h.From, h.Remote, refusal)
		return s.last(f, reply)
	}
	s.open = true
	s.n.arrivals.known(s.nc, true)
	s.link.SetMaxFrame(maxFrame(h.Lane))
	if s.version >= shares {
		s.link.SetIdle(0)
	}
	s.n.journal.forget(refusedKey(h.From))
	err = sendProto(s.link, nornv1.PeerMethod(f.Method), transport.FlagResponse, f.Request, reply)
	s.live.Store(true)
	return err
}

// refused logs and counts a refusal, once per node and reason.
func (s *session) refused(from register.Member, remote string, r *Refusal) {
	s.n.counts.refused.Add(1)
	if r.login != "" && !failed(s.n, s.nc, r.login) {
		s.link.Close(r) // too many answers to its address wait
	}
	if r.Reason == nornv1.PeerRefusal_PEER_REFUSAL_NOT_READY {
		return // whoever has let this node in comes back
	}
	if s.n.journal.changed(refusedKey(from), r.Message) {
		s.n.refusals.Say(func(times int) {
			s.n.cfg.Logger.Warn("peer.refused", "peer", from.Node, "incarnation", from.Incarnation.String(), "remote", remote, "reason", r.Message, "times", times)
		})
	}
}

func refusedKey(m register.Member) string { return "refused " + m.Node + " " + m.Incarnation.String() }

// last answers and ends the connection once that has left.
func (s *session) last(f transport.Frame, reply gproto.Message) error {
	err := sendProto(s.link, nornv1.PeerMethod(f.Method), transport.FlagResponse, f.Request, reply)
	s.link.Finish(err)
	return nil
}

// malformed answers what is not the protocol, and ends the connection.
func (s *session) malformed(f transport.Frame, err error) error {
	s.n.counts.malformed.Add(1)
	answer := proto.Invalid("%v (this is the port of nodes; clients have one of their own)", err).Proto()
	_ = sendProto(s.link, nornv1.PeerMethod(f.Method), transport.FlagResponse|transport.FlagError, f.Request, answer)
	s.link.Finish(err)
	return nil
}

// ended tidies up after the connection.
func (s *session) ended(err error) {
	n := s.n
	n.arrivals.leave(s.nc)
	if !s.named {
		if !errors.Is(err, transport.ErrDamaged) { // that was said
			n.refusal(s.nc.RemoteAddr(), err)
		}
	} else {
		n.mu.Lock()
		if n.sessions[s.key] == s {
			delete(n.sessions, s.key)
		}
		n.mu.Unlock()
	}
	if s.done != nil {
		close(s.done)
	}
	if s.stop != nil {
		s.stop()
	}
	if s.abandon != nil {
		s.abandon()
	}
	if s.open && !errors.Is(err, io.EOF) {
		n.cfg.Logger.Debug("peer.closed", "peer", s.key.from.Node, "lane", s.key.lane.String(), "reason", err)
	}
}

// enter makes a session the one of its node and lane, once the one before has
// ended.
func (n *Network) enter(s *session) *Refusal {
	// Less than the other side waits for its answer.
	patience := time.NewTimer(n.cfg.Timing.Hello / 2)
	defer patience.Stop()
	for {
		n.mu.Lock()
		old, quiet := n.sessions[s.key], n.quiet() // since it was judged; who hushes looks at the sessions after that
		if old == nil && quiet == nil {
			n.sessions[s.key] = s
		}
		n.mu.Unlock()
		if old == nil || quiet != nil {
			return quiet
		}
		old.link.Close(errReplaced)
		select {
		case <-old.done:
		case <-n.ctx.Done():
		case <-patience.C:
			return refuse(nornv1.PeerRefusal_PEER_REFUSAL_BUSY, "node %q still works on what came over the connection before", n.cfg.Self.Node)
		}
		if n.ctx.Err() != nil {
			return refuse(nornv1.PeerRefusal_PEER_REFUSAL_BUSY, "node %q is about to end", n.cfg.Self.Node)
		}
	}
}

// failed notes that who has connected does not prove to be a node, and returns when that may
// be answered; false: not now. Where members are others may be who are not.
func failed(n *Network, nc net.Conn, reason string) bool {
	return n.cfg.Logins.Judge(n.ctx, logins.Try{Port: logins.Peer, Remote: nc.RemoteAddr(), Reason: reason, Shared: n.arrivals.isHome(addrOf(nc))})
}

// refusal counts and logs what is no connection of a node. Anyone can cause
// these, so that they are logged once in a while only.
func (n *Network) refusal(from net.Addr, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || n.ctx.Err() != nil {
		return // somebody has looked whether the port is open, it gave way, or we are about to end
	}
	n.counts.malformed.Add(1)
	if remote := from.String(); n.journal.once(from.Network() + " " + stateOf(err)) {
		n.refusals.Say(func(times int) { n.cfg.Logger.Warn("peer.refused", "remote", remote, "reason", err, "times", times) })
	}
}
