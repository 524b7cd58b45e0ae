package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// How a path of the port is kept, for whoever has no token.
type door int

const (
	closed  door = iota // it needs the token, and without any a name of this node
	open                // it needs a name of this node where none needs a token
	profile             // it needs a name of this node in any case
	health              // it needs nothing
)

// doors says of every pattern of the port how it is kept. A route that is missing here fails
// the test: whoever adds one decides.
func doors() map[string]door {
	all := map[string]door{
		"GET /livez": health, "GET /readyz": health, "GET /metrics": health,
		"GET /openapi.json": open, "GET /{$}": open,
		"GET /debug/pprof/": profile, "GET /debug/pprof/profile": profile, "GET /debug/pprof/trace": profile,
		"/api/": closed,
	}
	for at := range readPages() {
		if at != "/" {
			all["GET "+at] = open
		}
	}
	for _, path := range []string{
		"hello", "ping", "tasks", "tasks/{name}", "tasks/{name}/log", "tasks/{name}/explain", "tasks/count", "tasks/key", "tasks/claim", "tasks/renew",
		"tasks/update", "tasks/complete", "tasks/fail", "tasks/release", "tasks/work", "tasks/cancel", "tasks/retry", "tasks/bulk", "queues", "queues/{name}", "schedules", "schedules/{name}",
		"workers", "workers/{name}", "workers/{name}/lines", "cluster", "cluster/verify", "access", "access/whoami", "attention", "ranking", "history",
	} {
		all["/api/v1/"+path] = closed
	}
	return all
}

// hostsAsked are names by which a request comes, and whether they are this node's.
var hostsAsked = map[string]bool{
	"localhost": true, "localhost:7713": true, "LOCALHOST.": true, "127.0.0.1": true, "127.0.0.1:7713": true, "[::1]": true, "[::1]:7713": true,
	"[fe80::1%25eth0]:7713": true, "192.168.1.7:7713": true, "app.localhost:7713": true, "norn.example.com": true, "NORN.example.com.:80": true, "node-1:7713": true,
	"evil-localhost": false, "evillocalhost:7713": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "evil.example": false,
	"evil.example:7713": false, "[evil.example]": false, "evil.norn.example.com": false, "norn.example.com.evil.example": false, "node-1.evil.example": false,
	"localhost@evil.example": false, "xnorn.example.com": false, "0x7f000001": false, "127.1": false, "": false, ".": false, ".localhost.evil": false,
}

// ask sends one request through the whole port, and gives its status.
func (k knocker) ask(method, path, host, accept string) int {
	var body *strings.Reader
	if method == http.MethodPost || method == http.MethodPatch || method == http.MethodPut {
		body = strings.NewReader("{}")
	} else {
		body = strings.NewReader("")
	}
	r := httptest.NewRequestWithContext(k.ctx, method, path, body)
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	k.h.ServeHTTP(w, r)
	return w.Code
}

type knocker struct {
	ctx context.Context
	h   http.Handler
}

// pathOf is an address of a pattern.
func pathOf(pattern string) string {
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		path = pattern
	}
	return strings.ReplaceAll(strings.ReplaceAll(path, "{$}", ""), variable, "37dGamhT6KhgeCdJ3yaFwZAimIC")
}

// TestNobodyGetsInWithoutAToken asks for every path of the port, by every method, with each
// Accept and under each kind of name, without a token: no call may reach the node, where
// there are tokens, nor where there are none and the name is not this node's.
func TestNobodyGetsInWithoutAToken(t *testing.T) {
	var called atomic.Int64
	b := &backend{enqueue: true, claim: true, registry: prometheus.NewRegistry(), call: func(_ context.Context, m nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
		called.Add(1)
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "called"), func() {}
	}}
	own := func(host string) bool { return host == "node-1" }
	for name, o := range map[string]Options{
		"token":                 {Access: access.Of("secret")},
		"token, other sites":    {Access: access.Of("secret"), CORSOrigins: []string{"https://app.example.com"}},
		"token also of metrics": {Access: access.Of("secret"), MetricsAuth: true},
		"none":                  {},
		"a role for nothing":    {Access: access.New(access.Config{Always: true, Anonymous: "viewer"})},
	} {
		o.Pprof, o.Hosts, o.OwnHost = true, []string{"norn.example.com"}, own
		h := NewServer(b, o).Handler
		known := doors()
		if got, want := slices.Sorted(slices.Values(h.(*guard).next.patterns)), slices.Sorted(maps.Keys(known)); !slices.Equal(got, want) {
			t.Fatalf("the port has %q\nand the test knows %q", got, want)
		}
		k, asks := knocker{t.Context(), h}, o.Access.Asks() && !o.Access.Welcomes()
		for pattern, kept := range known {
			if pattern == "GET /metrics" && o.MetricsAuth {
				kept = closed
			}
			if pattern == "GET /debug/pprof/profile" || pattern == "GET /debug/pprof/trace" || strings.HasPrefix(pattern, "GET /pages/vendor/") {
				continue // profiles take seconds; others stand for all
			}
			for host, good := range hostsAsked {
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
					for _, accept := range []string{"", "application/json", "text/event-stream", "text/html, text/event-stream;q=0.1"} {
						before := called.Load()
						code := k.ask(method, pathOf(pattern), host, accept)
						wrong := kept.wrong(asks, good, code)
						if reached := called.Load() > before; wrong != "" || reached && (asks || !good || kept != closed) {
							t.Errorf("%s: %s %s as %q, Accept %q: %d %s, reached the node: %v", name, method, pathOf(pattern), host, accept, code, wrong, reached)
						}
					}
				}
			}
		}
	}
	if called.Load() == 0 {
		t.Error("no call was made, where none needs a token and the name is right: the test sees nothing")
	}
}

// wrong says what status was to be expected, "" when it is this one.
func (d door) wrong(tokens, goodName bool, code int) string {
	want := ""
	switch {
	case d == closed && tokens && code != http.StatusUnauthorized:
		want = "not 401"
	case (!tokens && d != health || d == profile) && !goodName && code != http.StatusForbidden:
		want = "not 403"
	case (goodName || d == health || tokens && d == open) && (d != closed || !tokens) && (code == http.StatusUnauthorized || code == http.StatusForbidden):
		want = "refused"
	}
	return want
}

// TestPathsByDetours: an address that is another one once it is cleaned or decoded does not
// get around the door.
func TestPathsByDetours(t *testing.T) {
	var called atomic.Int64
	k := knocker{t.Context(), NewServer(answering(&called), Options{Access: access.Of("secret"), Pprof: true}).Handler}
	for _, path := range []string{
		"/%61pi/v1/tasks", "/pages/../api/v1/tasks", "/pages/%2e%2e/api/v1/tasks", "//api/v1/tasks", "/api//v1/tasks", "/./api/v1/tasks", "/API/v1/tasks",
		"/debug/pprof/../../api/v1/tasks", "/api%2Fv1%2Ftasks", "/livez/../api/v1/tasks", "/livez%2F..%2Fapi/v1/tasks", "/api/v1/tasks/",
	} {
		for _, method := range []string{"GET", "POST", "CONNECT"} {
			if code := k.ask(method, path, "localhost", "text/event-stream"); code == http.StatusOK {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d calls reached the node", n)
	}
}

// TestOtherSites asks as pages of other sites do, with a good token or where none needs one.
func TestOtherSites(t *testing.T) {
	for i, tc := range []struct {
		o                            Options
		host, origin, fetchSite      string
		post, preflight, corsHeaders bool
	}{
		{o: Options{}, host: "localhost", origin: "https://evil.example"},
		{o: Options{}, host: "localhost", origin: "https://evil.example", fetchSite: "cross-site"},
		{o: Options{}, host: "localhost:7713", origin: "http://localhost:7713", post: true},
		{o: Options{}, host: "127.0.0.1:7713", origin: "https://norn.example.com"}, // a proxy, and nobody has said so
		{o: Options{Hosts: []string{"norn.example.com"}}, host: "127.0.0.1:7713", origin: "https://norn.example.com", post: true},
		{o: Options{Hosts: []string{"Norn.Example.com"}}, host: "127.0.0.1:7713", origin: "https://norn.example.com", fetchSite: "cross-site", post: true},
		{o: Options{Hosts: []string{"norn.example.com"}}, host: "127.0.0.1:7713", origin: "https://norn.example.com:8443"},
		{o: Options{Hosts: []string{"norn.example.com:8443"}}, host: "127.0.0.1:7713", origin: "https://norn.example.com:8443", post: true},
		{o: Options{Hosts: []string{"norn.example.com"}}, host: "127.0.0.1:7713", origin: "https://evil.norn.example.com"},
		{o: Options{Hosts: []string{"norn.example.com"}}, host: "127.0.0.1:7713", origin: "null"},
		{o: Options{CORSOrigins: []string{"https://app.example.com"}}, host: "localhost", origin: "https://app.example.com", fetchSite: "cross-site", post: true, preflight: true, corsHeaders: true},
		{o: Options{CORSOrigins: []string{"https://App.example.com"}, Access: access.Of("secret")}, host: "x", origin: "https://app.example.com", post: true, preflight: true, corsHeaders: true},
		{o: Options{CORSOrigins: []string{"https://app.example.com"}}, host: "localhost", origin: "http://app.example.com"},
		{o: Options{CORSOrigins: []string{"https://app.example.com"}}, host: "localhost", origin: "https://app.example.com:444"},
		{o: Options{CORSOrigins: []string{"https://app.example.com"}}, host: "localhost", origin: "https://app.example.com.evil.example"},
		{o: Options{CORSOrigins: []string{"https://app.example.com"}}, host: "evil.example", origin: "https://app.example.com"},
	} {
		var called atomic.Int64
		h := NewServer(answering(&called), tc.o).Handler
		send := func(method, ask string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/tasks", strings.NewReader(map[bool]string{true: "{}"}[method == "POST"]))
			r.Host = tc.host
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", tc.origin)
			if tc.fetchSite != "" {
				r.Header.Set("Sec-Fetch-Site", tc.fetchSite)
			}
			if ask != "" {
				r.Header.Set("Access-Control-Request-Method", ask)
			} else if tc.o.Access.Asks() {
				r.Header.Set("Authorization", "Bearer secret")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		says := fmt.Sprintf("%d: as %s for %s", i, tc.host, tc.origin)
		w := send("POST", "")
		if (w.Code == http.StatusOK) != tc.post || (called.Load() == 1) != tc.post {
			t.Errorf("%s: POST %d, %d calls", says, w.Code, called.Load())
		}
		if w.Header().Get("Access-Control-Allow-Origin") != map[bool]string{true: tc.origin}[tc.corsHeaders] || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", says, w.Header())
		}
		if len(tc.o.CORSOrigins) > 0 && tc.host != "evil.example" && w.Header().Get("Vary") != "Origin" {
			t.Errorf("%s: a cache may give one site's answer to another: %v", says, w.Header())
		}
		before := called.Load()
		w = send("OPTIONS", "POST")
		if (w.Code == http.StatusNoContent) != tc.preflight || called.Load() != before || tc.preflight && !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: the question before it: %d %v", says, w.Code, w.Header())
		}
	}
}
