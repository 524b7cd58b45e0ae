package node

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	invalid  = nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
	missing  = nornv1.ErrorKind_ERROR_KIND_NOT_FOUND
	window   = nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW
	unknown  = nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED
	mismatch = nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE
)

// bystander is a client on a connection of its own that holds a claim.
type bystander struct {
	*caller
	held *nornv1.Grant
}

func newBystander(t *testing.T, n *Node) *bystander {
	t.Helper()
	b := &bystander{caller: connect(t, n)}
	b.enqueue(&nornv1.TaskSpec{Queue: "held"})
	b.held = b.claim(&nornv1.ClaimRequest{Queues: []string{"held"}, LeaseSeconds: 600})[0]
	return b
}

// unharmed passes a task through, renews the claim held since the beginning,
// and shows that nothing came into being in the queue of the bad requests; all
// over the connection that was there before.
func (b *bystander) unharmed(t *testing.T) {
	t.Helper()
	want := b.enqueue(&nornv1.TaskSpec{Queue: "bystander"})[0]
	g := b.claim(&nornv1.ClaimRequest{Queues: []string{"bystander"}})
	if len(g) != 1 || g[0].Task.Id != want {
		t.Fatalf("the bystander claimed %v, want task %s", g, want)
	}
	done, kept, count := &nornv1.WriteReply{}, &nornv1.RenewReply{}, &nornv1.CountReply{}
	b.retry(nornv1.Method_METHOD_COMPLETE, completion(t, g[0]), done)
	b.retry(nornv1.Method_METHOD_RENEW, renewal(t, b.held), kept)
	b.retry(nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{Queue: "bad"}, count)
	if done.Results[0].Error != nil || kept.Results[0].Error != nil || kept.Results[0].Claim.Token != b.held.Token {
		t.Fatalf("the bystander's claims: %v, %v", done, kept)
	}
	if count.Total.GetTotal() != 0 {
		t.Fatalf("%d tasks came into being", count.Total.GetTotal())
	}
	if b.c.Err() != nil {
		t.Fatalf("the bystander's connection: %v", b.c.Err())
	}
}

// badRequest is a request that must be refused, or an item of one.
type badRequest struct {
	name   string
	method nornv1.Method
	req    gproto.Message // or
	raw    []byte
	kind   nornv1.ErrorKind
	says   string
}

// task is a request to enqueue one task into the queue bad.
func task(change func(*nornv1.TaskSpec)) *nornv1.EnqueueRequest {
	s := &nornv1.TaskSpec{Queue: "bad", Payload: []byte("x")}
	change(s)
	return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}
}

func repeated[T any](n int, one func() T) (all []T) {
	for range n {
		all = append(all, one())
	}
	return all
}

func badTasks() (all []badRequest) {
	add := func(kind nornv1.ErrorKind, says, name string, change func(*nornv1.TaskSpec)) {
		all = append(all, badRequest{"task: " + name, nornv1.Method_METHOD_ENQUEUE, task(change), nil, kind, says})
	}
	now := time.Now().UnixNano()
	at := func(wall int64, kind id.Kind) []byte {
		o := id.OrderOf(wall, kind)
		return append(o[:], make([]byte, 12)...)
	}
	add(invalid, "payload of 1048577 bytes is over the limit of 1048576", "payload", func(s *nornv1.TaskSpec) { s.Payload = make([]byte, 1<<20+1) })
	for name, queue := range map[string]string{
		"empty": "", "dash first": "-bad", "dot first": ".bad", "129 bytes": strings.Repeat("b", 129), "space": "no good", "letter": "bäd",
		"NUL": "bad\x00", "line": "bad\n", "10 KiB": strings.Repeat("b", 10<<10),
	} {
		add(invalid, "is not [a-zA-Z0-9]", "queue name: "+name, func(s *nornv1.TaskSpec) { s.Queue = queue })
	}
	add(invalid, "19 bytes, not 20", "short ID", func(s *nornv1.TaskSpec) { s.Id = make([]byte, 19) })
	add(invalid, "21 bytes, not 20", "long ID", func(s *nornv1.TaskSpec) { s.Id = make([]byte, 21) })
	add(invalid, "clients do not make", "ID of a launch", func(s *nornv1.TaskSpec) { s.Id = at(now, id.KindLaunch) })
	add(invalid, "clients do not make", "ID of the system", func(s *nornv1.TaskSpec) { s.Id = at(now, id.KindSystem) })
	add(invalid, "", "ID of a key without one", func(s *nornv1.TaskSpec) { s.Id = at(now, id.KindKey) })
	add(invalid, "", "key with an ID of another kind", func(s *nornv1.TaskSpec) { s.Id, s.Key = at(now, id.KindTask), "k" })
	add(window, "in the future", "ID of tomorrow", func(s *nornv1.TaskSpec) { s.Id = at(now+int64(24*time.Hour), id.KindTask) })
	add(window, "older than gc-grace", "ID of last year", func(s *nornv1.TaskSpec) { s.Id = at(now-int64(365*24*time.Hour), id.KindTask) })
	add(invalid, "1001 dependencies", "dependencies", func(s *nornv1.TaskSpec) {
		s.Dependencies = repeated(1001, func() []byte { return at(now, id.KindTask) })
	})
	add(invalid, "depends on itself", "itself", func(s *nornv1.TaskSpec) { s.Id = at(now, id.KindTask); s.Dependencies = [][]byte{s.Id} })
	add(invalid, "dependency ID has 3 bytes", "short dependency", func(s *nornv1.TaskSpec) { s.Dependencies = [][]byte{[]byte("abc")} })
	add(missing, "", "dependency of last year", func(s *nornv1.TaskSpec) { s.Dependencies = [][]byte{at(now-int64(365*24*time.Hour), id.KindTask)} })
	add(invalid, "unknown value 9", "unknown policy", func(s *nornv1.TaskSpec) { s.OnDependencyFailure = 9 })
	add(invalid, "not_before", "time before 1970", func(s *nornv1.TaskSpec) { s.NotBefore = &timestamppb.Timestamp{Seconds: -1} })
	add(invalid, "not_before", "time after 2262", func(s *nornv1.TaskSpec) { s.NotBefore = &timestamppb.Timestamp{Seconds: math.MaxInt64} })
	add(invalid, "not_before", "no time", func(s *nornv1.TaskSpec) { s.NotBefore = &timestamppb.Timestamp{Nanos: -1} })
	add(invalid, "unique key of 1025 bytes", "key", func(s *nornv1.TaskSpec) { s.Key = strings.Repeat("k", 1025) })
	for _, w := range []float64{math.NaN(), -1} {
		add(invalid, "key window", fmt.Sprint("key window ", w), func(s *nornv1.TaskSpec) { s.Key, s.KeyWindowSeconds = "k", w })
	}
	add(invalid, "65 headers", "headers", func(s *nornv1.TaskSpec) {
		s.Headers = make(map[string]string)
		for i := range 65 {
			s.Headers[fmt.Sprint(i)] = ""
		}
	})
	add(invalid, "16384 bytes", "header bytes", func(s *nornv1.TaskSpec) { s.Headers = map[string]string{"a": strings.Repeat("b", 16<<10)} })
	add(invalid, "empty name", "header without a name", func(s *nornv1.TaskSpec) { s.Headers = map[string]string{"": "b"} })
	for _, v := range []float64{math.NaN(), math.Inf(1), -1, 1e9} {
		add(invalid, "retry", fmt.Sprint("back-off ", v), func(s *nornv1.TaskSpec) { s.Retry = &nornv1.RetryPolicy{InitialSeconds: v} })
		add(invalid, "retry", fmt.Sprint("longest back-off ", v), func(s *nornv1.TaskSpec) { s.Retry = &nornv1.RetryPolicy{MaxSeconds: v} })
		add(invalid, "retry", fmt.Sprint("multiplier ", v), func(s *nornv1.TaskSpec) { s.Retry = &nornv1.RetryPolicy{Multiplier: v} })
		add(invalid, "retry", fmt.Sprint("jitter ", v), func(s *nornv1.TaskSpec) { s.Retry = &nornv1.RetryPolicy{Jitter: v} })
	}
	return all
}

func badBatches() (all []badRequest) {
	add := func(name string, m nornv1.Method, says string, req gproto.Message) {
		all = append(all, badRequest{"batch: " + name, m, req, nil, invalid, says})
	}
	const over = 10_001
	claims := repeated(over, func() *nornv1.ClaimRef { return &nornv1.ClaimRef{Id: make([]byte, 20), Token: 1<<32 + 1} })
	ids := repeated(over, func() []byte { return make([]byte, 20) })
	mib := make([]byte, 1<<20)
	add("tasks", nornv1.Method_METHOD_ENQUEUE, "10001 items", &nornv1.EnqueueRequest{Tasks: repeated(over, func() *nornv1.TaskSpec { return &nornv1.TaskSpec{Queue: "bad"} })})
	add("bytes", nornv1.Method_METHOD_ENQUEUE, "over the limit of 16777216", &nornv1.EnqueueRequest{Tasks: repeated(17, func() *nornv1.TaskSpec { return &nornv1.TaskSpec{Queue: "bad", Payload: mib} })})
	add("renewals", nornv1.Method_METHOD_RENEW, "10001 items", &nornv1.RenewRequest{Claims: claims})
	add("releases", nornv1.Method_METHOD_RELEASE, "10001 items", &nornv1.ReleaseRequest{Claims: claims})
	add("completions", nornv1.Method_METHOD_COMPLETE, "10001 items", &nornv1.CompleteRequest{Completions: repeated(over, func() *nornv1.Completion { return &nornv1.Completion{} })})
	add("failures", nornv1.Method_METHOD_FAIL, "10001 items", &nornv1.FailRequest{Failures: repeated(over, func() *nornv1.Failure { return &nornv1.Failure{} })})
	add("bulk", nornv1.Method_METHOD_BULK, "over the limit of 10000", &nornv1.BulkRequest{Action: nornv1.BulkAction_BULK_ACTION_RETRY, Queue: "q", Limit: 10_001})
	add("work", nornv1.Method_METHOD_WORK, "10001 items", &nornv1.WorkRequest{Releases: claims})
	add("work that ends nothing", nornv1.Method_METHOD_WORK, "ends no task", &nornv1.WorkRequest{})
	add("cancels", nornv1.Method_METHOD_CANCEL, "10001 items", &nornv1.CancelRequest{Ids: ids})
	add("retries", nornv1.Method_METHOD_RETRY, "10001 items", &nornv1.RetryRequest{Ids: ids})
	for m, empty := range map[nornv1.Method]gproto.Message{
		nornv1.Method_METHOD_ENQUEUE: &nornv1.EnqueueRequest{}, nornv1.Method_METHOD_RENEW: &nornv1.RenewRequest{},
		nornv1.Method_METHOD_RELEASE: &nornv1.ReleaseRequest{}, nornv1.Method_METHOD_COMPLETE: &nornv1.CompleteRequest{},
		nornv1.Method_METHOD_FAIL: &nornv1.FailRequest{}, nornv1.Method_METHOD_CANCEL: &nornv1.CancelRequest{}, nornv1.Method_METHOD_RETRY: &nornv1.RetryRequest{},
	} {
		add("none: "+m.String(), m, "empty", empty)
	}
	// What takes megabytes on the wire and gigabytes in memory.
	all = append(all, badRequest{"batch: a heap of empty tasks", nornv1.Method_METHOD_ENQUEUE, nil, spread(200_000, "\x0a\x00"), invalid, "200000 items"},
		badRequest{"batch: a heap of empty claims", nornv1.Method_METHOD_RENEW, nil, spread(200_000, "\x0a\x00"), invalid, "200000 items"},
		badRequest{"batch: a heap of queues", nornv1.Method_METHOD_CLAIM, nil, spread(200_000, "\x0a\x00"), invalid, "200000 items"},
		badRequest{"batch: a heap of states", nornv1.Method_METHOD_LIST, nil, spread(200_000, "\x10\x01"), invalid, "200000 items"})
	return all
}

func badClaims(held *nornv1.Grant) (all []badRequest) {
	add := func(name string, m nornv1.Method, says string, req gproto.Message) {
		all = append(all, badRequest{name, m, req, nil, invalid, says})
	}
	ref := []*nornv1.ClaimRef{{Id: make([]byte, 20), Token: held.Token}}
	for _, lease := range []float64{0.999, 24*3600 + 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		add(fmt.Sprint("claim: lease of ", lease), nornv1.Method_METHOD_CLAIM, "lease of", &nornv1.ClaimRequest{Queues: []string{"held"}, LeaseSeconds: lease})
		add(fmt.Sprint("renew: lease of ", lease), nornv1.Method_METHOD_RENEW, "lease of", &nornv1.RenewRequest{Claims: ref, LeaseSeconds: lease})
	}
	add("claim: no queue", nornv1.Method_METHOD_CLAIM, "names 0 queues", &nornv1.ClaimRequest{})
	add("claim: queues", nornv1.Method_METHOD_CLAIM, "names 1001 queues", &nornv1.ClaimRequest{Queues: repeated(1001, func() string { return "q" })})
	add("claim: queue name", nornv1.Method_METHOD_CLAIM, "is not [a-zA-Z0-9]", &nornv1.ClaimRequest{Queues: []string{"held", "no good"}})
	add("claim: tasks", nornv1.Method_METHOD_CLAIM, "over the limit of 10000", &nornv1.ClaimRequest{Queues: []string{"held"}, MaxTasks: 10_001})
	add("claim: worker", nornv1.Method_METHOD_CLAIM, "over the limit of 256", &nornv1.ClaimRequest{Queues: []string{"held"}, Worker: strings.Repeat("w", 257)})
	add("claim: session", nornv1.Method_METHOD_CLAIM, "session has 3 bytes", &nornv1.ClaimRequest{Queues: []string{"held"}, Session: []byte("abc")})
	for _, wait := range []float64{-1, 301, math.Inf(1)} {
		add(fmt.Sprint("claim: wait of ", wait), nornv1.Method_METHOD_CLAIM, "wait of", &nornv1.ClaimRequest{Queues: []string{"nothing"}, WaitSeconds: wait})
		add(fmt.Sprint("log: wait of ", wait), nornv1.Method_METHOD_LOG, "wait of", &nornv1.LogRequest{Id: make([]byte, 20), WaitSeconds: wait})
	}
	for m, req := range map[nornv1.Method]gproto.Message{
		nornv1.Method_METHOD_RENEW:    &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: []byte("abc"), Token: 1<<32 + 1}}},
		nornv1.Method_METHOD_RELEASE:  &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: []byte("abc"), Token: 1<<32 + 1}}},
		nornv1.Method_METHOD_COMPLETE: &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: []byte("abc"), Token: 1<<32 + 1}}},
		nornv1.Method_METHOD_FAIL:     &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: []byte("abc"), Token: 1<<32 + 1}}},
		nornv1.Method_METHOD_UPDATE:   &nornv1.UpdateRequest{Id: []byte("abc"), Token: 1<<32 + 1},
		nornv1.Method_METHOD_GET:      &nornv1.GetRequest{Id: []byte("abc")},
		nornv1.Method_METHOD_LOG:      &nornv1.LogRequest{Id: []byte("abc")},
		nornv1.Method_METHOD_EXPLAIN:  &nornv1.ExplainRequest{Id: []byte("abc")},
		nornv1.Method_METHOD_CANCEL:   &nornv1.CancelRequest{Ids: [][]byte{[]byte("abc")}},
		nornv1.Method_METHOD_RETRY:    &nornv1.RetryRequest{Ids: [][]byte{[]byte("abc")}},
	} {
		add("ID: "+m.String(), m, "3 bytes, not 20", req)
	}
	add("no token", nornv1.Method_METHOD_COMPLETE, "token is missing", &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: make([]byte, 20)}}})
	large := make([]byte, 1<<20+1)
	add("update", nornv1.Method_METHOD_UPDATE, "over the limit of 1048576", &nornv1.UpdateRequest{Id: make([]byte, 20), Token: 1<<32 + 1, Data: large})
	add("result", nornv1.Method_METHOD_COMPLETE, "over the limit of 1048576", &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: make([]byte, 20), Token: 1<<32 + 1, Result: large}}})
	add("retry_at", nornv1.Method_METHOD_FAIL, "retry_at", &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: make([]byte, 20), Token: 1<<32 + 1, RetryAt: &timestamppb.Timestamp{Seconds: -5}}}})
	return all
}

func badEnums() (all []badRequest) {
	add := func(name string, m nornv1.Method, req gproto.Message) {
		all = append(all, badRequest{"enum: " + name, m, req, nil, invalid, ""})
	}
	ids := [][]byte{make([]byte, 20)}
	states := []nornv1.State{99}
	level := &nornv1.Durability{Level: 99}
	add("state of a list", nornv1.Method_METHOD_LIST, &nornv1.ListRequest{States: states})
	add("state of a cancel", nornv1.Method_METHOD_CANCEL, &nornv1.CancelRequest{Ids: ids, OnlyStates: states})
	add("state of a retry", nornv1.Method_METHOD_RETRY, &nornv1.RetryRequest{Ids: ids, OnlyStates: states})
	enqueue := task(func(*nornv1.TaskSpec) {})
	enqueue.Durability = level
	add("level of an enqueue", nornv1.Method_METHOD_ENQUEUE, enqueue)
	add("level of an update", nornv1.Method_METHOD_UPDATE, &nornv1.UpdateRequest{Id: ids[0], Token: 1<<32 + 1, Durability: level})
	add("level of a completion", nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: ids[0], Token: 1<<32 + 1}}, Durability: level})
	add("level of a cancel", nornv1.Method_METHOD_CANCEL, &nornv1.CancelRequest{Ids: ids, Durability: level})
	add("retention", nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "bad", Fields: []string{"retention"}, Settings: &nornv1.QueueSettings{Retention: 99}})
	add("field of the settings", nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "bad", Fields: []string{"colour"}, Settings: &nornv1.QueueSettings{}})
	return all
}

// badFrames are bodies that are no message, for every method.
func badFrames() (all []badRequest) {
	for number := range nornv1.Method_name {
		m := nornv1.Method(number)
		if carried(m) == nil {
			continue
		}
		all = append(all, badRequest{"malformed: " + m.String(), m, nil, []byte("\xff\xff\xff not protobuf"), invalid, "malformed"},
			badRequest{"cut off: " + m.String(), m, nil, []byte("\x0a\x05ab"), invalid, "malformed"})
	}
	add := func(name string, m uint16, kind nornv1.ErrorKind, says, raw string) {
		all = append(all, badRequest{name, nornv1.Method(m), nil, []byte(raw), kind, says})
	}
	add("text that is no UTF-8", uint16(nornv1.Method_METHOD_ENQUEUE), invalid, "UTF-8", "\x0a\x03\x12\x01\xff")
	add("method 0", 0, unknown, "method 0", "")
	add("a method of the future", 1023, unknown, "method 1023", "\x0a\x00")
	add("a second hello", uint16(nornv1.Method_METHOD_HELLO), unknown, "", "")
	add("a frame over the limit", uint16(nornv1.Method_METHOD_ENQUEUE), invalid, "too large", string(make([]byte, proto.MaxFrame)))
	return all
}

// TestBadRequestsHarmNobody sends every kind of bad request over one
// connection, and after each looks at another one that was there before.
func TestBadRequestsHarmNobody(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	other := newBystander(t, n)
	client, err := transport.Dial(t.Context(), n.Addr().String(), transport.ClientConfig{MaxFrame: 2 * proto.MaxFrame})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	bad := &caller{t, client}
	if err := bad.call(nornv1.Method_METHOD_HELLO, &nornv1.Hello{MinVersion: 1, MaxVersion: 1}, &nornv1.HelloReply{}); err != nil {
		t.Fatal(err)
	}
	rows := badTasks()
	rows = append(rows, badBatches()...)
	rows = append(rows, badClaims(other.held)...)
	rows = append(rows, badEnums()...)
	rows = append(rows, badFrames()...)
	other.unharmed(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			e := bad.refusal(t, row)
			if e == nil {
				t.Errorf("it is accepted")
			} else if e.Kind != row.kind || !strings.Contains(e.Message, row.says) || e.Effect != nornv1.Effect_EFFECT_NONE || strings.Contains(e.Message, "\n") || len(e.Message) > 500 {
				t.Errorf("got %v %q (effect %v), want %v with %q in one line", e.Kind, e.Message, e.Effect, row.kind, row.says)
			}
			other.unharmed(t)
		})
	}
	if bad.c.Err() != nil {
		t.Errorf("the connection of the bad requests: %v", bad.c.Err())
	}
	bad.enqueue(&nornv1.TaskSpec{Queue: "good"})
}

// refusal sends a bad request and gives the error of it or of its first item.
func (p *caller) refusal(t *testing.T, row badRequest) *proto.Error {
	t.Helper()
	body := transport.Body(transport.Bytes(row.raw))
	if row.req != nil {
		body = &wireBody{m: row.req}
	}
	var answer *nornv1.Error
	err := p.c.Call(t.Context(), uint16(row.method), body, func(flags uint16, b []byte) error {
		if flags&transport.FlagError != 0 {
			answer = &nornv1.Error{}
			return gproto.Unmarshal(b, answer)
		}
		// Results are the first field of every answer that has them, and the
		// item's error the second or third; reflection finds it.
		answer = itemError(row.method, b)
		return nil
	})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if answer == nil {
		return nil
	}
	return proto.FromProto(answer)
}

// itemError is the error of the first item of an answer.
func itemError(m nornv1.Method, b []byte) *nornv1.Error {
	switch m {
	case nornv1.Method_METHOD_ENQUEUE:
		r := &nornv1.EnqueueReply{}
		if gproto.Unmarshal(b, r) == nil && len(r.Results) > 0 {
			return r.Results[0].Error
		}
	case nornv1.Method_METHOD_RENEW:
		r := &nornv1.RenewReply{}
		if gproto.Unmarshal(b, r) == nil && len(r.Results) > 0 {
			return r.Results[0].Error
		}
	case nornv1.Method_METHOD_UPDATE, nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE, nornv1.Method_METHOD_CANCEL, nornv1.Method_METHOD_RETRY:
		r := &nornv1.WriteReply{}
		if gproto.Unmarshal(b, r) == nil && len(r.Results) > 0 {
			return r.Results[0].Error
		}
	}
	return nil
}

// TestBadConnectionsHarmNobody sends what ends a connection, or may not begin
// one.
func TestBadConnectionsHarmNobody(t *testing.T) {
	n := start(t, testConfig(t), Options{Access: access.Of("secret")})
	defer stop(t, n)
	p, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	p.enqueue(&nornv1.TaskSpec{Queue: "held"})
	other := &bystander{p, p.claim(&nornv1.ClaimRequest{Queues: []string{"held"}, LeaseSeconds: 600})[0]}
	other.unharmed(t)
	for name, tc := range map[string]struct {
		hello *nornv1.Hello
		raw   []byte // after a good hello, when there is no other
		kind  nornv1.ErrorKind
	}{
		"version":                   {hello: &nornv1.Hello{MinVersion: 8, MaxVersion: 9, AuthToken: "secret"}, kind: mismatch},
		"no version":                {hello: &nornv1.Hello{AuthToken: "secret"}, kind: mismatch},
		"cluster":                   {hello: &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "secret", ClusterId: "x"}, kind: mismatch},
		"token":                     {hello: &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "x"}, kind: nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED},
		"a frame far too large":     {raw: []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3}, kind: invalid},
		"a frame that is too short": {raw: []byte{0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3}, kind: invalid},
		"an answer":                 {raw: transport.AppendFrame(nil, transport.Frame{Request: 2, Method: 3, Flags: transport.FlagResponse}), kind: invalid},
		"a stream":                  {raw: transport.AppendFrame(nil, transport.Frame{Request: 2, Method: 3, Flags: transport.FlagMore}), kind: invalid},
		"a reserved bit":            {raw: transport.AppendFrame(nil, transport.Frame{Request: 2, Method: 3, Flags: 0x0400}), kind: invalid},
		"request 0":                 {raw: transport.AppendFrame(nil, transport.Frame{Method: 3}), kind: invalid},
		"a cancel with a body":      {raw: transport.AppendFrame(nil, transport.Frame{Request: 2, Flags: transport.FlagCancel, Body: []byte("x")}), kind: invalid},
	} {
		t.Run(name, func(t *testing.T) {
			nc := socket(t, n)
			hello := tc.hello
			if hello == nil {
				hello = &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "secret"}
			}
			if _, err := nc.Write(append(frameOf(t, 1, nornv1.Method_METHOD_HELLO, hello), tc.raw...)); err != nil {
				t.Fatal(err)
			}
			if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			f := readFrame(t, nc)
			if tc.hello == nil {
				f = readFrame(t, nc)
			}
			var e nornv1.Error
			if err := gproto.Unmarshal(f.Body, &e); err != nil || f.Flags&transport.FlagError == 0 || e.Kind != tc.kind || e.Message == "" {
				t.Errorf("got %+v %v, %v; want an error of kind %v", f, &e, err, tc.kind)
			}
			if rest, _ := until(nc); len(rest) > 0 {
				t.Errorf("then came %x", rest)
			}
			other.unharmed(t)
		})
	}
}

// TestLargestPayload: the limit can be set to 16 MiB, and what is allowed gets
// through to a worker and back.
func TestLargestPayload(t *testing.T) {
	c := testConfig(t)
	c.MaxPayload = proto.MaxPayloadCeiling
	n := start(t, c, Options{})
	defer stop(t, n)
	other := newBystander(t, n)
	p, hello, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
	if err != nil || hello.Limits.MaxPayloadBytes != 16<<20 {
		t.Fatalf("%v, %v", hello, err)
	}
	payload := make([]byte, 16<<20)
	payload[len(payload)-1] = 7
	p.enqueue(&nornv1.TaskSpec{Queue: "largest", Payload: payload})
	other.unharmed(t)
	e := p.refusal(t, badRequest{method: nornv1.Method_METHOD_ENQUEUE, req: task(func(s *nornv1.TaskSpec) { s.Payload = append(payload, 0) })})
	if e == nil || e.Kind != invalid || !strings.Contains(e.Message, "16777216") {
		t.Errorf("a byte more: %v", e)
	}
	other.unharmed(t)
	g := p.claim(&nornv1.ClaimRequest{Queues: []string{"largest"}})
	if len(g) != 1 || len(g[0].Task.Payload) != 16<<20 || g[0].Task.Payload[16<<20-1] != 7 {
		t.Fatal("the worker gets something else")
	}
	p.retry(nornv1.Method_METHOD_COMPLETE, completion(t, g[0]), &nornv1.WriteReply{})
	other.unharmed(t)
}
