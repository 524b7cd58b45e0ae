package worker

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/norn-dev/norn/client"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/norn-dev/norn/client/worker"

// Inject adds the span of ctx to a task that is about to be enqueued, as the W3C
// headers traceparent and tracestate: the span of the handler that runs it will
// be linked to it. Without a span nothing is added. The task's map of headers is
// replaced, not changed.
func Inject(ctx context.Context, t *client.Task) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return
	}
	headers := maps.Clone(t.Headers)
	if headers == nil {
		headers = make(map[string]string, len(carrier))
	}
	maps.Copy(headers, carrier)
	t.Headers = headers
}

// telemetry is what OpenTelemetry hears of a worker. Names are those of its
// conventions for messaging where there are any.
//
// Attributes cost more than a small task, so without a provider none are made.
type telemetry struct {
	traces, meters bool
	tracer         trace.Tracer

	tasks    metric.Int64Counter
	renewals metric.Int64Counter
	doubles  metric.Int64Counter
	claims   metric.Int64UpDownCounter
	running  metric.Int64UpDownCounter
	stuck    metric.Int64UpDownCounter
	took     metric.Float64Histogram
	delay    metric.Float64Histogram
}

func newTelemetry(tp trace.TracerProvider, mp metric.MeterProvider, log *slog.Logger) *telemetry {
	t := &telemetry{traces: tp != nil, meters: mp != nil}
	if tp == nil {
		tp = tracenoop.NewTracerProvider()
	}
	if mp == nil {
		mp = metricnoop.NewMeterProvider()
	}
	m := mp.Meter(scope)
	t.tracer = tp.Tracer(scope)
	var errs [8]error
	t.tasks, errs[0] = m.Int64Counter("norn.worker.tasks", metric.WithUnit("{task}"), metric.WithDescription("what came of tasks, by queue and outcome"))
	t.renewals, errs[1] = m.Int64Counter("norn.worker.renewals", metric.WithUnit("{claim}"), metric.WithDescription("renewals of claims, by result"))
	t.claims, errs[2] = m.Int64UpDownCounter("norn.worker.claims", metric.WithUnit("{claim}"), metric.WithDescription("claims held, running or not, by queue"))
	t.running, errs[3] = m.Int64UpDownCounter("norn.worker.running", metric.WithUnit("{task}"), metric.WithDescription("handlers that run, by queue"))
	t.stuck, errs[4] = m.Int64UpDownCounter("norn.worker.stuck", metric.WithUnit("{task}"), metric.WithDescription("handlers that ignore the end of their context, by queue"))
	t.took, errs[5] = m.Float64Histogram("messaging.process.duration", metric.WithUnit("s"), metric.WithDescription("time that handlers took, by queue and outcome"))
	t.delay, errs[6] = m.Float64Histogram("norn.worker.start.delay", metric.WithUnit("s"), metric.WithDescription("time between the moment at which a task could run and its start, by queue"))
	t.doubles, errs[7] = m.Int64Counter("norn.worker.double_starts", metric.WithUnit("{task}"), metric.WithDescription("tasks granted while another claim on them was valid here, by queue: never, unless a promise was broken"))
	for _, err := range errs {
		if err != nil { // the instrument does nothing then
			log.Warn("an instrument of OpenTelemetry could not be made", "error", err)
		}
	}
	return t
}

func queueAttribute(queue string) attribute.KeyValue {
	return attribute.String("messaging.destination.name", queue)
}

// begin makes the span of a handler, and the context it gets.
func (t *telemetry) begin(ctx context.Context, task *Task, now time.Time) (context.Context, trace.Span) {
	if t.meters {
		queue := metric.WithAttributes(queueAttribute(task.Queue()))
		t.running.Add(ctx, 1, queue)
		ready := task.CreatedAt()
		if at := task.Grant().GetTask().GetNotBefore(); at != nil && at.AsTime().After(ready) {
			ready = at.AsTime()
		}
		// Clocks of two machines: what is below zero is their difference.
		t.delay.Record(ctx, max(now.Sub(ready).Seconds(), 0), queue)
	}
	if !t.traces {
		return ctx, trace.SpanFromContext(ctx)
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(now), trace.WithAttributes(
			attribute.String("messaging.system", "norn"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"),
			queueAttribute(task.Queue()),
			attribute.String("messaging.message.id", task.ID().String()),
			attribute.Int("norn.attempt", task.Attempt()),
			attribute.Int64("norn.claim.token", int64(task.Token())),
		),
	}
	producer := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(task.Headers())))
	if producer.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: producer}))
	}
	return t.tracer.Start(ctx, "process "+task.Queue(), options...)
}

// returned ends the span of a handler.
func (t *telemetry) returned(ctx context.Context, span trace.Span, task *Task, err, cause error) {
	if t.meters {
		t.running.Add(ctx, -1, metric.WithAttributes(queueAttribute(task.Queue())))
	}
	if !t.traces {
		return // the span, if any, is not ours
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, firstLine(err.Error()))
	}
	if cause != nil {
		span.SetAttributes(attribute.String("norn.ended", cause.Error()))
	}
	span.End()
}

// settling makes the span of a report.
func (t *telemetry) settling(ctx context.Context, process trace.Span, task *Task) (context.Context, trace.Span) {
	if !t.traces {
		return ctx, tracenoop.Span{}
	}
	return t.tracer.Start(trace.ContextWithSpan(ctx, process), "settle "+task.Queue(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("messaging.system", "norn"),
		attribute.String("messaging.operation.name", "settle"),
		attribute.String("messaging.operation.type", "settle"),
		queueAttribute(task.Queue()),
		attribute.String("messaging.message.id", task.ID().String()),
	))
}

// happened counts an event.
func (t *telemetry) happened(e Event) {
	if e.Kind == Started || !t.meters {
		return
	}
	ctx, queue := context.Background(), queueAttribute(e.Task.Queue())
	if e.Kind == Stuck {
		t.stuck.Add(ctx, 1, metric.WithAttributes(queue))
		return
	}
	with := metric.WithAttributes(queue, attribute.String("norn.outcome", string(e.Kind)))
	t.tasks.Add(ctx, 1, with)
	if e.Took > 0 {
		t.took.Record(ctx, e.Took.Seconds(), with)
	}
}

func (t *telemetry) unstuck(queue string) {
	if !t.meters {
		return
	}
	t.stuck.Add(context.Background(), -1, metric.WithAttributes(queueAttribute(queue)))
}

// holds counts claims that are held from now on, or no more.
func (t *telemetry) holds(queue string, n int64) {
	if !t.meters {
		return
	}
	t.claims.Add(context.Background(), n, metric.WithAttributes(queueAttribute(queue)))
}

// doubled counts a task that was started twice.
func (t *telemetry) doubled(queue string) {
	if t.meters {
		t.doubles.Add(context.Background(), 1, metric.WithAttributes(queueAttribute(queue)))
	}
}

// renewed counts one renewal: ok, lost, cancelled or failed.
func (t *telemetry) renewed(result string, n int) {
	t.renewals.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String("norn.result", result)))
}

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' {
			return s[:i]
		}
	}
	return s
}
