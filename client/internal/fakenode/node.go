package fakenode

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// ErrRefused is returned by dials to a node that is stopped.
var ErrRefused = errors.New("fakenode: connection refused")

// Partitions is how many partitions the fake cluster has.
const Partitions = 64

// Request is one request as the node got it.
type Request struct {
	Method   nornv1.Method
	Message  protobuf.Message
	Deadline time.Duration
	Conn     uint64
}

// Answer is what becomes of a request: a message, or an error, or nothing at
// all with Lose, or the end of the connection with Close.
type Answer struct {
	Message protobuf.Message
	Err     *proto.Error
	Lose    bool
	Close   bool
}

// Script answers requests. It may block. It is asked for Hello and Ping too, and
// may leave them, and only them, to the node by the zero Answer.
type Script func(Request) Answer

// Node is a scripted node.
type Node struct {
	script  Script
	scripts sync.WaitGroup // requests being answered

	mu     sync.Mutex // guards the fields below
	ln     *transport.MemListener
	srv    *transport.Server
	served chan struct{} // closed when srv accepts no more
	seen   []Request
}

// Longest is for how long a test may run, which none does outside a bubble. Whoever sets it
// does so before the first node starts.
var Longest = 36 * time.Hour

// Watch ends a test whose bubble goes on for days: whoever dials again and again, because
// nobody is there, keeps the time of a bubble going, so that a test which waits for
// something else would run for ever instead of failing.
func Watch(t testing.TB) {
	late := time.AfterFunc(Longest, func() {
		panic("the bubble of " + t.Name() + " runs for " + Longest.String() + ": somebody tries something without end")
	})
	t.Cleanup(func() { late.Stop() })
}

// New starts a node that stops with the test.
func New(t testing.TB, s Script) *Node {
	Watch(t)
	n := &Node{script: s}
	n.Start()
	t.Cleanup(func() {
		n.Stop()
		n.scripts.Wait()
	})
	return n
}

// Start brings a stopped node back.
func (n *Node) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv != nil {
		return
	}
	n.ln = transport.NewMemListener(0)
	n.srv = transport.NewServer(transport.Config{ErrorBody: func(err error) transport.Body {
		return body{proto.Invalid("%v", err).Proto()}
	}}, handler{n})
	n.served = make(chan struct{})
	srv, ln, served := n.srv, n.ln, n.served
	go func() {
		defer close(served)
		_ = srv.Serve(context.Background(), ln) // until Stop
	}()
}

// Stop kills the node: connections end, dials are refused.
func (n *Node) Stop() {
	n.mu.Lock()
	srv, served := n.srv, n.served
	n.srv = nil
	n.mu.Unlock()
	if srv != nil {
		srv.Close()
		<-served
	}
}

// Dial connects to the node; addr is ignored.
func (n *Node) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	ln, up := n.ln, n.srv != nil
	n.mu.Unlock()
	if !up {
		return nil, ErrRefused
	}
	return ln.Dial(ctx, addr)
}

// Seen lists the requests of a method so far, in order.
func (n *Node) Seen(m nornv1.Method) []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Request
	for _, r := range n.seen {
		if r.Method == m {
			out = append(out, r)
		}
	}
	return out
}

// Dialer connects to nodes by address.
func Dialer(nodes map[string]*Node) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if n := nodes[addr]; n != nil {
			return n.Dial(ctx, addr)
		}
		return nil, ErrRefused
	}
}

type body struct{ m protobuf.Message }

func (b body) Size() int { return protobuf.Size(b.m) }

func (b body) AppendTo(dst []byte) ([]byte, error) {
	return protobuf.MarshalOptions{}.MarshalAppend(dst, b.m)
}

type handler struct{ n *Node }

func (h handler) Open(*transport.Conn)           {}
func (h handler) Batch(*transport.Conn)          {}
func (h handler) Cancel(*transport.Conn, uint64) {}
func (h handler) Closed(*transport.Conn, error)  {}

func (h handler) Handle(c *transport.Conn, f transport.Frame) {
	m := message(nornv1.Method(f.Method))
	if m == nil {
		refuse(c, f)
		return
	}
	if err := protobuf.Unmarshal(f.Body, m); err != nil {
		c.Reply(f.Request, f.Method, transport.FlagError, body{proto.Invalid("%v", err).Proto()})
		return
	}
	r := Request{Method: nornv1.Method(f.Method), Message: m, Deadline: f.Deadline, Conn: c.ID()}
	h.n.mu.Lock()
	h.n.seen = append(h.n.seen, r)
	h.n.mu.Unlock()
	h.n.scripts.Go(func() {
		a := h.n.script(r)
		switch {
		case a.Lose:
		case a.Close:
			c.Close(nil)
		case a.Err != nil:
			c.Reply(f.Request, f.Method, transport.FlagError, body{a.Err.Proto()})
		case a.Message != nil:
			c.Reply(f.Request, f.Method, 0, body{a.Message})
		case r.Method == nornv1.Method_METHOD_SESSION: // it keeps none unless a script says so
			refuse(c, f)
		default:
			c.Reply(f.Request, f.Method, 0, body{defaultAnswer(r.Method)})
		}
	})
}

func refuse(c *transport.Conn, f transport.Frame) {
	c.Reply(f.Request, f.Method, transport.FlagError, body{proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "no such method").Proto()})
}

// Placement says that every partition takes enqueues.
func Placement() *nornv1.Placement {
	bits := make([]byte, Partitions/8)
	for i := range bits {
		bits[i] = 0xff
	}
	return &nornv1.Placement{Partitions: Partitions, Enqueueable: bits}
}

func defaultAnswer(m nornv1.Method) protobuf.Message {
	if m == nornv1.Method_METHOD_HELLO {
		return &nornv1.HelloReply{
			Version: proto.MaxVersion, ClusterId: "00000000-0000-0000-0000-000000000001", Node: "fake", ServerVersion: "0.0.0-fake",
			Limits:    &nornv1.Limits{MaxFrameBytes: proto.MaxFrame, MaxBatchTasks: 100, MaxBatchBytes: 1 << 20, MaxInFlight: 4096},
			Placement: Placement(), EtaSeconds: 5,
		}
	}
	return &nornv1.PingReply{Placement: Placement()}
}

func message(m nornv1.Method) protobuf.Message {
	switch m {
	case nornv1.Method_METHOD_HELLO:
		return &nornv1.Hello{}
	case nornv1.Method_METHOD_PING:
		return &nornv1.Ping{}
	case nornv1.Method_METHOD_ENQUEUE:
		return &nornv1.EnqueueRequest{}
	case nornv1.Method_METHOD_CLAIM:
		return &nornv1.ClaimRequest{}
	case nornv1.Method_METHOD_RENEW:
		return &nornv1.RenewRequest{}
	case nornv1.Method_METHOD_UPDATE:
		return &nornv1.UpdateRequest{}
	case nornv1.Method_METHOD_COMPLETE:
		return &nornv1.CompleteRequest{}
	case nornv1.Method_METHOD_FAIL:
		return &nornv1.FailRequest{}
	case nornv1.Method_METHOD_RELEASE:
		return &nornv1.ReleaseRequest{}
	case nornv1.Method_METHOD_WORK:
		return &nornv1.WorkRequest{}
	case nornv1.Method_METHOD_GET:
		return &nornv1.GetRequest{}
	case nornv1.Method_METHOD_LIST:
		return &nornv1.ListRequest{}
	case nornv1.Method_METHOD_COUNT:
		return &nornv1.CountRequest{}
	case nornv1.Method_METHOD_LOG:
		return &nornv1.LogRequest{}
	case nornv1.Method_METHOD_STATUS:
		return &nornv1.StatusRequest{}
	case nornv1.Method_METHOD_CANCEL:
		return &nornv1.CancelRequest{}
	case nornv1.Method_METHOD_RETRY:
		return &nornv1.RetryRequest{}
	case nornv1.Method_METHOD_BULK:
		return &nornv1.BulkRequest{}
	case nornv1.Method_METHOD_EXPLAIN:
		return &nornv1.ExplainRequest{}
	case nornv1.Method_METHOD_KEY:
		return &nornv1.KeyRequest{}
	case nornv1.Method_METHOD_QUEUES:
		return &nornv1.QueuesRequest{}
	case nornv1.Method_METHOD_SCHEDULES:
		return &nornv1.SchedulesRequest{}
	case nornv1.Method_METHOD_CHANGE_SCHEDULES:
		return &nornv1.ChangeSchedulesRequest{}
	case nornv1.Method_METHOD_SET_QUEUE:
		return &nornv1.SetQueueRequest{}
	case nornv1.Method_METHOD_CLUSTER:
		return &nornv1.ClusterRequest{}
	case nornv1.Method_METHOD_WORKERS:
		return &nornv1.WorkersRequest{}
	case nornv1.Method_METHOD_SET_WORKER:
		return &nornv1.SetWorkerRequest{}
	case nornv1.Method_METHOD_VERIFY:
		return &nornv1.VerifyRequest{}
	case nornv1.Method_METHOD_BACKUP:
		return &nornv1.BackupRequest{}
	case nornv1.Method_METHOD_RESTORE:
		return &nornv1.RestoreRequest{}
	case nornv1.Method_METHOD_SESSION:
		return &nornv1.SessionRequest{}
	}
	return nil
}
