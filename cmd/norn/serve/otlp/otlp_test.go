package otlp

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// collector takes what an exporter sends.
type collector struct {
	*httptest.Server
	hold chan struct{} // nil: it answers at once

	mu      sync.Mutex
	spans   []*traces.Span
	metrics []string
	who     map[string]string
}

func newCollector(t *testing.T, hold chan struct{}) *collector {
	t.Helper()
	c := &collector{hold: hold, who: make(map[string]string)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.hold != nil {
			<-c.hold
		}
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.take(t, r.URL.Path, b)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Server.Close)
	return c
}

func (c *collector) take(t *testing.T, path string, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path {
	case "/v1/traces":
		var m collectortraces.ExportTraceServiceRequest
		if err := gproto.Unmarshal(b, &m); err != nil {
			t.Error(err)
		}
		for _, of := range m.GetResourceSpans() {
			for _, a := range of.GetResource().GetAttributes() {
				c.who[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, s := range of.GetScopeSpans() {
				c.spans = append(c.spans, s.GetSpans()...)
			}
		}
	case "/v1/metrics":
		var m collectormetrics.ExportMetricsServiceRequest
		if err := gproto.Unmarshal(b, &m); err != nil {
			t.Error(err)
		}
		for _, of := range m.GetResourceMetrics() {
			for _, s := range of.GetScopeMetrics() {
				for _, one := range s.GetMetrics() {
					c.metrics = append(c.metrics, one.GetName())
				}
			}
		}
	default:
		t.Errorf("sent to %s", path)
	}
}

func started(t *testing.T, to string, share float64) *Exporter {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "norn_some_total", Help: "Some."}, func() float64 { return 7 }))
	var log bytes.Buffer
	e, err := Start(t.Context(), Options{
		Endpoint: to, Share: share, Interval: time.Hour, Node: "n1", Version: "v1", Metrics: registry, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSpansAndMetricsReachACollector: of the client port, of the HTTP port beneath the span of
// who asks, and the metrics of the registry.
func TestSpansAndMetricsReachACollector(t *testing.T) {
	c := newCollector(t, nil)
	e := started(t, c.URL+"/", 1)
	e.Begun(1, 7, nornv1.Method_METHOD_ENQUEUE)
	e.Begun(1, 8, nornv1.Method_METHOD_CLAIM)
	e.Begun(2, 7, nornv1.Method_METHOD_GET)
	e.Ended(1, 7, nil)
	e.Ended(1, 8, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no"))
	e.Closed(2)
	e.Ended(2, 7, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/queues/{name}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	r := httptest.NewRequest(http.MethodGet, "/api/v1/queues/secret", nil)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	e.Around(mux).ServeHTTP(httptest.NewRecorder(), r)
	e.Around(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range c.spans {
		names = append(names, s.GetName())
		if strings.Contains(s.String(), "secret") {
			t.Errorf("a span has the name of a queue: %v", s)
		}
		if s.GetName() == "GET /api/v1/queues/{name}" && (s.GetStatus().GetCode() != traces.Status_STATUS_CODE_ERROR || len(s.GetParentSpanId()) == 0) {
			t.Errorf("%v", s)
		}
		if s.GetName() == "claim" && s.GetStatus().GetMessage() != "unavailable" {
			t.Errorf("%v", s)
		}
	}
	slices.Sort(names)
	if want := []string{"GET /api/v1/queues/{name}", "claim", "enqueue"}; !slices.Equal(names, want) {
		t.Errorf("spans %v", names)
	}
	if !slices.Contains(c.metrics, "norn_some_total") && !slices.Contains(c.metrics, "norn_some") {
		t.Errorf("metrics %v", c.metrics)
	}
	if c.who["service.name"] != "norn" || c.who["service.instance.id"] != "n1" {
		t.Errorf("of %v", c.who)
	}
}

// TestACollectorThatHangsHoldsNothingUp: what has no room is dropped and counted, and nobody
// waits.
func TestACollectorThatHangsHoldsNothingUp(t *testing.T) {
	hold := make(chan struct{})
	c := newCollector(t, hold)
	e := started(t, c.URL, 1)
	const n = 3 * queued
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(n) {
			e.Begun(1, i, nornv1.Method_METHOD_ENQUEUE)
			e.Ended(1, i, nil)
		}
		for i := range uint64(2 * maxOpen) {
			e.Begun(2, i, nornv1.Method_METHOD_ENQUEUE)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("spans wait for a collector that hangs")
	}
	if got := testutil.ToFloat64(e.Collector()); got < n-queued-1024+maxOpen || len(e.open) != maxOpen {
		t.Errorf("%v spans were dropped, %d are open", got, len(e.open))
	}
	close(hold)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoShareNoSpan: only those whose caller has chosen.
func TestNoShareNoSpan(t *testing.T) {
	c := newCollector(t, nil)
	e := started(t, c.URL, 0)
	e.Begun(1, 7, nornv1.Method_METHOD_ENQUEUE)
	e.Ended(1, 7, nil)
	e.Around(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/ping", nil))
	if err := e.Close(); err != nil || len(c.spans) != 0 {
		t.Errorf("%d spans, %v", len(c.spans), err)
	}
}
