package norntest

import (
	"strings"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// port is the client port.
type port struct{ l *life }

var _ transport.Handler = port{}

func (p port) Open(c *transport.Conn) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.conns[c.ID()] = c
}

func (p port) Closed(c *transport.Conn, _ error) {
	p.l.mu.Lock()
	delete(p.l.conns, c.ID())
	p.l.mu.Unlock()
	p.l.post(message.Gone{Conn: c.ID()})
}

func (p port) Batch(*transport.Conn) {}

func (p port) Cancel(c *transport.Conn, request uint64) {
	p.l.post(message.Cancel{From: message.Origin{Conn: c.ID(), Request: request}})
}

func (p port) Handle(c *transport.Conn, f transport.Frame) {
	method := nornv1.Method(f.Method)
	switch method {
	case nornv1.Method_METHOD_HELLO:
		p.reply(c, f, p.l.hello())
		return
	case nornv1.Method_METHOD_PING:
		p.reply(c, f, &nornv1.PingReply{Placement: p.l.placement(), Now: timestamppb.Now()})
		return
	}
	body := request(method)
	if body == nil {
		p.refuse(c, f, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "method %d is not known to norntest", f.Method))
		return
	}
	if err := gproto.Unmarshal(f.Body, body); err != nil {
		p.refuse(c, f, proto.Invalid("malformed request: %v", err))
		return
	}
	p.l.s.translate(body)
	r := &message.Request{From: message.Origin{Conn: c.ID(), Request: f.Request, Method: f.Method}, Body: body, Received: p.l.s.time().Mono}
	if f.Deadline > 0 {
		r.Deadline = r.Received + int64(f.Deadline)
	}
	p.l.post(r)
}

// request makes the message of a method, nil when there is none: METHOD_SET_QUEUE
// has a SetQueueRequest.
func request(m nornv1.Method) gproto.Message {
	name := "norn.v1."
	for word := range strings.SplitSeq(strings.TrimPrefix(m.String(), "METHOD_"), "_") {
		name += word[:1] + strings.ToLower(word[1:])
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name + "Request"))
	if err != nil {
		return nil
	}
	return t.New().Interface()
}

// translate reads times that clients say by the server's clock: they do not know
// that it was put ahead, and are not told, or what they work out from it would be
// moved twice.
func (s *Server) translate(m gproto.Message) {
	ahead := time.Duration(s.ahead.Load())
	move := func(t *timestamppb.Timestamp) *timestamppb.Timestamp {
		if t == nil || ahead == 0 {
			return t
		}
		return timestamppb.New(t.AsTime().Add(ahead))
	}
	switch m := m.(type) {
	case *nornv1.EnqueueRequest:
		for _, t := range m.GetTasks() {
			t.NotBefore = move(t.GetNotBefore())
		}
	case *nornv1.SessionRequest:
		for _, w := range m.GetMessages() {
			if u := w.GetUpdateStatus(); u != nil {
				u.RetryAt = move(u.GetRetryAt())
			}
		}
	case *nornv1.ListRequest:
		// IDs that clients make are of their time, and not of the future: what is looked for
		// up to there may be of the server's, as launches are (see client.CancelWhere).
		if f := m.GetFilter(); f.GetCreatedBefore().AsTime().After(time.Now()) {
			f.CreatedBefore = move(f.GetCreatedBefore())
		}
	case *nornv1.FailRequest:
		for _, f := range m.GetFailures() {
			f.RetryAt = move(f.GetRetryAt())
		}
	}
}

func (l *life) hello() *nornv1.HelloReply {
	return &nornv1.HelloReply{
		Version: proto.MaxVersion, ClusterId: cluster.ID.String(), Node: self.Node, ServerVersion: "norntest",
		Limits: &nornv1.Limits{
			MaxFrameBytes: proto.MaxFrame, MaxPayloadBytes: proto.MaxPayload, MaxBatchTasks: proto.MaxBatchTasks, MaxBatchBytes: proto.MaxBatchBytes,
			MaxDependencies: proto.MaxDependencies, MaxInFlight: proto.MaxInFlight,
			MinLeaseSeconds: 1, MaxLeaseSeconds: (24 * time.Hour).Seconds(), MaxWaitSeconds: proto.MaxWait.Seconds(),
		},
		Placement: l.placement(), EtaSeconds: eta.Seconds(), Now: timestamppb.Now(), // see translate
	}
}

func (l *life) placement() *nornv1.Placement {
	p := &nornv1.Placement{Partitions: partitions, Enqueueable: l.available.Load().Enqueueable}
	if p.Enqueueable == nil {
		p.Enqueueable = make([]byte, (partitions+7)/8)
	}
	return p
}

func (p port) reply(c *transport.Conn, f transport.Frame, m gproto.Message) {
	c.Reply(f.Request, f.Method, 0, &answer{m: m})
}

func (p port) refuse(c *transport.Conn, f transport.Frame, err *proto.Error) {
	c.Reply(f.Request, f.Method, transport.FlagError, &answer{m: err.Proto()})
}

// send gives a reply of the core to its connection. Grants that surely never left
// are freed.
func (l *life) send(r *message.Reply) {
	if r.To.Internal() {
		l.post(message.Answered{Reply: *r})
		return
	}
	body, flags := &answer{m: r.Message}, uint16(0)
	if r.Err != nil {
		body.m, flags = r.Err.Proto(), transport.FlagError
	}
	if grants := r.Grants; len(grants) > 0 {
		body.dropped = func() { l.post(message.Undelivered{Grants: grants}) }
	}
	l.mu.Lock()
	c := l.conns[r.To.Conn]
	l.mu.Unlock()
	if c == nil || !c.Reply(r.To.Request, r.To.Method, flags, body) {
		body.Dropped()
	}
}

// answer is a reply that is encoded when it is written.
type answer struct {
	m       gproto.Message
	dropped func()
}

// Size gives the length of the encoding in bytes.
func (a *answer) Size() int { return gproto.Size(a.m) }

// AppendTo appends the encoding.
func (a *answer) AppendTo(dst []byte) ([]byte, error) {
	return gproto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, a.m)
}

// Dropped hears that the reply surely never left.
func (a *answer) Dropped() {
	if a.dropped != nil {
		a.dropped()
	}
}
