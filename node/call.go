package node

import (
	"context"
	"sync"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// localConns is where the connections of callers within the process begin: far
// above those of the client port, and below those of other nodes.
const localConns = uint64(1) << 61

// Answer is what came of a call.
type Answer struct {
	// Message is the answer of the method; nil with Err.
	Message gproto.Message
	// Err is why there is none; nil with Message.
	Err *proto.Error

	dropped func()
}

// Dropped says that the answer surely reached nobody: grants in it are free again
// at once. It may be called only while no byte of it has been passed on.
func (a *Answer) Dropped() {
	if a.dropped != nil {
		a.dropped()
	}
}

// calls is the client port for callers within the process. They take the same way
// as requests from the network: the same limits, the same inbox, the same core.
type calls struct {
	n     *Node
	scale inbox.Scale

	mu     sync.Mutex // guards what follows
	last   uint64
	open   int
	closed bool
	idle   chan struct{} // closed once closed is set and open is 0
}

func newCalls(n *Node, s inbox.Scale) *calls {
	return &calls{n: n, scale: s, last: localConns, idle: make(chan struct{})}
}

// Call carries out one request of a caller as if it had come over the client port, and gives
// its answer. The request must not be changed afterwards. When ctx ends first, a
// request that waits is forgotten, and an answer that comes all the same is
// dropped; the caller gets an error that says that the outcome is unknown.
func (n *Node) Call(ctx context.Context, who *access.Caller, method nornv1.Method, request gproto.Message) Answer {
	conn, err := n.calls.enter()
	if err != nil {
		return Answer{Err: err}
	}
	defer n.calls.leave()
	if !n.begun.Load() {
		return Answer{Err: notBegun(n)}
	}
	switch method {
	case nornv1.Method_METHOD_HELLO:
		return Answer{Message: greeting(n, proto.MaxVersion)}
	case nornv1.Method_METHOD_PING:
		return Answer{Message: &nornv1.PingReply{Placement: n.placement(), Now: clientsTime(n)}}
	}
	if aboutRights(method) != nil {
		m, err := rights(ctx, n, who, request)
		return Answer{Message: m, Err: err}
	}
	return n.calls.do(ctx, who, message.Origin{Conn: conn, Request: 1, Method: uint16(method)}, request)
}

// enter counts a call, and numbers its connection.
func (c *calls) enter() (conn uint64, err *proto.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "node %s is stopping; try another node", c.n.self.Node).Again(time.Second)
		return 0, e
	}
	c.open++
	c.last++
	return c.last, nil
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.closed && c.open == 0 {
		close(c.idle)
	}
}

// shutdown refuses further calls and waits for the end of those under way, or of
// ctx.
func (c *calls) shutdown(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed && c.open == 0 {
		close(c.idle)
	}
	c.closed = true
	c.mu.Unlock()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do hands a request to the loop and waits for its answer.
func (c *calls) do(ctx context.Context, who *access.Caller, from message.Origin, body gproto.Message) Answer {
	n, method := c.n, nornv1.Method(from.Method)
	of := carried(method)
	if of == nil || method == nornv1.Method_METHOD_SESSION || !of.Asks(body) {
		return Answer{Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "method %d is not for callers without a connection", method)}
	}
	scope, err := n.opts.Access.Check(who, method, body)
	if err != nil {
		return Answer{Err: err}
	}
	weight, err := c.admit(method, body, of.Urgent)
	if err != nil {
		return Answer{Err: err}
	}
	r := &message.Request{From: from, Body: body, Received: n.clock.Mono(), Scope: scope, By: n.opts.Access.Sign(who, body)}
	if until, ok := ctx.Deadline(); ok {
		left := time.Until(until)
		r.Deadline = r.Received + max(int64(left-left/16), 1) // a little earlier: the core's answer says more
	}
	return c.wait(ctx, who, r, weight, of.Urgent)
}

// wait has the loop answer a request for which there is room.
func (c *calls) wait(ctx context.Context, who *access.Caller, r *message.Request, weight int, urgent bool) Answer {
	n, from := c.n, r.From
	l := &local{answer: make(chan Answer, 1)}
	n.locals.Store(from.Conn, l)
	defer n.locals.Delete(from.Conn)
	d := inbox.Delivery{Rest: []inbox.Waiting{{Event: r, Weight: weight}}}
	if urgent {
		d = inbox.Delivery{First: d.Rest}
	}
	var rights *guard.Principal
	n.inbox.Put(&d)
	for {
		changed, after := n.opts.Access.Changed()
		now, err := n.opts.Access.Still(who, rights)
		if err != nil {
			gone := c.abandon(ctx, l, from)
			gone.Dropped()
			e := *err
			e.Effect = nornv1.Effect_EFFECT_UNKNOWN // it may have been carried out
			return Answer{Err: &e}
		}
		rights = now
		select {
		case a := <-l.answer:
			return a
		case <-changed:
			continue
		case <-time.After(after):
			continue
		case <-ctx.Done():
		case <-n.ctx.Done():
		case <-n.failed:
		}
		return c.abandon(ctx, l, from)
	}
}

// admit weighs a request and reserves room for it.
func (c *calls) admit(method nornv1.Method, body gproto.Message, urgent bool) (weight int, _ *proto.Error) {
	frame, err := gproto.Marshal(body)
	if err != nil {
		return 0, proto.Invalid("the request cannot be encoded: %v", err) // text that is not UTF-8
	}
	if len(frame) > proto.MaxFrame {
		return 0, proto.Invalid("the request takes %d bytes, over the limit of %d; send smaller batches", len(frame), proto.MaxFrame)
	}
	weight, longest := c.scale.Weigh(method, frame)
	if err := inbox.TooHeavy(weight, longest); err != nil {
		return 0, err
	}
	if !c.n.inbox.Admit(nil, weight, urgent) {
		return 0, crowded(c.n)
	}
	return weight, nil
}

// abandon gives up waiting for an answer.
func (c *calls) abandon(ctx context.Context, l *local, from message.Origin) Answer {
	if a, came := l.leave(); came {
		return a
	}
	c.n.inbox.Gone(from.Conn)
	e := proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, Message: "the node stopped before it answered; ask another node"}
	switch ctx.Err() {
	case context.DeadlineExceeded:
		e.Kind, e.Message = nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED, "there was no answer in time; the outcome is unknown"
	case context.Canceled:
		e.Kind, e.Message = nornv1.ErrorKind_ERROR_KIND_CANCELLED, "the caller has gone; the outcome is unknown"
	}
	return Answer{Err: &e}
}

// local stands for the connection of one call.
type local struct {
	answer chan Answer // room for the one there is

	mu   sync.Mutex // guards gone
	gone bool       // nobody waits any more
}

// Reply takes the answer, or says that nobody wants it.
func (l *local) Reply(_ uint64, _, flags uint16, body transport.Body) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return false
	}
	b := body.(*wireBody)
	a := Answer{Message: b.m, dropped: b.dropped}
	if flags&transport.FlagError != 0 {
		a = Answer{Err: proto.FromProto(b.m.(*nornv1.Error))}
	}
	l.answer <- a
	return true
}

// Partitions is the number of those of the cluster, once the node is in one.
func (c *calls) Partitions() (int, bool) {
	if !c.n.begun.Load() {
		return 0, false
	}
	return c.n.cluster.Partitions, true
}

// LedQueues is a page of queues as they are in the partitions that this node leads;
// nil: there was no answer.
func (c *calls) LedQueues(ctx context.Context, m *nornv1.QueuesRequest) *nornv1.QueuesReply {
	reply, _ := c.own(ctx, nornv1.Method_METHOD_QUEUES, m, true).(*nornv1.QueuesReply)
	return reply
}

// OwnWorkers is a page of the workers with a session with this node; nil: there was no answer.
func (c *calls) OwnWorkers(ctx context.Context, m *nornv1.WorkersRequest) *nornv1.WorkersReply {
	reply, _ := c.own(ctx, nornv1.Method_METHOD_WORKERS, m, false).(*nornv1.WorkersReply)
	return reply
}

// own has this node answer for itself alone; nil: there was no answer.
func (c *calls) own(ctx context.Context, method nornv1.Method, m gproto.Message, led bool) gproto.Message {
	conn, err := c.enter()
	if err != nil {
		return nil
	}
	defer c.leave()
	weight, err := c.admit(method, m, false)
	if err != nil {
		return nil
	}
	from := message.Origin{Conn: conn, Request: 1, Method: uint16(method)}
	r := &message.Request{From: from, Body: m, Received: c.n.clock.Mono(), Routed: true, Led: led}
	return c.wait(ctx, access.Self(), r, weight, false).Message
}

// leave refuses an answer from now on, and gives the one that came before.
func (l *local) leave() (a Answer, came bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	select {
	case a = <-l.answer:
		return a, true
	default:
		return a, false
	}
}
