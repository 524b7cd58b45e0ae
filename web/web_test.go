package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

type backend struct {
	enqueue, claim bool
	empty, needed  bool
	failure        error
	registry       *prometheus.Registry
	call           func(context.Context, nornv1.Method, gproto.Message) (gproto.Message, *proto.Error, func())
}

func (b *backend) Ready() (enqueue, claim bool)  { return b.enqueue, b.claim }
func (b *backend) Filled() bool                  { return !b.empty }
func (b *backend) Spare() bool                   { return !b.needed }
func (b *backend) Alive() error                  { return b.failure }
func (b *backend) Gatherer() prometheus.Gatherer { return b.registry }
func (b *backend) Call(ctx context.Context, _ *access.Caller, m nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
	return b.call(ctx, m, request)
}

// localRequest is a request as somebody on this machine sends it.
func localRequest(method, path string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	if strings.HasPrefix(path, "/") {
		r.Host = "localhost"
	}
	return r
}

func fetch(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, localRequest(method, path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestHealthAndReadiness(t *testing.T) {
	b := &backend{enqueue: true, registry: prometheus.NewRegistry()}
	h := NewServer(b, Options{}).Handler
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/livez", 200},
		{"GET", "/readyz", 503}, // no claims yet
		{"GET", "/readyz?role=enqueue", 200},
		{"GET", "/readyz?role=claim", 503},
		{"GET", "/readyz?role=other", 400},
		{"GET", "/readyz?role=restart", 200},
		{"POST", "/readyz", 405},
		{"GET", "/nothing", 404},
		{"GET", "/debug/pprof/", 404},
	} {
		if code, body := fetch(t, h, tc.method, tc.path); code != tc.want {
			t.Errorf("%s %s: %d (%s), want %d", tc.method, tc.path, code, body, tc.want)
		}
	}
	b.failure = errors.New("the disk failed")
	if code, body := fetch(t, h, "GET", "/livez"); code != 503 || !strings.Contains(body, "the disk failed") {
		t.Errorf("livez of a failed node: %d %s", code, body)
	}
}

func TestMetricsOfNodeAndProcess(t *testing.T) {
	b := &backend{registry: prometheus.NewRegistry()}
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_test_total", Help: "x"})
	c.Inc()
	b.registry.MustRegister(c)
	_, body := fetch(t, NewServer(b, Options{}).Handler, "GET", "/metrics")
	for _, want := range []string{"norn_test_total 1", "go_goroutines"} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}
