package core

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// An input of FuzzRequests is a script of steps: a byte that says what, a byte
// of which the low bits are a connection and the high ones a pause before it,
// and, for a request, a length and a body. Codes up to the highest method are
// requests of that method; the next ones are these.
const (
	stepCancel = iota // of the oldest open request
	stepGone          // of the connection
	stepCrash
	stepDrop // the last answer with grants surely never left
	stepCodes
)

var pauses = [...]time.Duration{0, time.Millisecond, time.Second, eta + time.Second, leaseTime, leaseTime + eta, 2 * time.Hour, 8 * 24 * time.Hour}

// requestOf makes the message of a method by the names of the protocol.
func requestOf(m nornv1.Method) gproto.Message {
	name := strings.TrimPrefix(m.String(), "METHOD_")
	camel := ""
	for part := range strings.SplitSeq(strings.ToLower(name), "_") {
		camel += strings.ToUpper(part[:1]) + part[1:]
	}
	typ, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("norn.v1." + camel + "Request"))
	if err != nil {
		return nil // hello and ping do not get to the core
	}
	return typ.New().Interface()
}

// script writes inputs.
type script struct{ b []byte }

func (s *script) request(pause byte, m nornv1.Method, body gproto.Message) *script {
	b, err := gproto.Marshal(body)
	if err != nil {
		panic(err)
	}
	s.b = append(s.b, byte(m), pause<<2|1)
	s.b = append(binary.AppendUvarint(s.b, uint64(len(b))), b...)
	return s
}

func (s *script) step(pause byte, code int) *script {
	s.b = append(s.b, byte(len(nornv1.Method_name)+code), pause<<2|1)
	return s
}

// player runs a script against a rig.
type player struct {
	*rig
	open map[message.Origin]bool
}

func (p *player) play(b []byte) {
	for steps := 0; len(b) >= 2 && steps < 24; steps++ {
		code, conn, pause := int(b[0])%(len(nornv1.Method_name)+stepCodes), uint64(b[1]&3), pauses[b[1]>>2&7]
		b = b[2:]
		if pause > 0 {
			p.pass(pause)
		}
		if code < len(nornv1.Method_name) {
			b = p.send(conn, nornv1.Method(code), b)
		} else {
			p.happen(code-len(nornv1.Method_name), conn)
		}
		p.turn()
	}
}

// send decodes a request as the server does and gives it to the core.
func (p *player) send(conn uint64, m nornv1.Method, b []byte) (rest []byte) {
	size, n := binary.Uvarint(b)
	if n <= 0 {
		return nil
	}
	b = b[n:]
	size = min(size, uint64(len(b)))
	body := requestOf(m)
	if body == nil || gproto.Unmarshal(b[:size], body) != nil {
		return b[size:]
	}
	p.open[p.rig.send(conn, body)] = true
	return b[size:]
}

func (p *player) happen(code int, conn uint64) {
	switch code {
	case stepCancel:
		for _, from := range p.unanswered() {
			if from.Conn == conn {
				p.step(message.Cancel{From: from})
				return
			}
		}
	case stepGone:
		p.step(message.Gone{Conn: conn})
		for from := range p.open {
			if from.Conn == conn {
				delete(p.open, from)
			}
		}
	case stepCrash:
		p.crash(0)
		clear(p.open)
	case stepDrop:
		var last message.Origin
		for from, r := range p.replies {
			if len(r.Grants) > 0 && from.Request > last.Request {
				last = from
			}
		}
		if last.Request > 0 {
			p.step(message.Undelivered{Grants: p.replies[last].Grants})
			delete(p.replies, last)
			delete(p.open, last)
		}
	}
}

// unanswered are the open requests without a reply, the oldest first.
func (p *player) unanswered() (all []message.Origin) {
	for from := range p.open {
		if _, answered := p.replies[from]; !answered {
			all = append(all, from)
		}
	}
	slices.SortFunc(all, func(a, b message.Origin) int { return cmp.Compare(a.Request, b.Request) })
	return all
}

// settle withdraws what still waits: then every request has its one answer.
func (p *player) settle() {
	p.t.Helper()
	for _, from := range p.unanswered() {
		p.step(message.Cancel{From: from})
	}
	p.turn()
	for from := range p.open {
		if r, answered := p.replies[from]; !answered || (r.Message == nil) == (r.Err == nil) {
			p.t.Fatalf("request %v has the answer %v", from, r)
		}
	}
}

// works is a life of a task in a queue that no script knows.
func (p *player) works() {
	p.t.Helper()
	p.audit()
	p.enqueue(spec(goodQueue))
	g := p.claim(goodQueue, 1)
	if len(g) != 1 {
		p.t.Fatalf("claimed %v", g)
	}
	task := parse(p.t, g[0].Task.Id)
	if res := p.complete(task, g[0].Token); res.Error != nil {
		p.t.Fatal(res.Error)
	}
	if got := p.get(task); got.State != nornv1.State_STATE_COMPLETED {
		p.t.Fatalf("%v", got)
	}
	p.audit()
}

const goodQueue = "a-queue-that-no-script-knows"

// scene is where a script begins: tasks in every state, and what is needed to
// name them.
func scene(t testing.TB) (p *player, ids [][]byte, token uint64) {
	t.Helper()
	p = &player{rig: newRig(t), open: make(map[message.Origin]bool)}
	p.collect = time.Hour
	p.rig.open()
	p.enqueue(spec(goodQueue))
	for range 5 {
		ids = append(ids, p.enqueue(spec("q"))[0].Bytes())
	}
	later := spec("q")
	later.NotBefore = timestamppb.New(time.Unix(0, p.now.Wall).Add(time.Hour))
	ids = append(ids, p.enqueue(later)[0].Bytes())
	behind := spec("q")
	behind.Dependencies = ids[:2]
	ids = append(ids, p.enqueue(behind)[0].Bytes())
	token = p.claim("q", 2)[0].Token
	return p, ids, token
}

func FuzzRequests(f *testing.F) {
	_, ids, token := scene(f)
	for _, s := range scripts(ids, token) {
		f.Add(s.b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return // room for more tasks than there may be claims
		}
		p, _, _ := scene(t)
		p.play(b)
		p.settle()
		p.works()
		p.crash(time.Second)
		clear(p.open)
		p.works()
	})
}

// scripts are the seeds: each method in good and in bad.
func scripts(ids [][]byte, token uint64) (all []*script) {
	add := func() *script {
		s := &script{}
		all = append(all, s)
		return s
	}
	ref := []*nornv1.ClaimRef{{Id: ids[0], Token: token}, {Id: ids[1], Token: token + 1}, {Id: ids[2], Token: 1}, {}}
	session := []byte("sixteen bytes...")
	claim := &nornv1.ClaimRequest{Queues: []string{"q", "none", "q"}, MaxTasks: 3, WaitSeconds: 60, Session: session, RequestNo: 1, LeaseSeconds: 1}
	states := []nornv1.State{nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED, nornv1.State_STATE_DEAD}
	add().request(0, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{
		{Queue: "q", Priority: -1 << 31, Payload: []byte("p")}, {Queue: "-"}, {Queue: "q", Id: ids[0]}, {Queue: "q", Id: ids[3], Payload: []byte("payload")},
		{Queue: "k", Key: "key", KeyWindowSeconds: 60}, {Queue: "k", Key: "key"}, {Queue: "q", Id: make([]byte, 20)}, {},
		{Queue: "q", Dependencies: ids, OnDependencyFailure: 2}, {Queue: "q", Dependencies: [][]byte{make([]byte, 20)}, OnDependencyFailure: 7},
		{Queue: "q", Headers: map[string]string{"a": "b"}, Retry: &nornv1.RetryPolicy{MaxAttempts: 1, InitialSeconds: 1e300}, NotBefore: &timestamppb.Timestamp{Seconds: -1, Nanos: -1}},
	}, Durability: &nornv1.Durability{Level: 3, Copies: 1}})
	add().request(0, nornv1.Method_METHOD_CLAIM, claim).request(1, nornv1.Method_METHOD_CLAIM, claim).step(0, stepDrop).request(5, nornv1.Method_METHOD_CLAIM, claim).step(0, stepCancel).step(0, stepGone)
	add().request(0, nornv1.Method_METHOD_RENEW, &nornv1.RenewRequest{Claims: ref, LeaseSeconds: 86400}).request(6, nornv1.Method_METHOD_RENEW, &nornv1.RenewRequest{Claims: ref, LeaseSeconds: 1e-9})
	add().request(0, nornv1.Method_METHOD_UPDATE, &nornv1.UpdateRequest{Id: ids[0], Token: token, Seq: 0, Data: []byte("d")}).
		request(0, nornv1.Method_METHOD_UPDATE, &nornv1.UpdateRequest{Id: ids[0], Token: token, Seq: 1<<64 - 1, Output: true}).
		request(0, nornv1.Method_METHOD_LOG, &nornv1.LogRequest{Id: ids[0], WaitSeconds: 60}).request(0, nornv1.Method_METHOD_LOG, &nornv1.LogRequest{Id: ids[0], WaitSeconds: 60, After: true, AfterToken: token}).step(2, stepCancel).step(0, stepGone)
	add().request(0, nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: ids[0], Token: token, AutoSeq: true, Result: []byte("r")}, {Id: ids[1], Token: 1 << 63, Seq: 1 << 63}}}).step(0, stepCrash)
	add().request(0, nornv1.Method_METHOD_FAIL, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: ids[0], Token: token, Error: "e", Discard: true}, {Id: ids[1], Token: token + 1, RetryAt: &timestamppb.Timestamp{Seconds: 1 << 40}}}}).
		request(3, nornv1.Method_METHOD_RETRY, &nornv1.RetryRequest{Ids: ids, OnlyStates: states}).request(0, nornv1.Method_METHOD_RETRY, &nornv1.RetryRequest{Ids: append(ids, nil, ids[0])})
	add().request(0, nornv1.Method_METHOD_RELEASE, &nornv1.ReleaseRequest{Claims: ref}).request(0, nornv1.Method_METHOD_CANCEL, &nornv1.CancelRequest{Ids: ids, Reason: "why", OnlyStates: states}).
		request(0, nornv1.Method_METHOD_CANCEL, &nornv1.CancelRequest{Ids: [][]byte{ids[0], ids[0], {}, make([]byte, 20)}}).request(7, nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: ids[0]})
	add().request(0, nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: ids[6], Consistency: &nornv1.Consistency{AtLeast: true, AtLeastSeq: 3}}).
		request(0, nornv1.Method_METHOD_EXPLAIN, &nornv1.ExplainRequest{Id: ids[6]}).request(0, nornv1.Method_METHOD_EXPLAIN, &nornv1.ExplainRequest{Id: make([]byte, 20)})
	add().request(0, nornv1.Method_METHOD_LIST, &nornv1.ListRequest{Queue: "q", States: states, Limit: 2, Filter: &nornv1.Filter{
		CreatedBefore: &timestamppb.Timestamp{Seconds: 1 << 62}, CreatedAfter: &timestamppb.Timestamp{Nanos: -5}, ErrorContains: "e", Headers: map[string]string{"": ""}, MinAttempts: 1, Key: "key", Worker: "w", DependsOn: ids[0], Kind: "k", Tags: []string{"t"}, PayloadContains: "a", PayloadPaths: map[string]string{"a.0": "b"},
	}}).request(0, nornv1.Method_METHOD_LIST, &nornv1.ListRequest{Cursor: ids[2], IdsOnly: true, States: []nornv1.State{99}}).request(0, nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{Queue: "q"}).
		request(0, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{})
	add().request(0, nornv1.Method_METHOD_KEY, &nornv1.KeyRequest{Queue: "k", Key: "key", WindowSeconds: 1e-300}).request(0, nornv1.Method_METHOD_KEY, &nornv1.KeyRequest{Queue: "k", Key: "key", WindowSeconds: 1e300})
	settings := &nornv1.QueueSettings{Paused: true, Draining: true, Note: "n", LeaseSeconds: 5, RetentionSeconds: 1, Retention: 2, MaxTasks: 1, Retry: &nornv1.RetryPolicy{MaxAttempts: 2, Multiplier: 1e9}}
	fields := []string{"paused", "draining", "note", "lease_seconds", "retention", "retention_seconds", "dead_retention_seconds", "max_tasks", "retry", "colour"}
	for i := range fields {
		add().request(0, nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "q", Settings: settings, Fields: fields[i : i+1]}).request(1, nornv1.Method_METHOD_CLAIM, claim).
			request(0, nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{}, Fields: fields[:i], IfVersion: 1}).
			request(6, nornv1.Method_METHOD_QUEUES, &nornv1.QueuesRequest{Names: []string{"q", "none", "-"}}).request(7, nornv1.Method_METHOD_QUEUES, &nornv1.QueuesRequest{})
	}
	return all
}
