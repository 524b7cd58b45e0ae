package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/node/sysclock"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/node/metrics"
)

// stall makes a client port without a loop behind it: what is admitted stays
// in the inbox until the test takes it.
func stall(t *testing.T, c *config.Config) (*Node, *transport.MemListener) {
	t.Helper()
	n := &Node{cfg: c, clock: sysclock.New(c), inbox: inbox.New(c.MaxInbox), metrics: metrics.New()}
	n.begun.Store(true)
	n.available.Store(&core.Available{})
	ln := transport.NewMemListener(0)
	server := transport.NewServer(transport.Config{MaxFrame: proto.MaxFrame, MaxInFlight: c.MaxInFlight, ErrorBody: errorBody}, api{n, inbox.NewScale(carried)})
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return n, ln
}

// reach connects to a stalled node.
func reach(t *testing.T, ln *transport.MemListener) *caller {
	t.Helper()
	nc, err := ln.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	p := &caller{t, transport.NewClient(nc, transport.ClientConfig{MaxFrame: proto.MaxFrame, MaxInFlight: 1 << 20})}
	t.Cleanup(func() { _ = p.c.Close(); <-p.c.Done() })
	if err := p.call(nornv1.Method_METHOD_HELLO, &nornv1.Hello{MinVersion: 1, MaxVersion: 1}, &nornv1.HelloReply{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// overloaded tells whether err says so, and when to come again.
func overloaded(err error) bool {
	var e *proto.Error
	return errors.As(err, &e) && e.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && e.RetryAfter > 0 && e.Effect == nornv1.Effect_EFFECT_NONE
}

// TestInboxLimit: past max-inbox requests are overloaded at once; what frees
// work still gets in; what the loop takes makes room.
func TestInboxLimit(t *testing.T) {
	c := testConfig(t)
	c.MaxInbox = 100 << 10
	n, ln := stall(t, c)
	enqueue := func(size int) *nornv1.EnqueueRequest {
		return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q", Payload: make([]byte, size)}}}
	}
	a, b := reach(t, ln), reach(t, ln)
	_, cancel := a.open(nornv1.Method_METHOD_ENQUEUE, enqueue(90<<10))
	defer cancel()
	soon(t, "the first request waits", func() bool { return n.inbox.Bytes.Load() > 90<<10 })
	for range 3 {
		if err := b.call(nornv1.Method_METHOD_ENQUEUE, enqueue(20<<10), &nornv1.EnqueueReply{}); !overloaded(err) {
			t.Fatalf("past max-inbox: %v", err)
		}
		if err := b.call(nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: make([]byte, 20<<10)}, &nornv1.GetReply{}); !overloaded(err) {
			t.Fatalf("a read past max-inbox: %v", err)
		}
		// What cannot be decoded gives its room back.
		var e *proto.Error
		err := b.c.Call(t.Context(), uint16(nornv1.Method_METHOD_RENEW), transport.Bytes(make([]byte, 20<<10)), func(_ uint16, body []byte) error {
			var w nornv1.Error
			if err := gproto.Unmarshal(body, &w); err != nil {
				return err
			}
			return proto.FromProto(&w)
		})
		if !errors.As(err, &e) || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Fatalf("malformed: %v", err)
		}
	}
	before := n.inbox.Bytes.Load()
	_, cancel = b.open(nornv1.Method_METHOD_RENEW, &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: make([]byte, 20<<10)}}})
	defer cancel()
	soon(t, "a renewal gets in", func() bool { // its bytes are counted before it is in line
		first, rest := n.inbox.Lines()
		return n.inbox.Bytes.Load() > before+20<<10 && first == 1 && rest == 1
	})
	if first, rest, _ := n.inbox.Take(nil, nil); len(first) != 1 || len(rest) != 1 {
		t.Fatalf("the loop gets %d and %d events", len(first), len(rest))
	}
	if left := n.inbox.Bytes.Load(); left != 0 {
		t.Fatalf("%d bytes are left in an empty inbox", left)
	}
	_, cancel = b.open(nornv1.Method_METHOD_ENQUEUE, enqueue(20<<10))
	defer cancel()
	soon(t, "there is room again", func() bool { return n.inbox.Bytes.Load() > 20<<10 })
}

// TestSmallRequestsCount: what has hardly any bytes takes memory too.
func TestSmallRequestsCount(t *testing.T) {
	c := testConfig(t)
	c.MaxInbox, c.MaxInFlight = 64<<10, 1<<20
	n, ln := stall(t, c)
	p := reach(t, ln)
	for i := 0; ; i++ {
		answer, cancel := p.open(nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{})
		defer cancel()
		soon(t, "the request is in the inbox or refused", func() bool { return n.inbox.Bytes.Load() > int64(i)*inbox.RequestCost || len(answer) > 0 })
		if len(answer) == 0 {
			continue
		}
		if err := <-answer; !overloaded(err) || i != c.MaxInbox/4*3/inbox.RequestCost { // alone on the port it has three quarters
			t.Fatalf("request %d of no bytes: %v", i, err)
		}
		return
	}
}

// TestCancelsAreBounded: cancel frames cost a client nothing and have no
// credit; a flood of them must not fill the memory.
func TestCancelsAreBounded(t *testing.T) {
	c := testConfig(t)
	c.MaxInFlight = 16
	n, ln := stall(t, c)
	near, err := ln.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	greet(t, near)
	flood := func() (waiting int) {
		t.Helper()
		var b []byte
		for i := range 10 * c.MaxInFlight {
			b = transport.AppendFrame(b, transport.Frame{Request: uint64(i) + 100, Flags: transport.FlagCancel})
		}
		b = transport.AppendFrame(b, transport.Frame{Request: 99, Method: uint16(nornv1.Method_METHOD_PING)})
		if _, err := near.Write(b); err != nil {
			t.Fatal(err)
		}
		if f := readFrame(t, near); f.Request != 99 {
			t.Fatalf("got %+v", f)
		}
		_, rest := n.inbox.Lines()
		return rest
	}
	for range 3 {
		if got := flood(); got != c.MaxInFlight {
			t.Fatalf("%d cancels wait, want at most %d", got, c.MaxInFlight)
		}
	}
	if _, rest, _ := n.inbox.Take(nil, nil); len(rest) != c.MaxInFlight {
		t.Fatalf("the loop gets %d cancels", len(rest))
	}
	if got := flood(); got != c.MaxInFlight {
		t.Fatalf("%d cancels wait after the loop has taken those before", got)
	}
}

// TestStrangersGetSmallFrames: who has not said hello cannot make the server
// keep megabytes.
func TestStrangersGetSmallFrames(t *testing.T) {
	c := testConfig(t)
	n := start(t, c, Options{Access: access.Of("secret")})
	defer stop(t, n)
	p, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: string(make([]byte, helloBytes))})
	var e *proto.Error
	if !errors.As(err, &e) || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Fatalf("a hello of %d bytes: %v", helloBytes, err)
	}
	// The same connection can still say who it is, and has all the room then.
	if err := p.call(nornv1.Method_METHOD_HELLO, &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "secret"}, &nornv1.HelloReply{}); err != nil {
		t.Fatal(err)
	}
	p.enqueue(&nornv1.TaskSpec{Queue: "q", Payload: make([]byte, proto.MaxPayload)})
}

// TestLimitsOfWaiting: past max-waiters, max-claims and max-queues the answer
// is overloaded, and once there is room again, the next request is served.
func TestLimitsOfWaiting(t *testing.T) {
	c := testConfig(t)
	c.MaxWaiters, c.MaxClaims, c.MaxQueues = 2, 3, 2
	n := start(t, c, Options{})
	defer stop(t, n)
	p, other := connect(t, n), connect(t, n)
	ids := p.enqueue(&nornv1.TaskSpec{Queue: "a"}, &nornv1.TaskSpec{Queue: "a"}, &nornv1.TaskSpec{Queue: "a"}, &nornv1.TaskSpec{Queue: "b"})

	t.Run("queues", func(t *testing.T) {
		reply := &nornv1.EnqueueReply{}
		p.retry(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "c"}, {Queue: "a"}}}, reply)
		if e := reply.Results[0].Error; e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || reply.Results[1].Error != nil {
			t.Errorf("a third queue: %v", reply)
		}
	})
	t.Run("claims", func(t *testing.T) {
		held := p.claim(&nornv1.ClaimRequest{Queues: []string{"a"}, MaxTasks: 3})
		claim := &nornv1.ClaimRequest{Queues: []string{"a", "b"}}
		if err := other.call(nornv1.Method_METHOD_CLAIM, claim, &nornv1.ClaimReply{}); !overloaded(err) {
			t.Errorf("past max-claims: %v", err)
		}
		p.retry(nornv1.Method_METHOD_COMPLETE, completion(t, held[0]), &nornv1.WriteReply{})
		if got := other.claim(claim); len(got) != 1 {
			t.Errorf("with room again: %v", got)
		}
		p.retry(nornv1.Method_METHOD_COMPLETE, completion(t, held[1]), &nornv1.WriteReply{})
	})
	for name, tc := range map[string]struct {
		method nornv1.Method
		req    gproto.Message
	}{
		"waiting claims": {nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"nothing"}, WaitSeconds: 60}},
		"waiting logs":   {nornv1.Method_METHOD_LOG, &nornv1.LogRequest{Id: taskID(t, ids[3]), WaitSeconds: 60}},
	} {
		t.Run(name, func(t *testing.T) {
			a, stopA := p.open(tc.method, tc.req)
			b, stopB := p.open(tc.method, tc.req)
			defer stopB()
			soon(t, "two wait", func() bool { return n.metrics.Core.Load().Waiting == 2 })
			if err := other.call(tc.method, tc.req, &nornv1.WriteReply{}); !overloaded(err) {
				t.Errorf("past max-waiters: %v", err)
			}
			other.enqueue(&nornv1.TaskSpec{Queue: "b"}) // what need not wait is served
			stopA()
			<-a
			soon(t, "one is gone", func() bool { return n.metrics.Core.Load().Waiting == 1 })
			c, stopC := other.open(tc.method, tc.req)
			soon(t, "another takes its place", func() bool { return n.metrics.Core.Load().Waiting == 2 })
			stopC()
			stopB()
			<-b
			<-c
			soon(t, "none waits", func() bool { return n.metrics.Core.Load().Waiting == 0 })
		})
	}
}

func completion(t testing.TB, g *nornv1.Grant) *nornv1.CompleteRequest {
	return &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: taskID(t, g.Task.Id), Token: g.Token}}}
}

func TestConnectionLimit(t *testing.T) {
	c := testConfig(t)
	c.MaxConnections = 2
	n := start(t, c, Options{})
	defer stop(t, n)
	a, b := connect(t, n), connect(t, n)
	third, err := transport.Dial(t.Context(), n.Addr().String(), transport.ClientConfig{DecodeError: func(body []byte) error {
		var e nornv1.Error
		if err := gproto.Unmarshal(body, &e); err != nil {
			return err
		}
		return proto.FromProto(&e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-third.Done()
	if err := third.Err(); !overloaded(err) {
		t.Errorf("past max-connections: %v", err)
	}
	a.enqueue(&nornv1.TaskSpec{Queue: "q"})
	_ = a.c.Close()
	soon(t, "the connection is gone", func() bool { return n.server.Conns() == 1 })
	connect(t, n).enqueue(&nornv1.TaskSpec{Queue: "q"})
	b.enqueue(&nornv1.TaskSpec{Queue: "q"})
}

// TestCredit: what one connection has open beyond its credit is not even read,
// and nobody else notices.
func TestCredit(t *testing.T) {
	c := testConfig(t)
	c.MaxInFlight = 4
	n := start(t, c, Options{})
	defer stop(t, n)
	greedy, other := connect(t, n), connect(t, n)
	greedy.claim(&nornv1.ClaimRequest{Queues: []string{"q"}}) // the node leads from here on
	var answered atomic.Int64
	const asked = 20
	for range asked {
		a, _ := greedy.open(nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60})
		go func() {
			if err := <-a; err == nil {
				answered.Add(1)
			}
		}()
	}
	soon(t, "the credit is used", func() bool { return n.metrics.Core.Load().Waiting == c.MaxInFlight })
	for i := range asked {
		if w := n.metrics.Core.Load().Waiting; w > c.MaxInFlight {
			t.Fatalf("%d requests wait", w)
		}
		other.enqueue(&nornv1.TaskSpec{Queue: "q"})
		soon(t, "one is answered", func() bool { return answered.Load() > int64(i) })
	}
}

// TestRenewalsGoAhead puts more enqueues into the inbox than the loop takes at
// once, then a renewal: it is answered before most of them.
func TestRenewalsGoAhead(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	worker := connect(t, n)
	worker.enqueue(&nornv1.TaskSpec{Queue: "work"})
	held := worker.claim(&nornv1.ClaimRequest{Queues: []string{"work"}, LeaseSeconds: 600})[0]

	const producers, each = 3, inbox.TakeEvents
	var answered, failed atomic.Int64
	var left sync.WaitGroup
	letGo := n.inbox.Hold() // the loop and the readers stand still
	for range producers {
		p := connect(t, n)
		left.Go(func() {
			var calls sync.WaitGroup
			for range each {
				calls.Go(func() {
					reply := &nornv1.EnqueueReply{}
					if err := p.call(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "flood"}}}, reply); err != nil || reply.Results[0].Error != nil {
						failed.Add(1)
					}
					answered.Add(1)
				})
			}
			calls.Wait()
		})
	}
	soon(t, "the producers' first requests are read", func() bool { return n.inbox.Bytes.Load() > producers*inbox.RequestCost })
	letGo()
	soon(t, "the flood has begun", func() bool { return answered.Load() > 0 || n.inbox.Bytes.Load() > 2*inbox.TakeEvents*inbox.RequestCost })
	before := answered.Load()
	reply := &nornv1.RenewReply{}
	if err := worker.call(nornv1.Method_METHOD_RENEW, renewal(t, held), reply); err != nil || reply.Results[0].Error != nil {
		t.Fatalf("renewal: %v, %v", err, reply)
	}
	after := answered.Load()
	left.Wait()
	t.Logf("the renewal came between enqueues %d and %d of %d", before, after, producers*each)
	// One round is under way when it comes, and its own has as many enqueues.
	if after-before > 2*inbox.TakeEvents+inbox.TakeEvents/2 || failed.Load() > 0 {
		t.Errorf("%d enqueues were answered before it; %d failed", after-before, failed.Load())
	}
}

func renewal(t testing.TB, g *nornv1.Grant) *nornv1.RenewRequest {
	return &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: taskID(t, g.Task.Id), Token: g.Token}}, LeaseSeconds: 1}
}

// flood sends batches of enqueues from many connections, more than there is
// room for, and never waits as it is told to. so gives the tasks that were taken
// and the requests that were refused; stop ends it.
func flood(t *testing.T, n *Node) (so func() (taken, refused int64), stop func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var taken, refused atomic.Int64
	var left sync.WaitGroup
	batch := &nornv1.EnqueueRequest{Tasks: repeated(50, func() *nornv1.TaskSpec {
		return &nornv1.TaskSpec{Queue: "flood", Payload: make([]byte, 500)}
	})}
	for range 8 {
		p := connect(t, n)
		for range 8 {
			left.Go(func() {
				for ctx.Err() == nil {
					reply := &nornv1.EnqueueReply{}
					err := p.call(nornv1.Method_METHOD_ENQUEUE, gproto.CloneOf(batch), reply)
					switch {
					case err == nil && len(reply.Results) == len(batch.Tasks):
						taken.Add(int64(len(reply.Results)))
					case overloaded(err):
						refused.Add(1)
					default:
						t.Errorf("enqueue: %v", err)
						return
					}
				}
			})
		}
	}
	return func() (int64, int64) { return taken.Load(), refused.Load() }, func() {
		end()
		left.Wait()
	}
}

// TestFlood: while producers send more than there is room for, a worker's
// renewals and completions are answered, every enqueue is either taken or told to come again,
// and when the flood stops, the next request is served at once.
func TestFlood(t *testing.T) {
	c := testConfig(t)
	c.MaxInbox = 256 << 10
	n := start(t, c, Options{})
	defer stop(t, n)
	worker := connect(t, n)
	worker.enqueue(&nornv1.TaskSpec{Queue: "work"})
	held := worker.claim(&nornv1.ClaimRequest{Queues: []string{"work"}, LeaseSeconds: 600})[0] // a busy machine is slow

	so, end := flood(t, n)
	soon(t, "there is a flood", func() bool { taken, refused := so(); return taken > 0 && refused > 0 })
	var slowest time.Duration
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range 6 {
		sent := <-tick.C
		reply := &nornv1.RenewReply{}
		if err := worker.call(nornv1.Method_METHOD_RENEW, renewal(t, held), reply); err != nil || reply.Results[0].Error != nil {
			t.Fatalf("a renewal during the flood: %v, %v", err, reply)
		}
		slowest = max(slowest, time.Since(sent))
	}
	reply := &nornv1.WriteReply{}
	if err := worker.call(nornv1.Method_METHOD_COMPLETE, completion(t, held), reply); err != nil || reply.Results[0].Error != nil {
		t.Fatalf("a completion during the flood: %v, %v", err, reply)
	}
	end()
	taken, refused := so()
	t.Logf("%d tasks taken, %d requests refused; slowest renewal %v", taken, refused, slowest)
	if slowest > patience {
		t.Error("the worker felt it")
	}
	// No request is left: what comes now finds an idle node.
	p := connect(t, n)
	if err := p.call(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "after"}}}, &nornv1.EnqueueReply{}); err != nil {
		t.Errorf("right after the flood: %v", err)
	}
	count := &nornv1.CountReply{}
	if err := p.call(nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{Queue: "flood"}, count); err != nil || count.Total.Ready != uint64(taken) {
		t.Errorf("%d tasks were acknowledged, %v are there, %v", taken, count.Total, err)
	}
	if n.inbox.Bytes.Load() != 0 {
		t.Errorf("%d bytes are still reserved", n.inbox.Bytes.Load())
	}
}

// TestTooManyReads: reads beyond those that wait for their turn are turned
// away, those that wait for something new included.
func TestTooManyReads(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	p := connect(t, n)
	task := taskID(t, p.enqueue(&nornv1.TaskSpec{Queue: "q"})[0])
	n.queued.Add(maxQueuedReads)
	for name, req := range map[nornv1.Method]gproto.Message{
		nornv1.Method_METHOD_GET:  &nornv1.GetRequest{Id: task},
		nornv1.Method_METHOD_LIST: &nornv1.ListRequest{},
		nornv1.Method_METHOD_LOG:  &nornv1.LogRequest{Id: task, WaitSeconds: 60},
	} {
		if err := p.call(name, req, &nornv1.GetReply{}); !overloaded(err) {
			t.Errorf("%v: %v", name, err)
		}
	}
	p.enqueue(&nornv1.TaskSpec{Queue: "q"}) // writes do not mind
	n.queued.Add(-maxQueuedReads)
	p.retry(nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: task}, &nornv1.GetReply{})
	soon(t, "nothing waits", func() bool { return n.metrics.Core.Load().Waiting == 0 && n.queued.Load() == 0 })
}

// TestNoConnectionHasMoreThanAQuarterOfTheReads while others ask.
func TestNoConnectionHasMoreThanAQuarterOfTheReads(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	p, q := connect(t, n), connect(t, n)
	task := taskID(t, p.enqueue(&nornv1.TaskSpec{Queue: "q"})[0])
	q.enqueue(&nornv1.TaskSpec{Queue: "q"})
	n.conns.Range(func(_, c any) bool { // one has a quarter, all have a half
		c.(*transport.Conn).Attachment().(*client).reads.Store(maxQueuedReads / 4)
		return false
	})
	n.queued.Add(maxQueuedReads / 2)
	get := func(p *caller) error {
		return p.call(nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: task}, &nornv1.GetReply{})
	}
	if a, b := get(p), get(q); overloaded(a) == overloaded(b) {
		t.Errorf("who has a quarter: %v, who has none: %v", a, b)
	}
	n.queued.Add(-maxQueuedReads / 2)
	p.retry(nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: task}, &nornv1.GetReply{})
}

// TestCancelFollowsItsRequest sends requests and takes them back in the same
// breath: a cancel that overtook its request would leave it waiting.
func TestCancelFollowsItsRequest(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	connect(t, n).claim(&nornv1.ClaimRequest{Queues: []string{"q"}}) // the node leads from here on
	nc := greet(t, socket(t, n))
	const requests = 200
	var b []byte
	for i := range uint64(requests) {
		b = append(b, frameOf(t, i+2, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"nothing"}, WaitSeconds: 300})...)
		b = transport.AppendFrame(b, transport.Frame{Request: i + 2, Flags: transport.FlagCancel})
	}
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]bool)
	answers := bufio.NewReader(nc)
	for range requests {
		f := readFrame(t, answers)
		var e nornv1.Error
		if err := gproto.Unmarshal(f.Body, &e); err != nil || f.Flags&transport.FlagError == 0 || e.Kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED || seen[f.Request] {
			t.Fatalf("request %d was answered %v, %v", f.Request, &e, err)
		}
		seen[f.Request] = true
	}
	if w := n.metrics.Core.Load().Waiting; w != 0 {
		t.Errorf("%d requests wait", w)
	}
}

// TestAnAnswerThatFitsNoFrame says nothing of what was done: it came after that.
func TestAnAnswerThatFitsNoFrame(t *testing.T) {
	got, body := &nornv1.Error{}, errorBody(fmt.Errorf("%w: too large", transport.ErrEncode))
	b, err := body.AppendTo(make([]byte, 0, body.Size()))
	if err == nil {
		err = gproto.Unmarshal(b, got)
	}
	if err != nil || got.GetKind() != nornv1.ErrorKind_ERROR_KIND_INTERNAL || got.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN {
		t.Errorf("%v, %v", got, err)
	}
}
