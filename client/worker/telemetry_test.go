package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/norn-dev/norn/client"
)

// recorder is a provider of traces and metrics that remembers.
type recorder struct {
	tracenoop.TracerProvider
	metricnoop.MeterProvider

	mu    sync.Mutex // guards the fields below
	spans []*span
	sums  map[string]float64 // by instrument and its attributes
}

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{r: r} }
func (r *recorder) Meter(string, ...metric.MeterOption) metric.Meter  { return meter{r: r} }

func (r *recorder) add(instrument string, n float64, set attribute.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := instrument
	for _, a := range set.ToSlice() {
		key += " " + a.Value.String()
	}
	r.sums[key] += n
}

func (r *recorder) sum(key string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums[key]
}

type tracer struct {
	tracenoop.Tracer
	r *recorder
}

type span struct {
	tracenoop.Span
	name   string
	config trace.SpanConfig
	parent trace.SpanContext
	id     trace.SpanContext

	mu     sync.Mutex // guards the fields below
	status codes.Code
	ended  bool
}

func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	n := byte(len(t.r.spans) + 1)
	s := &span{
		name: name, config: trace.NewSpanStartConfig(options...), parent: trace.SpanContextFromContext(ctx),
		id: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}, TraceFlags: trace.FlagsSampled}),
	}
	t.r.spans = append(t.r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) SpanContext() trace.SpanContext { return s.id }

func (s *span) SetStatus(c codes.Code, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = c
}

func (s *span) End(...trace.SpanEndOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

type meter struct {
	metricnoop.Meter
	r *recorder
}

type counter struct {
	metricnoop.Int64Counter
	r    *recorder
	name string
}

func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	c.r.add(c.name, float64(n), metric.NewAddConfig(o).Attributes())
}

type level struct {
	metricnoop.Int64UpDownCounter
	counter
}

func (l level) Add(ctx context.Context, n int64, o ...metric.AddOption) { l.counter.Add(ctx, n, o...) }

type histogram struct {
	metricnoop.Float64Histogram
	r    *recorder
	name string
}

func (h histogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	h.r.add(h.name, v, metric.NewRecordConfig(o).Attributes())
}

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{r: m.r, name: name}, nil
}

func (m meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return level{counter: counter{r: m.r, name: name}}, nil
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{r: m.r, name: name}, nil
}

// The span that enqueued a task is linked to that of its handler, whose own
// spans are children.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{sums: map[string]float64{}}
		ctx, producer := rec.Tracer("").Start(t.Context(), "enqueue")
		task := client.Task{Headers: map[string]string{"mine": "x"}}
		before := task.Headers
		Inject(ctx, &task)
		if len(before) != 1 || len(task.Headers) != 2 || task.Headers["mine"] != "x" {
			t.Fatalf("headers %v", task.Headers)
		}
		q := newQueue(t)
		q.add(30, 1, 2)
		q.set(func(q *queue) { q.ready[0].Task.Headers = task.Headers })
		r := start(t, q, Config{TracerProvider: rec}, func(ctx context.Context, task *Task) error {
			_, s := rec.Tracer("").Start(ctx, "inside")
			s.End()
			if task.Token() == 102 {
				return errors.New("no\nstack")
			}
			return nil
		})
		r.ended()
		r.ended()
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		names, byName := []string{}, map[string][]*span{}
		rec.mu.Lock()
		defer rec.mu.Unlock()
		for _, s := range rec.spans[1:] {
			names = append(names, s.name)
			byName[s.name] = append(byName[s.name], s)
			if !s.ended {
				t.Errorf("span %q has not ended", s.name)
			}
		}
		if !slices.Equal(names, []string{"process q", "inside", "settle q", "process q", "inside", "settle q"}) {
			t.Fatalf("spans %v", names)
		}
		first, second := byName["process q"][0], byName["process q"][1]
		if l := first.config.Links(); len(l) != 1 || l[0].SpanContext.SpanID() != producer.SpanContext().SpanID() || l[0].SpanContext.TraceID() != producer.SpanContext().TraceID() {
			t.Errorf("links %v", l)
		}
		if first.config.SpanKind() != trace.SpanKindConsumer || first.status == codes.Error {
			t.Errorf("got %+v", first)
		}
		if len(second.config.Links()) != 0 || second.status != codes.Error {
			t.Errorf("got %+v", second)
		}
		for _, name := range []string{"inside", "settle q"} {
			if got := byName[name][1].parent; got.SpanID() != second.id.SpanID() {
				t.Errorf("%s has the parent %v", name, got)
			}
		}
	})
}

func TestInjectWithoutSpan(t *testing.T) {
	task := client.Task{}
	Inject(t.Context(), &task)
	if task.Headers != nil {
		t.Errorf("headers %v", task.Headers)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{sums: map[string]float64{}}
		q := newQueue(t)
		q.add(30, 1, 2, 3)
		free := make(chan struct{})
		r := start(t, q, Config{Slots: 3, MeterProvider: rec, Timeout: time.Minute}, func(ctx context.Context, task *Task) error {
			switch task.Token() {
			case 101:
				time.Sleep(20 * time.Second)
				return nil
			case 102:
				return errors.New("no")
			}
			<-free
			return errors.New("late")
		})
		time.Sleep(15 * time.Second)
		for key, want := range map[string]float64{
			"norn.worker.running q": 2, "norn.worker.claims q": 2, "norn.worker.tasks q failed": 1, "norn.worker.renewals ok": 2, "norn.worker.tasks q completed": 0,
		} {
			if got := rec.sum(key); got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		time.Sleep(2 * time.Minute)
		for key, want := range map[string]float64{
			"norn.worker.running q": 1, "norn.worker.claims q": 1, "norn.worker.tasks q failed": 2, "norn.worker.stuck q": 1,
			"norn.worker.tasks q completed": 1, "messaging.process.duration q completed": 20,
		} {
			if got := rec.sum(key); got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		close(free)
		time.Sleep(time.Second)
		for _, key := range []string{"norn.worker.running q", "norn.worker.claims q", "norn.worker.stuck q"} {
			if got := rec.sum(key); got != 0 {
				t.Errorf("%s is %v at the end", key, got)
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
