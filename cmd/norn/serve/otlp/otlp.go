package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/norn-dev/norn/internal/seldom"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Limits of what waits for the collector.
const (
	queued   = 2048             // spans that are ended
	maxOpen  = 1024             // spans of requests of the client port that are not answered
	longest  = 10 * time.Second // one sending
	closing  = 3 * time.Second
	scope    = "github.com/norn-dev/norn/server"
	complain = time.Minute // between two lines of the log
)

// Options say where to send what.
type Options struct {
	// Endpoint is the address of the collector, such as http://collector:4318.
	Endpoint string
	// Share of the requests that have a span, 0 to 1.
	Share float64
	// Interval is between two readings of the metrics.
	Interval time.Duration
	// Node and Version name the server.
	Node, Version string
	// Metrics gives those of the server.
	Metrics prometheus.Gatherer
	// Logger hears of what cannot be sent, once a minute.
	Logger *slog.Logger
}

// Exporter sends metrics and spans.
type Exporter struct {
	share   float64
	traces  *sdktrace.TracerProvider
	meters  *metric.MeterProvider
	tracer  trace.Tracer
	dropped prometheus.Counter
	waits   atomic.Int64

	mu   sync.Mutex // guards what follows
	open map[request]trace.Span
}

// request is one of the client port.
type request struct{ conn, number uint64 }

// Start begins to send.
func Start(ctx context.Context, o Options) (*Exporter, error) {
	base := strings.TrimSuffix(o.Endpoint, "/")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+"/v1/traces"), otlptracehttp.WithTimeout(longest))
	if err != nil {
		return nil, fmt.Errorf("otlp: spans: %w", err)
	}
	numbers, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"), otlpmetrichttp.WithTimeout(longest))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("otlp: metrics: %w", err), spans.Shutdown(ctx))
	}
	told := &seldom.Line{Every: complain}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		told.Say(func(times int) {
			o.Logger.Warn("server.otlp_failed", "endpoint", o.Endpoint, "times", times, "error", err,
				"meaning", "what goes on here is not all sent to the collector; the server itself is not held up")
		})
	}))
	of := resource.NewSchemaless(attribute.String("service.name", "norn"), attribute.String("service.instance.id", o.Node), attribute.String("service.version", o.Version))
	e := &Exporter{share: o.Share, open: make(map[request]trace.Span)}
	e.dropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_otlp_spans_dropped_total", Help: "Spans that were not sent to the OpenTelemetry collector (otlp-endpoint), as too many waited for it."})
	sending := &counted{SpanExporter: spans, e: e}
	e.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(of), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithSpanProcessor(bounded{sdktrace.NewBatchSpanProcessor(sending, sdktrace.WithMaxQueueSize(queued), sdktrace.WithExportTimeout(longest)), e}))
	e.meters = metric.NewMeterProvider(metric.WithResource(of), metric.WithReader(metric.NewPeriodicReader(numbers,
		metric.WithInterval(o.Interval), metric.WithTimeout(longest), metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(o.Metrics))))))
	e.tracer = e.traces.Tracer(scope)
	return e, nil
}

// Close sends what is left, and ends.
func (e *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return errors.Join(e.traces.Shutdown(ctx), e.meters.Shutdown(ctx))
}

// Collector counts what was dropped.
func (e *Exporter) Collector() prometheus.Collector { return e.dropped }

// chosen tells whether a request has a span that nobody before it has chosen.
func (e *Exporter) chosen() bool { return e.share > 0 && rand.Float64() < e.share }

// Begun hears that a request of the client port has come.
func (e *Exporter) Begun(conn, number uint64, method nornv1.Method) {
	if !e.chosen() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.open) >= maxOpen {
		e.dropped.Inc()
		return
	}
	name := strings.TrimPrefix(method.String(), "METHOD_")
	_, span := e.tracer.Start(context.Background(), strings.ToLower(name), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system", "norn"), attribute.String("rpc.method", strings.ToLower(name))))
	e.open[request{conn, number}] = span
}

// Ended hears that a request was answered; err is nil where it was not refused.
func (e *Exporter) Ended(conn, number uint64, err *proto.Error) {
	e.mu.Lock()
	span := e.open[request{conn, number}]
	delete(e.open, request{conn, number})
	e.mu.Unlock()
	if span == nil {
		return
	}
	if err != nil {
		kind := strings.ToLower(strings.TrimPrefix(err.Kind.String(), "ERROR_KIND_"))
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, kind)
	}
	span.End()
}

// Closed hears that a connection has ended: what was not answered on it has no span.
func (e *Exporter) Closed(conn uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.open { // Any order: each by itself.
		if r.conn == conn {
			delete(e.open, r)
		}
	}
}

// Around gives requests of the HTTP port spans: those that come with a sampled traceparent, and
// some of the others. Names are routes, never paths, which have names of queues and tasks.
func (e *Exporter) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		if parent := trace.SpanContextFromContext(ctx); !parent.IsSampled() && (parent.IsValid() || !e.chosen()) || !strings.Contains(r.URL.Path, "/api/") {
			next.ServeHTTP(w, r)
			return
		}
		ctx, span := e.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", r.Method)))
		defer span.End()
		seen := &answer{ResponseWriter: w, code: http.StatusOK}
		r = r.WithContext(ctx)
		next.ServeHTTP(seen, r)
		if r.Pattern != "" {
			span.SetName(r.Pattern)
			span.SetAttributes(attribute.String("http.route", r.Pattern))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", seen.code))
		if seen.code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(seen.code))
		}
	})
}

// answer remembers the status of an answer.
type answer struct {
	http.ResponseWriter
	code int
}

// WriteHeader notes the status.
func (a *answer) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets deadlines and flushes through.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// bounded counts the spans that wait, and drops those that have no room before the processor does,
// which does not say so.
type bounded struct {
	sdktrace.SpanProcessor
	e *Exporter
}

// OnEnd hears of a span that is over. It does not block.
func (b bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if b.e.waits.Add(1) > queued {
		b.e.waits.Add(-1)
		b.e.dropped.Inc()
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// counted counts the spans that wait no more.
type counted struct {
	sdktrace.SpanExporter
	e *Exporter
}

// ExportSpans sends some.
func (c *counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.e.waits.Add(-int64(len(spans)))
	if err != nil {
		c.e.dropped.Add(float64(len(spans)))
	}
	return err //nolint:wrapcheck // the SDK's own caller tells it
}
