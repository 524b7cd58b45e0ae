package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long anything may take on a busy machine.
const patience = 60 * time.Second

// testConfig is a configuration on free ports and a directory of the test's.
func testConfig(t testing.TB) *config.Config {
	c := config.Default()
	c.Data, c.Listen, c.PeerListen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.DiskReserve, c.DiskStop = 2<<20, 1<<20
	return c
}

func start(t testing.TB, c *config.Config, o Options) *Node {
	t.Helper()
	o.Version = "test"
	if o.Fatal == nil {
		o.Fatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	n, err := Start(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func stop(t testing.TB, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// caller is a bare client of the protocol.
type caller struct {
	t testing.TB
	c *transport.Client
}

func dial(t testing.TB, n *Node, hello *nornv1.Hello) (*caller, *nornv1.HelloReply, error) {
	t.Helper()
	c, err := transport.Dial(t.Context(), n.Addr().String(), transport.ClientConfig{MaxFrame: proto.MaxFrame})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p := &caller{t, c}
	reply := &nornv1.HelloReply{}
	return p, reply, p.call(nornv1.Method_METHOD_HELLO, hello, reply)
}

// ready waits until the node leads what it has: a claim before that is answered
// with what there is to hand out by then.
func ready(t testing.TB, n *Node) {
	t.Helper()
	soon(t, "the node is ready", func() bool {
		enqueue, claim := n.Ready()
		return enqueue && claim
	})
}

// connect is a client of a node that is ready.
func connect(t testing.TB, n *Node) *caller {
	t.Helper()
	ready(t, n)
	p, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// call waits for an answer for as long as anything may take: a test fails then, and says where.
func (p *caller) call(m nornv1.Method, req, reply gproto.Message) error {
	return p.within(patience, m, req, reply)
}

func (p *caller) within(wait time.Duration, m nornv1.Method, req, reply gproto.Message) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), wait)
	defer cancel()
	return call(ctx, p.c, m, req, reply)
}

func call(ctx context.Context, c *transport.Client, m nornv1.Method, req, reply gproto.Message) error {
	return c.Call(ctx, uint16(m), &wireBody{m: req}, func(flags uint16, body []byte) error {
		if flags&transport.FlagError != 0 {
			var e nornv1.Error
			if err := gproto.Unmarshal(body, &e); err != nil {
				return err
			}
			return proto.FromProto(&e)
		}
		return gproto.Unmarshal(body, reply)
	})
}

// retry calls again while the node is starting.
func (p *caller) retry(m nornv1.Method, req, reply gproto.Message) {
	p.t.Helper()
	for {
		err := p.call(m, req, reply)
		var e *proto.Error
		if errors.As(err, &e) && e.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			continue
		}
		if err != nil {
			p.t.Fatal(err)
		}
		return
	}
}

func (p *caller) enqueue(specs ...*nornv1.TaskSpec) []string {
	p.t.Helper()
	reply := &nornv1.EnqueueReply{}
	p.retry(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: specs}, reply)
	var ids []string
	for _, r := range reply.Results {
		if r.Error != nil {
			p.t.Fatal(r.Error)
		}
		ids = append(ids, r.Receipt.Id)
	}
	return ids
}

func (p *caller) claim(req *nornv1.ClaimRequest) []*nornv1.Grant {
	p.t.Helper()
	reply := &nornv1.ClaimReply{}
	p.retry(nornv1.Method_METHOD_CLAIM, req, reply)
	return reply.Grants
}

func taskID(t testing.TB, s string) []byte {
	t.Helper()
	task, err := id.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return task.Bytes()
}

func TestTasksSurviveARestart(t *testing.T) {
	c := testConfig(t)
	n := start(t, c, Options{})
	p := connect(t, n)
	ids := p.enqueue(&nornv1.TaskSpec{Queue: "q", Payload: []byte("a")}, &nornv1.TaskSpec{Queue: "q", Payload: []byte("b")})
	first := p.claim(&nornv1.ClaimRequest{Queues: []string{"q"}})
	if len(first) != 1 || first[0].Task.Id != ids[0] {
		t.Fatalf("claim: %v", first)
	}
	w := &nornv1.WriteReply{}
	p.retry(nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: taskID(t, ids[0]), Token: first[0].Token}}}, w)
	if w.Results[0].Error != nil {
		t.Fatal(w.Results[0].Error)
	}
	stop(t, n)

	n = start(t, c, Options{})
	defer stop(t, n)
	p = connect(t, n)
	second := p.claim(&nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 5})
	if len(second) != 1 || second[0].Task.Id != ids[1] || second[0].Token>>32 <= first[0].Token>>32 {
		t.Fatalf("after the restart: %v", second)
	}
	got := &nornv1.GetReply{}
	p.retry(nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: taskID(t, ids[0])}, got)
	if got.Task.State != nornv1.State_STATE_COMPLETED {
		t.Fatalf("the completed task: %v", got.Task)
	}
}

func TestLongPollOverTheWire(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	p, producer := connect(t, n), connect(t, n)
	p.claim(&nornv1.ClaimRequest{Queues: []string{"q"}}) // the node leads from here on
	got := make(chan []*nornv1.Grant, 1)
	go func() {
		reply := &nornv1.ClaimReply{}
		if err := p.call(nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 30}, reply); err != nil {
			t.Error(err)
		}
		got <- reply.Grants
	}()
	want := producer.enqueue(&nornv1.TaskSpec{Queue: "q"})[0]
	if g := <-got; len(g) != 1 || g[0].Task.Id != want {
		t.Fatalf("the waiting claim got %v", g)
	}
}

func TestGrantsOfAClosedConnectionAreFreed(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	gone, p := connect(t, n), connect(t, n)
	gone.claim(&nornv1.ClaimRequest{Queues: []string{"q"}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- call(ctx, gone.c, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 30}, &nornv1.ClaimReply{})
	}()
	for n.metrics.Core.Load().Waiting == 0 {
		select {
		case err := <-ended:
			t.Fatalf("the claim did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	_ = gone.c.Close()
	cancel()
	<-ended
	id := p.enqueue(&nornv1.TaskSpec{Queue: "q"})[0]
	if g := p.claim(&nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 30}); len(g) != 1 || g[0].Task.Id != id {
		t.Fatalf("the task went to a closed connection: %v", g)
	}
}

func TestHelloIsJudged(t *testing.T) {
	n := start(t, testConfig(t), Options{Access: access.Of("next", "secret")})
	defer stop(t, n)
	for name, tc := range map[string]struct {
		hello *nornv1.Hello
		want  nornv1.ErrorKind
	}{
		"newer":   {&nornv1.Hello{MinVersion: 7, MaxVersion: 9, AuthToken: "secret"}, nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE},
		"cluster": {&nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "secret", ClusterId: "other"}, nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE},
		"token":   {&nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "guess"}, nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED},
		"both":    {&nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "guess", ClusterId: "other"}, nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED},
	} {
		_, _, err := dial(t, n, tc.hello)
		var e *proto.Error
		if !errors.As(err, &e) || e.Kind != tc.want {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		} else if id := n.cluster.ID.String(); tc.hello.AuthToken != "secret" && strings.Contains(e.Message, id) {
			t.Errorf("%s: it is told the cluster's ID: %v", name, err)
		}
	}
	_, reply, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 9, AuthToken: "secret"})
	if err != nil || reply.Version != 1 || reply.Placement.Partitions != 64 {
		t.Fatalf("good hello: %v, %v", reply, err)
	}
}

// TestOnlyTheCluster: whether a node is of a cluster it says without a token, and nothing
// else; the hello proper follows on the same connection.
func TestOnlyTheCluster(t *testing.T) {
	n := start(t, testConfig(t), Options{Access: access.Of("secret")})
	defer stop(t, n)
	ours := n.cluster.ID.String()
	ask := func(cluster string) *nornv1.Hello {
		return &nornv1.Hello{MinVersion: 1, MaxVersion: 1, ClusterId: cluster, OnlyCluster: true}
	}
	hello := func(token string) *nornv1.Hello {
		return &nornv1.Hello{MinVersion: 1, MaxVersion: 1, ClusterId: ours, AuthToken: token}
	}
	refused := func(what string, err error, want nornv1.ErrorKind) {
		t.Helper()
		var e *proto.Error
		if !errors.As(err, &e) || e.Kind != want || strings.Contains(err.Error(), ours) {
			t.Errorf("%s: %v, want %v without the ID", what, err, want)
		}
	}
	for _, other := range []string{"", "01234567-89ab-4cde-8f01-23456789abcd"} {
		p, _, err := dial(t, n, ask(other))
		refused("another cluster", err, nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE)
		<-p.c.Done()
	}
	for token, want := range map[string]nornv1.ErrorKind{"secret": 0, "guess": nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED} {
		p, reply, err := dial(t, n, ask(ours))
		if err != nil || !gproto.Equal(reply, &nornv1.HelloReply{Version: 1}) {
			t.Fatalf("asked for its own cluster: %v, %v", reply, err)
		}
		if err := p.call(nornv1.Method_METHOD_HELLO, hello(token), reply); want != 0 {
			refused(token, err, want)
		} else if err != nil || reply.GetClusterId() != ours || p.call(nornv1.Method_METHOD_PING, &nornv1.Ping{}, &nornv1.PingReply{}) != nil {
			t.Errorf("hello after it: %v, %v", reply, err)
		}
	}
	p, _, _ := dial(t, n, ask(ours))
	refused("asked twice", p.call(nornv1.Method_METHOD_HELLO, ask(ours), &nornv1.HelloReply{}), nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT)
	p, _, _ = dial(t, n, ask(ours))
	refused("no hello", p.call(nornv1.Method_METHOD_PING, &nornv1.Ping{}, &nornv1.PingReply{}), nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE)
}

// TestBadBytesHarmNobodyElse sends what is not the protocol while another
// client works on.
func TestBadBytesHarmNobodyElse(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	good, bad := connect(t, n), connect(t, n)
	good.enqueue(&nornv1.TaskSpec{Queue: "q"})
	for _, method := range []uint16{uint16(nornv1.Method_METHOD_ENQUEUE), uint16(nornv1.Method_METHOD_CLAIM), 999} {
		err := bad.c.Call(t.Context(), method, transport.Bytes("\xff\xff\xff not protobuf"), func(flags uint16, body []byte) error {
			var e nornv1.Error
			if flags&transport.FlagError == 0 || gproto.Unmarshal(body, &e) != nil {
				t.Errorf("method %d: flags %x, body %x", method, flags, body)
			}
			return proto.FromProto(&e)
		})
		var e *proto.Error
		if !errors.As(err, &e) || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT && e.Kind != nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED {
			t.Errorf("method %d: %v", method, err)
		}
	}
	// The same connection goes on, and so does the other.
	bad.enqueue(&nornv1.TaskSpec{Queue: "q"})
	good.enqueue(&nornv1.TaskSpec{Queue: "q"})
	if g := good.claim(&nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 10}); len(g) != 3 {
		t.Fatalf("%d tasks, want 3", len(g))
	}
}

func TestSecondServerOnADirectoryIsRefused(t *testing.T) {
	c := testConfig(t)
	n := start(t, c, Options{})
	defer stop(t, n)
	if _, err := Start(c, Options{}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("second server: %v, want ErrLocked", err)
	}
	connect(t, n).enqueue(&nornv1.TaskSpec{Queue: "q"}) // the first is unharmed
}

func TestFullDiskStopsTheNode(t *testing.T) {
	failed := make(chan error, 1)
	n := start(t, testConfig(t), Options{
		FreeBytes: func(string) (uint64, error) { return 1000, nil },
		Fatal: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err := <-failed; !errors.Is(err, ErrDiskFull) {
		t.Fatalf("fatal: %v, want ErrDiskFull", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.dir.close(); err != nil {
		t.Fatal(err)
	}
}
