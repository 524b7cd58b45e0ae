package node

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// client is what the node keeps per connection.
type client struct {
	ready   atomic.Bool // hello was accepted: who is set
	who     *access.Caller
	rights  *guard.Principal // what it could do when rights changed last; nil: since its hello. It is the doorkeeper's
	asked   bool             // whether this is the cluster that it expects
	out     inbox.Delivery
	cancels atomic.Int32 // cancel frames in the inbox
	held    atomic.Int64 // bytes of its requests in the inbox
	reads   atomic.Int64 // of its requests that wait for their turn
	pinged  time.Time    // when the core was told last that it pings
	moved   time.Time    // when it was told last that a part of a frame has come
}

// pingsTold is the least time between two pings of a connection that the core hears of, or
// parts of a frame.
const pingsTold = 500 * time.Millisecond

// helloBytes bounds a frame of a connection that has not said who it is.
const helloBytes = 64 << 10

// api is the client port: it decodes frames on the connections' goroutines and
// hands the requests to the loop in batches.
type api struct {
	n     *Node
	scale inbox.Scale
}

var _ transport.Handler = api{}

func (a api) Open(c *transport.Conn) {
	c.SetMaxFrame(helloBytes)
	c.SetAttachment(&client{})
	a.n.conns.Store(c.ID(), c)
	a.n.metrics.Connections.Inc()
}

func (a api) Closed(c *transport.Conn, _ error) {
	a.n.conns.Delete(c.ID())
	a.n.metrics.Connections.Dec()
	a.n.opts.Access.Leave(c.Attachment().(*client).who)
	if a.n.opts.Spans != nil {
		a.n.opts.Spans.Closed(c.ID())
	}
	if c.Attachment().(*client).ready.Load() { // the core has heard of no other, and does not run before the first
		a.n.inbox.Gone(c.ID())
	}
}

func (a api) Cancel(c *transport.Conn, request uint64) {
	s := c.Attachment().(*client)
	if !s.ready.Load() { // it would have no time to say hello in any more
		c.Finish(errors.New("a cancel came first, not hello"))
		return
	}
	// A client cancels what is open, once: more than it may have open is noise.
	if int(s.cancels.Load()) >= a.n.cfg.MaxInFlight {
		return
	}
	s.cancels.Add(1)
	a.Batch(c) // what is cancelled may still be in the delivery
	a.n.inbox.Follow(inbox.Cancelled{Cancel: message.Cancel{From: message.Origin{Conn: c.ID(), Request: request}}, Count: &s.cancels})
}

// moving hears of parts of a frame: a client that sends a large one over a slow line lives.
func (a api) moving(c *transport.Conn) {
	s := c.Attachment().(*client)
	if now := time.Now(); s.ready.Load() && now.Sub(s.moved) >= pingsTold {
		s.moved = now
		a.n.inbox.Post(message.Heard{Conn: c.ID(), Part: true})
	}
}

func (a api) Batch(c *transport.Conn) {
	s := c.Attachment().(*client)
	if !s.out.Empty() {
		a.n.inbox.Put(&s.out)
		s.out.Reset()
	}
}

func (a api) Handle(c *transport.Conn, f transport.Frame) {
	s := c.Attachment().(*client)
	method := nornv1.Method(f.Method)
	if !s.ready.Load() {
		a.hello(c, s, f)
		return
	}
	of := carried(method)
	if of == nil {
		if method == nornv1.Method_METHOD_PING {
			if now := time.Now(); now.Sub(s.pinged) >= pingsTold {
				s.pinged = now
				a.n.inbox.Post(message.Heard{Conn: c.ID()})
			}
			a.answer(c, f, &nornv1.PingReply{Placement: a.n.placement(), Now: clientsTime(a.n)})
			return
		}
		if request := aboutRights(method); request != nil {
			a.askRights(c, s, f, request)
			return
		}
		a.refuse(c, f, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED,
			"method %d is not known to this server (version %s)", f.Method, a.n.opts.Version))
		return
	}
	weight, longest := a.scale.Weigh(method, f.Body)
	if err := inbox.TooHeavy(weight, longest); err != nil {
		a.refuse(c, f, err)
		return
	}
	if !a.n.inbox.Admit(&s.held, weight, of.Urgent) {
		a.refuse(c, f, crowded(a.n))
		return
	}
	body := of.Request()
	if err := gproto.Unmarshal(f.Body, body); err != nil {
		a.n.inbox.Leave(&s.held, weight)
		a.refuse(c, f, proto.Invalid("malformed %s of %d bytes: %v", body.ProtoReflect().Descriptor().Name(), len(f.Body), err))
		return
	}
	scope, err := a.n.opts.Access.Check(s.who, method, body)
	if err != nil {
		a.n.inbox.Leave(&s.held, weight)
		a.refuse(c, f, err)
		if err.Kind == nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED {
			c.Finish(err) // the token has ended
		}
		return
	}
	r := &message.Request{From: message.Origin{Conn: c.ID(), Request: f.Request, Method: f.Method}, Body: body, Received: a.n.clock.Mono(), Scope: scope, By: a.n.opts.Access.Sign(s.who, body)}
	if f.Deadline > 0 {
		r.Deadline = r.Received + int64(f.Deadline)
	}
	if a.n.opts.Spans != nil {
		a.n.opts.Spans.Begun(c.ID(), f.Request, method)
	}
	if of.Urgent {
		s.out.First = append(s.out.First, inbox.Waiting{Event: r, Weight: weight, Held: &s.held})
		return
	}
	s.out.Rest = append(s.out.Rest, inbox.Waiting{Event: r, Weight: weight, Held: &s.held})
}

// carried is the method of a client's request; nil: clients have none of that number, or none that
// carries a request.
func carried(m nornv1.Method) *message.Method {
	if of := message.MethodOf(m); of != nil && !of.Internal {
		return of
	}
	return nil
}

// hello judges the first frame of a connection.
func (a api) hello(c *transport.Conn, s *client, f transport.Frame) {
	reply, err := a.greet(c, s, f)
	if err != nil {
		a.refuse(c, f, err)
		c.Finish(fmt.Errorf("hello refused: %w", err))
		return
	}
	if reply.GetClusterId() == "" { // it was not told: the hello proper is to follow
		s.asked = true
		c.Unheard()
		a.answer(c, f, reply)
		return
	}
	s.ready.Store(true)
	c.SetMaxFrame(proto.MaxFrame)
	a.answer(c, f, reply)
}

func (a api) greet(c *transport.Conn, s *client, f transport.Frame) (*nornv1.HelloReply, *proto.Error) {
	if nornv1.Method(f.Method) != nornv1.Method_METHOD_HELLO {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "the first frame has method %d, not hello (%d)", f.Method, nornv1.Method_METHOD_HELLO)
	}
	var h nornv1.Hello
	if err := gproto.Unmarshal(f.Body, &h); err != nil {
		return nil, proto.Invalid("malformed Hello of %d bytes: %v", len(f.Body), err)
	}
	if h.GetMaxVersion() < proto.MinVersion || h.GetMinVersion() > proto.MaxVersion {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "the client speaks protocol versions %d to %d, this server %d to %d; update the older of the two", h.GetMinVersion(), h.GetMaxVersion(), proto.MinVersion, proto.MaxVersion)
	}
	if !a.n.begun.Load() {
		return nil, notBegun(a.n)
	}
	cluster := a.n.cluster.ID.String()
	if h.GetOnlyCluster() {
		switch {
		case s.asked:
			return nil, proto.Invalid("only_cluster comes once; send the hello proper")
		case h.GetClusterId() != cluster: // which one it is, only who has a token is told
			return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "this is another cluster than %.64q; check the address", h.GetClusterId())
		}
		return &nornv1.HelloReply{Version: min(h.GetMaxVersion(), proto.MaxVersion)}, nil
	}
	who, err := door{a.n}.admits(c.RemoteAddr(), c.TLS(), &h)
	if err != nil {
		return nil, err
	}
	if err := a.n.opts.Access.Arrive(who); err != nil {
		return nil, err
	}
	s.who = who
	if want := h.GetClusterId(); want != "" && want != cluster {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "this is cluster %s, not %s; check the address", cluster, want)
	}
	return greeting(a.n, min(h.GetMaxVersion(), proto.MaxVersion)), nil
}

// greeting is what a node says of itself.
func greeting(n *Node, version uint32) *nornv1.HelloReply {
	return &nornv1.HelloReply{
		Version: version, ClusterId: n.cluster.ID.String(), Node: n.self.Node,
		ServerVersion: n.opts.Version, Limits: n.limits(), Placement: n.placement(),
		EtaSeconds: n.cfg.Eta.Seconds(), Now: clientsTime(n),
	}
}

// clientsTime is the time that clients are told: that of the cluster, as far as this node
// knows it. Bulk actions leave out what was enqueued after their begin, and with a clock
// that is a day behind that would be everything.
func clientsTime(n *Node) *timestamppb.Timestamp {
	return timestamppb.New(n.clock.Wall().Add(time.Duration(n.metrics.Core.Load().ClockRight)))
}

// notBegun is what a node says that is not in a cluster yet.
func notBegun(n *Node) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "node %s waits to be let into a cluster; try again, or another node", n.self.Node).Again(time.Second)
}

// crowded refuses a request for which the inbox has no room.
func crowded(n *Node) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "requests of %d bytes wait already, of at most %d (max-inbox), and no connection may have more than its share", n.inbox.Bytes.Load(), n.cfg.MaxInbox).Again(100 * time.Millisecond)
}

func (a api) answer(c *transport.Conn, f transport.Frame, m gproto.Message) {
	c.Reply(f.Request, f.Method, 0, &wireBody{m: m})
}

func (a api) refuse(c *transport.Conn, f transport.Frame, err *proto.Error) {
	c.Reply(f.Request, f.Method, transport.FlagError, &wireBody{m: err.Proto()})
}

// replier takes the answer to a request, or says that nobody is left to take it.
type replier interface {
	Reply(request uint64, method, flags uint16, body transport.Body) bool
}

// send gives a reply of the core to its connection.
func (n *Node) send(r *message.Reply) {
	if c := (answers{n}).hold(r); c != nil {
		c.FlushLater()
	}
}

// answers are those of a round.
type answers struct{ *Node }

// sendAll gives replies to their connections; those to one leave in one write.
func (n answers) sendAll(all []message.Reply) {
	var conns []*transport.Conn
	for i := range all {
		if c := n.hold(&all[i]); c != nil && !slices.Contains(conns[max(0, len(conns)-8):], c) {
			conns = append(conns, c)
		}
	}
	transport.FlushAll(conns)
}

// hold queues a reply of the core at its connection, and gives that to be flushed;
// nil: there is nothing to flush. Grants that surely never left are told back to the
// core, which frees them.
func (n answers) hold(r *message.Reply) *transport.Conn {
	if r.To.Internal() {
		n.inbox.Post(message.Answered{Reply: *r})
		return nil
	}
	body := &wireBody{m: r.Message}
	flags := uint16(0)
	if r.Err != nil {
		body.m, flags = r.Err.Proto(), transport.FlagError
	}
	if len(r.Grants) > 0 {
		grants := r.Grants
		body.dropped = func() { n.inbox.Post(message.Undelivered{Grants: grants}) }
	}
	conns := &n.conns
	if r.To.Conn > localConns {
		conns = &n.locals
	}
	if n.opts.Spans != nil && r.To.Conn < localConns {
		n.opts.Spans.Ended(r.To.Conn, r.To.Request, r.Err)
	}
	at, ok := conns.Load(r.To.Conn)
	if c, is := at.(*transport.Conn); is && c.HoldReply(r.To.Request, r.To.Method, flags, body) {
		return c
	} else if is || !ok || !at.(replier).Reply(r.To.Request, r.To.Method, flags, body) {
		body.Dropped()
	}
	return nil
}

// wireBody is a reply that is encoded when it is written.
type wireBody struct {
	m       gproto.Message
	dropped func()
}

// Size gives the length of the encoding in bytes.
func (b *wireBody) Size() int { return gproto.Size(b.m) }

// AppendTo appends the encoding.
func (b *wireBody) AppendTo(dst []byte) ([]byte, error) {
	return gproto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, b.m)
}

// Dropped hears that the reply surely never left.
func (b *wireBody) Dropped() {
	if b.dropped != nil {
		b.dropped()
	}
}

// errorBody turns an error of the transport into the error of the wire.
func errorBody(err error) transport.Body {
	kind := nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
	switch {
	case errors.Is(err, transport.ErrTooManyConns), errors.Is(err, transport.ErrCrowded), errors.Is(err, transport.ErrBacklog):
		kind = nornv1.ErrorKind_ERROR_KIND_OVERLOADED
	case errors.Is(err, transport.ErrEncode):
		kind = nornv1.ErrorKind_ERROR_KIND_INTERNAL
	}
	e := proto.Refused(kind, "%v", err)
	if kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		e.RetryAfter = time.Second
	}
	if errors.Is(err, transport.ErrEncode) || errors.Is(err, transport.ErrBacklog) {
		e.Effect = nornv1.Effect_EFFECT_UNKNOWN // it was carried out, and this is in the place of its answer
	}
	return &wireBody{m: e.Proto()}
}
