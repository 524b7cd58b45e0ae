package web

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is how long anything may take on a busy machine.
const patient = 60 * time.Second

// answering is a backend that gives every method its empty reply, and counts.
func answering(called *atomic.Int64) *backend {
	return &backend{enqueue: true, claim: true, registry: prometheus.NewRegistry(), call: func(_ context.Context, m nornv1.Method, _ gproto.Message) (gproto.Message, *proto.Error, func()) {
		called.Add(1)
		for _, rt := range routes() {
			if rt.method == m {
				return rt.reply, nil, func() {}
			}
		}
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "no"), func() {}
	}}
}

// up serves on a free port until the test ends.
func up(t *testing.T, b Backend, o Options) (addr string, s *Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = NewServer(b, o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("served until %v", err)
		}
	})
	return l.Addr().String(), s
}

// soon waits until something holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !holds(); {
		if time.Now().After(end) {
			t.Fatal("it does not come about: " + what)
		}
		<-time.After(time.Millisecond)
	}
}

// TestEveryMethodOfTheWireHasARoute fails when an operation is added to the wire
// and not to the API.
func TestEveryMethodOfTheWireHasARoute(t *testing.T) {
	elsewhere := map[nornv1.Method]string{
		nornv1.Method_METHOD_UNSPECIFIED: "no method",
		nornv1.Method_METHOD_SESSION:     "a session is its connection: workers over HTTP claim and renew",
		nornv1.Method_METHOD_LAUNCH:      "between nodes only",
		nornv1.Method_METHOD_BACKUP:      "pages of facts, in a form of their own: norn backup reads them over the client port",
		nornv1.Method_METHOD_RESTORE:     "likewise: norn backup restore writes them",
	}
	all := routes()
	for n, name := range nornv1.Method_name {
		m := nornv1.Method(n)
		has := slices.ContainsFunc(all, func(rt route) bool { return rt.method == m })
		if has == (elsewhere[m] != "") {
			t.Errorf("%s: has a route: %v, and a reason not to have one: %q", name, has, elsewhere[m])
		}
	}
	seen := make(map[string]bool)
	for _, rt := range all {
		request, reply := rt.request.ProtoReflect().Descriptor(), rt.reply.ProtoReflect().Descriptor()
		if key := rt.verb + " " + rt.path; seen[key] {
			t.Errorf("%s is there twice", key)
		} else {
			seen[key] = true
		}
		if strings.Contains(rt.path, variable) != (rt.field != "") || rt.field != "" && request.Fields().ByName(protoName(rt.field)) == nil {
			t.Errorf("%s: field %q", rt.path, rt.field)
		}
		if rt.says == "" || !strings.HasPrefix(rt.path, "/api/v1/") || rt.streams && request.Name() != "LogRequest" {
			t.Errorf("%+v", rt)
		}
		if want := strings.TrimSuffix(string(request.Name()), "Request") + "Reply"; string(reply.Name()) != want && !slices.Contains([]string{"WriteReply", "HelloReply", "QueuesReply", "WorkersReply"}, string(reply.Name())) {
			t.Errorf("%s is answered by %s", request.Name(), reply.Name())
		}
	}
}

// TestEachRouteCallsItsMethod walks the table with the shortest request of each.
func TestEachRouteCallsItsMethod(t *testing.T) {
	for _, rt := range routes() {
		var got nornv1.Method
		b := &backend{registry: prometheus.NewRegistry(), call: func(_ context.Context, m nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
			got = m
			if request.ProtoReflect().Descriptor() != rt.request.ProtoReflect().Descriptor() {
				t.Errorf("%s: it got a %s", rt.path, request.ProtoReflect().Descriptor().Name())
			}
			return rt.reply, nil, func() {}
		}}
		var body io.Reader
		if rt.verb != get {
			body = strings.NewReader("{}")
		}
		r := localRequest(rt.verb, strings.ReplaceAll(rt.path, variable, "37dGamhT6KhgeCdJ3yaFwZAimIC"), body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		NewServer(b, Options{}).Handler.ServeHTTP(w, r)
		want := http.StatusOK
		if rt.field == "names" {
			want = http.StatusNotFound // none is in the empty reply
		}
		if w.Code != want || got != rt.method {
			t.Errorf("%s %s: %d %s, called %v", rt.verb, rt.path, w.Code, w.Body, got)
		}
	}
}

// TestStatusOfErrors gives each kind of error to a client.
func TestStatusOfErrors(t *testing.T) {
	want := map[nornv1.ErrorKind]int{
		0: 500, 1: 400, 2: 404, 3: 409, 4: 409, 5: 503, 6: 429, 7: 504, 8: 503, 9: 401, 10: 403, 11: 501, 12: 400, 13: 400, 14: 507, 15: 500, 16: 409,
	}
	if len(want) != len(nornv1.ErrorKind_name) {
		t.Error("a kind of error has no status here")
	}
	for kind, code := range want {
		fail := &proto.Error{Kind: kind, Message: "what to do", Guarantee: "a majority", RetryAfter: 1500 * time.Millisecond, Effect: nornv1.Effect_EFFECT_PARTIAL}
		b := &backend{registry: prometheus.NewRegistry(), call: func(context.Context, nornv1.Method, gproto.Message) (gproto.Message, *proto.Error, func()) {
			return nil, fail, func() {}
		}}
		w := httptest.NewRecorder()
		NewServer(b, Options{}).Handler.ServeHTTP(w, localRequest("GET", "/api/v1/ping", nil))
		var body struct {
			Error struct {
				Kind, Message, Guarantee, Effect string
				RetryAfter                       float64 `json:"retry_after_seconds"`
			}
		}
		err := json.Unmarshal(w.Body.Bytes(), &body)
		if err != nil || w.Code != code || w.Header().Get("Retry-After") != "2" || body.Error.Message != "what to do" || body.Error.Effect != "partial" ||
			body.Error.Guarantee != "a majority" || body.Error.RetryAfter != 1.5 || body.Error.Kind == "" {
			t.Errorf("%s: %d %q %s, %v", kind, w.Code, w.Header().Get("Retry-After"), w.Body, err)
		}
	}
}

// TestTokenIsAskedForByAllOfTheAPI goes through all routes without the token, and
// with it.
func TestTokenIsAskedForByAllOfTheAPI(t *testing.T) {
	var called atomic.Int64
	h := NewServer(answering(&called), Options{Access: access.Of("next", "secret")}).Handler
	send := func(rt route, header string) int {
		r := localRequest(rt.verb, strings.ReplaceAll(rt.path, variable, "37dGamhT6KhgeCdJ3yaFwZAimIC"), nil)
		if rt.verb != get {
			r = localRequest(rt.verb, strings.ReplaceAll(rt.path, variable, "x"), strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
		}
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusUnauthorized && (!strings.Contains(w.Body.String(), `"kind":"unauthenticated"`) || w.Header().Get("WWW-Authenticate") == "") {
			t.Errorf("%s: %s", rt.path, w.Body)
		}
		return w.Code
	}
	for _, rt := range routes() {
		for _, header := range []string{"", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "Bearer  secret"} {
			if code := send(rt, header); code != http.StatusUnauthorized {
				t.Errorf("%s %s with %q: %d", rt.verb, rt.path, header, code)
			}
		}
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d calls were made without the token", n)
	}
	for _, rt := range routes() {
		if code := send(rt, "bearer secret"); code != http.StatusOK && rt.field != "names" {
			t.Errorf("%s %s with the token: %d", rt.verb, rt.path, code)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/openapi.json"} {
		if code, _ := fetch(t, h, "GET", path); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// TestWithACertificateTheAPIIsServedOverTLSOnly: health and metrics stay plain,
// for probes that know nothing of it.
func TestWithACertificateTheAPIIsServedOverTLSOnly(t *testing.T) {
	var called atomic.Int64
	addr, _ := up(t, answering(&called), Options{TLS: certificate(t), HeaderTimeout: patient})
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}}
	defer c.CloseIdleConnections()
	// A connection that says nothing must not hold up the others.
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for url, want := range map[string]int{
		"https://" + addr + "/api/v1/ping": 200, "https://" + addr + "/livez": 200,
		"http://" + addr + "/api/v1/ping": 403, "http://" + addr + "/livez": 200, "http://" + addr + "/metrics": 200,
	} {
		r, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != want || want == 403 && !strings.Contains(string(body), "https://") {
			t.Errorf("%s: %d %s, %v", url, r.StatusCode, body, err)
		}
	}
	if n := called.Load(); n != 1 {
		t.Errorf("%d calls, not 1", n)
	}
}

// TestOtherProtocolsAreToldWhereTheyAre: their first bytes never become a request, so
// both sides would wait.
func TestOtherProtocolsAreToldWhereTheyAre(t *testing.T) {
	var called atomic.Int64
	plain, _ := up(t, answering(&called), Options{HeaderTimeout: patient})
	secure, _ := up(t, answering(&called), Options{TLS: certificate(t), HeaderTimeout: patient})
	for name, tc := range map[string]struct{ addr, first string }{
		"Norn":              {plain, "\x00\x00\x00\x0chello, node"},
		"Norn beside TLS":   {secure, "\x00\x00\x00\x0chello, node"},
		"TLS where is none": {plain, "\x16\x03\x01\x00\x05hello"},
	} {
		c, err := net.Dial("tcp", tc.addr)
		if err == nil {
			_, err = c.Write([]byte(tc.first))
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patient))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		_ = c.Close()
	}
}

// TestConnectionsAreLimited: requests over the limit are refused at once while all others are served, but for
// those that ask for the node's health, and there is room again when others end.
func TestConnectionsAreLimited(t *testing.T) {
	var called atomic.Int64
	b := answering(&called)
	reply := b.call
	b.call = func(ctx context.Context, m nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
		if m == nornv1.Method_METHOD_CLAIM {
			called.Add(1)
			<-ctx.Done()
		}
		return reply(ctx, m, request)
	}
	addr, s := up(t, b, Options{MaxConnections: 2, HeaderTimeout: patient})
	var held []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		if _, err := io.WriteString(c, "POST /api/v1/tasks/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"wait_seconds\":300}"); err != nil {
			t.Fatal(err)
		}
	}
	soon(t, "two are served", func() bool { return called.Load() == 2 })
	for path, want := range map[string]int{"/api/v1/ping": 503, "/livez": 200, "/readyz": 200, "/metrics": 200} {
		r, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want || want == 503 && r.Header.Get("Retry-After") == "" {
			t.Errorf("%s of the third one: %v", path, r)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for _, c := range held {
		_ = c.Close()
	}
	soon(t, "they have gone", func() bool { return s.metrics.open.Load() == 0 })
	again, err := http.Get("http://" + addr + "/api/v1/ping")
	if err != nil || again.StatusCode != http.StatusOK {
		t.Fatalf("afterwards: %v, %v", again, err)
	}
	_ = again.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// TestWhoHasGoneGetsNothing: an answer that comes after its client has gone is
// dropped, not written.
func TestWhoHasGoneGetsNothing(t *testing.T) {
	called, dropped := make(chan struct{}), make(chan struct{})
	b := &backend{registry: prometheus.NewRegistry(), call: func(ctx context.Context, _ nornv1.Method, _ gproto.Message) (gproto.Message, *proto.Error, func()) {
		close(called)
		<-ctx.Done()
		return &nornv1.ClaimReply{Grants: []*nornv1.Grant{{Token: 1}}}, nil, func() { close(dropped) }
	}}
	addr, _ := up(t, b, Options{})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "POST /api/v1/tasks/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-called
	if err := c.(*net.TCPConn).CloseWrite(); err != nil { // it can still read
		t.Fatal(err)
	}
	select {
	case <-dropped:
	case <-time.After(patient):
		t.Fatal("the grant was not dropped")
	}
	if b, _ := io.ReadAll(c); len(b) != 0 { // that it ends badly is right
		t.Errorf("it got %q", b)
	}
	_ = c.Close()
}

// TestWaitingClaimsLeaveRoom: each claim that waited held 64 KiB for a body of some 60
// bytes, so that 4,000 of them kept out the completions and renewals of others.
func TestWaitingClaimsLeaveRoom(t *testing.T) {
	a := &api{guard: newGuard(Options{}, newMetrics(), nil), room: &room{limit: 1 << 20}, waits: newWaits(8)}
	var claim route
	for _, rt := range routes() {
		if rt.method == nornv1.Method_METHOD_CLAIM {
			claim = rt
		}
	}
	for i := range 200 {
		r := localRequest("POST", "/", strings.NewReader(`{"queues":["q"],"worker":"w","wait_seconds":300}`))
		r.Header.Set("Content-Type", "application/json")
		_, leave, f := a.read(httptest.NewRecorder(), r, &claim)
		if f != nil {
			t.Fatalf("claim %d, while those before it wait: %v", i, f.err)
		}
		defer leave()
	}
}

// TestRoomIsLimited: requests that would take more memory than there is are
// OVERLOADED, small ones pass all the same, and everything is given back.
func TestRoomIsLimited(t *testing.T) {
	m := &room{limit: 1 << 20}
	send := func(n int) (*failure, func()) {
		r := localRequest("POST", "/", strings.NewReader(`{"a":"`+strings.Repeat("x", n)+`"}`))
		_, held, f := m.read(httptest.NewRecorder(), r)
		return f, held.leave
	}
	f, first := send(700 << 10)
	if f == nil || f.status != http.StatusTooManyRequests || f.err.RetryAfter == 0 {
		// Reading took up to twice its size, and what it becomes as much again.
		t.Errorf("too large for the room: %+v", f)
	}
	first()
	if n := m.taken.Load(); n != 0 {
		t.Fatalf("%d bytes were not given back", n)
	}
	var leaves []func()
	refused := 0
	for range 20 {
		f, leave := send(50 << 10)
		leaves = append(leaves, leave)
		if f != nil {
			refused++
		}
	}
	if refused == 0 || refused == 20 {
		t.Errorf("%d of 20 were refused", refused)
	}
	for _, leave := range leaves {
		leave()
	}
	if n := m.taken.Load(); n != 0 {
		t.Errorf("%d bytes were not given back", n)
	}
}

func TestWeigh(t *testing.T) {
	for in, want := range map[string]int{
		``: 0, `{}`: objectCost, `[1,2,3]`: 2 * commaCost, `"{,{,"`: 0, `"\"{,"`: 0, `{"a":"\\",`: objectCost + commaCost, `"\u007b"`: 0,
	} {
		if got := weigh([]byte(in)); got != want+len(in) {
			t.Errorf("%s weighs %d, not %d", in, got, want+len(in))
		}
	}
	if n := weigh([]byte(`{"tasks":[` + strings.Repeat(`{"queue":"q","retry":{"max_attempts":1,"jitter":1},"headers":{"a":"b","c":"d"}},`, proto.MaxBatchTasks))); n > maxWeight/2 {
		t.Errorf("a full batch weighs %d of %d bytes", n, maxWeight)
	}
}

// TestShutdownEndsStreams follows a task while the server stops.
func TestShutdownEndsStreams(t *testing.T) {
	stopping := make(chan struct{})
	b := &backend{registry: prometheus.NewRegistry(), call: func(ctx context.Context, _ nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
		if request.(*nornv1.LogRequest).GetWaitSeconds() == 0 {
			return &nornv1.LogReply{State: nornv1.State_STATE_CLAIMED, Updates: []*nornv1.Update{{Token: 7, Data: []byte("x")}}}, nil, func() {}
		}
		select {
		case <-stopping:
		case <-ctx.Done():
		}
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "stopping"), func() {}
	}}
	addr, _ := up(t, b, Options{})
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/api/v1/tasks/37dGamhT6KhgeCdJ3yaFwZAimIC/log", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	var seen []string
	for lines.Scan() {
		if seen = append(seen, lines.Text()); lines.Text() == ":" {
			close(stopping)
		}
	}
	_ = answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if text := fmt.Sprint(seen); !strings.Contains(text, "event: update id: 7:0 data: ") || !strings.Contains(text, `event: error data: {"error":{"kind":"unavailable"`) {
		t.Errorf("it saw %s", text)
	}
}

// TestABulkThatFailsInPartSaysSoByItsStatus, with its counts.
func TestABulkThatFailsInPartSaysSoByItsStatus(t *testing.T) {
	b := &backend{registry: prometheus.NewRegistry(), call: func(context.Context, nornv1.Method, gproto.Message) (gproto.Message, *proto.Error, func()) {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no quorum")
		return &nornv1.BulkReply{Matched: 3, Done: 2, Failed: 1, Error: e.Proto()}, nil, func() {}
	}}
	r := httptest.NewRequestWithContext(t.Context(), post, "/api/v1/tasks/bulk", strings.NewReader(`{"action":"cancel","queue":"q"}`))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	NewServer(b, Options{}).Handler.ServeHTTP(w, r)
	members(t, w.Body.Bytes(), func([]string) {}) // none is there twice
	if got := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(got, `"done":2`) || !strings.Contains(got, `"detail":"no quorum"`) {
		t.Errorf("%d %s", w.Code, got)
	}
}
