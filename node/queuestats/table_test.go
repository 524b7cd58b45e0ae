package queuestats

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/history"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const begun = int64(1_800_000_000_000_000_000)

func at(d time.Duration) int64 { return begun + int64(d) }

func done(queue string, what message.Decision) message.Decided {
	return message.Decided{Queue: queue, What: what, Wait: 20 * time.Millisecond, Run: 2 * time.Second, Age: time.Minute}
}

// fixed is a node that leads some queues, of which each has one worker.
type fixed struct{ names []string }

func (f *fixed) Partitions() (int, bool) { return 64, true }

func (f *fixed) LedQueues(_ context.Context, m *nornv1.QueuesRequest) *nornv1.QueuesReply {
	names := m.GetNames()
	if len(names) == 0 {
		from, _ := slices.BinarySearch(f.names, string(m.GetCursor()))
		names = f.names[from:min(from+int(m.GetLimit()), len(f.names))]
	}
	reply := &nornv1.QueuesReply{}
	for _, name := range names {
		if i, ok := slices.BinarySearch(f.names, name); ok {
			reply.Queues = append(reply.Queues, &nornv1.Queue{Name: name, Count: &nornv1.Count{Ready: 12345}, Effective: &nornv1.QueueSettings{}})
			if len(m.GetNames()) == 0 && i+1 < len(f.names) {
				reply.NextCursor = []byte(f.names[i+1])
			} else {
				reply.NextCursor = nil
			}
		}
	}
	return reply
}

func (f *fixed) OwnWorkers(_ context.Context, m *nornv1.WorkersRequest) *nornv1.WorkersReply {
	w := &nornv1.Worker{Slots: 8, Running: []*nornv1.WorkerClaim{{}, {}, {}}}
	for _, name := range f.names[:min(4, len(f.names))] {
		w.Queues = append(w.Queues, &nornv1.SessionQueue{Queue: name})
	}
	if len(w.Queues) > 1 {
		w.Queues[1].Slots = 2
	}
	return &nornv1.WorkersReply{Workers: []*nornv1.Worker{w}}
}

// scraped is what /metrics has of a table.
func scraped(t testing.TB, table *Table, from Source) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(NewCollector(t.Context(), table, from))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

func contains(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
}

// TestDecisionsAreCountedByQueue: each decision once, with its times where they are known.
func TestDecisionsAreCountedByQueue(t *testing.T) {
	table := New(Options{Queues: 10, Named: 10}, begun)
	unknown := done("mail", message.DecidedClaimed)
	unknown.Wait = -1
	table.Add(at(0), []message.Decided{
		done("mail", message.DecidedEnqueued), done("mail", message.DecidedClaimed), unknown, done("mail", message.DecidedCompleted),
		done("mail", message.DecidedFailed), done("mail", message.DecidedDead), done("mail", message.DecidedExpired),
		done("mail", message.DecidedCancelled), done("mail", message.DecidedRetried), done("other", message.DecidedEnqueued),
	})
	contains(t, scraped(t, table, &fixed{names: []string{"mail"}}),
		`norn_queue_enqueued_total{kind="",queue="mail"} 1`, `norn_queue_claimed_total{kind="",queue="mail"} 2`, `norn_queue_completed_total{kind="",queue="mail"} 1`,
		`norn_queue_failed_total{kind="",queue="mail"} 1`, `norn_queue_dead_total{kind="",queue="mail"} 1`, `norn_queue_expired_total{kind="",queue="mail"} 1`,
		`norn_queue_cancelled_total{kind="",queue="mail"} 1`, `norn_queue_retried_total{kind="",queue="mail"} 1`, `norn_queue_enqueued_total{kind="",queue="other"} 1`,
		`norn_queue_wait_seconds_count{kind="",queue="mail"} 1`, `norn_queue_wait_seconds_bucket{kind="",queue="mail",le="0.01"} 0`, `norn_queue_wait_seconds_bucket{kind="",queue="mail",le="0.05"} 1`,
		`norn_queue_run_seconds_count{kind="",queue="mail"} 3`, `norn_queue_run_seconds_sum{kind="",queue="mail"} 6`, `norn_queue_finish_seconds_count{kind="",queue="mail"} 2`,
		`norn_queue_tasks{queue="mail",state="ready"} 12345`, `norn_queue_workers{queue="mail"} 1`, `norn_queue_worker_slots{queue="mail"} 8`, `norn_queue_worker_slots_busy{queue="mail"} 3`,
		`norn_queue_enqueued_total{kind="",queue="_other"} 0`, "norn_queue_metrics_cut 0", "norn_partitions 64")
}

// TestKindsAreCountedApart: a decision counts under its kind alone, so that sums over kinds are
// right; kinds past the limit are one.
func TestKindsAreCountedApart(t *testing.T) {
	table := New(Options{Queues: 10, Named: 10}, begun)
	for i := range 2 * maxKinds {
		d := done("mail", message.DecidedEnqueued)
		if i > 0 {
			d.Kind = fmt.Sprint("k", i)
		}
		table.Add(at(0), []message.Decided{d})
	}
	text := scraped(t, table, &fixed{})
	contains(t, text, `norn_queue_enqueued_total{kind="",queue="mail"} 1`, `norn_queue_enqueued_total{kind="k1",queue="mail"} 1`, `norn_queue_enqueued_total{kind="k10",queue="mail"} 1`,
		`norn_queue_enqueued_total{kind="_other",queue="mail"} 89`) // as many kinds as queues have series
	if n := strings.Count(text, "norn_queue_enqueued_total{"); n != 10+3 {
		t.Errorf("%d series", n)
	}
}

// TestCountersNeverFall: a queue keeps its series, and what has none is summed up in _other,
// whatever comes later.
func TestCountersNeverFall(t *testing.T) {
	table := New(Options{Queues: 3, Named: 1}, begun)
	for i, name := range []string{"z", "a", "b", "c", "a"} {
		table.Add(at(time.Duration(i)*Step), []message.Decided{done(name, message.DecidedEnqueued)})
		text := scraped(t, table, &fixed{names: []string{"a", "b", "c", "z"}})
		contains(t, text, `norn_queue_enqueued_total{kind="",queue="z"} 1`, fmt.Sprintf(`norn_queue_enqueued_total{kind="",queue="_other"} %d`, i), "norn_queue_metrics_cut 1")
		if strings.Contains(text, `queue="a"`) {
			t.Error("a has come in between")
		}
	}
	// A queue that is gone gives way after an hour, and the next one begins at 0.
	table.Add(at(2*time.Hour), []message.Decided{done("b", message.DecidedEnqueued)})
	gone := &fixed{names: []string{"b"}}
	scraped(t, table, gone)
	text := scraped(t, table, gone)
	contains(t, text, `norn_queue_enqueued_total{kind="",queue="b"} 0`, `norn_queue_enqueued_total{kind="",queue="_other"} 5`)
	if strings.Contains(text, `queue="z"`) {
		t.Error("z is gone")
	}
}

// TestTenThousandQueuesInOneScrape: their metrics stay under 3 MB, with as many kinds as may have
// series, and are gathered within 200 ms of processor time.
func TestTenThousandQueuesInOneScrape(t *testing.T) {
	table, from := crowd()
	text := scraped(t, table, from)
	if len(text) > 3_000_000 {
		t.Errorf("%d bytes", len(text))
	}
	if n := strings.Count(text, "\n"); n > 40_000 {
		t.Errorf("%d lines", n)
	}
	contains(t, text, "norn_queue_metrics_cut 1")
	t.Logf("%d bytes, %d lines", len(text), strings.Count(text, "\n"))
}

// crowd are 10,000 queues under the defaults, and more kinds than have series.
func crowd() (*Table, *fixed) {
	table, from := New(Options{Queues: 10_000, Named: 250}, begun), &fixed{}
	for i := range 10_000 {
		name := fmt.Sprintf("tenant-%05d/mail.outgoing", i)
		from.names = append(from.names, name)
		for what := range message.Decisions {
			d := done(name, message.Decision(what))
			table.Add(at(0), []message.Decided{d})
			d.Kind = fmt.Sprintf("send-invoice-%d", i%70)
			table.Add(at(0), []message.Decided{d})
		}
	}
	return table, from
}

// BenchmarkScrape is one reading of them.
func BenchmarkScrape(b *testing.B) {
	table, from := crowd()
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(scraped(b, table, from))), "bytes")
	}
}

// BenchmarkAdd is what a decision costs.
func BenchmarkAdd(b *testing.B) {
	table, from := crowd()
	one := make([]message.Decided, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		one[0] = done(from.names[i%len(from.names)], message.DecidedCompleted)
		table.Add(at(time.Duration(i)*time.Microsecond), one)
	}
}

// ask asks for history as a client does.
func ask(t *testing.T, table *Table, m *nornv1.HistoryRequest, now int64) *nornv1.HistoryReply {
	t.Helper()
	whole, err := history.Check(m, now)
	if err != nil {
		t.Fatal(err)
	}
	return table.History(whole)
}

// TestHistory: what was decided comes back in its step, of all queues and of one, and of nodes
// together.
func TestHistory(t *testing.T) {
	one, two := New(Options{Queues: 10, Named: 10}, begun), New(Options{Queues: 10, Named: 10}, at(time.Minute))
	for i := range 12 {
		one.Add(at(time.Duration(i)*Step), []message.Decided{done("mail", message.DecidedEnqueued), done("sms", message.DecidedEnqueued)})
		if i >= 6 {
			two.Add(at(time.Duration(i)*Step), []message.Decided{done("mail", message.DecidedDead)})
		}
	}
	now := at(11 * Step)
	m := &nornv1.HistoryRequest{Seconds: 120, Busiest: 5, Until: timestamppb.New(time.Unix(0, now))}
	a, b := ask(t, one, m, now), ask(t, two, m, now)
	if got := a.GetDecisions().GetEnqueued(); !slices.Equal(got, slices.Repeat([]uint64{2}, 12)) {
		t.Errorf("enqueued: %v", got)
	}
	if got := a.GetStart().AsTime().UnixNano(); got != begun {
		t.Errorf("it begins %v after it", time.Duration(got-begun))
	}
	history.Join(a, b)
	if a.Nodes != 2 || a.GetSince().AsTime().UnixNano() != at(time.Minute) || !slices.Equal(a.GetDecisions().GetDead(), []uint64{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}) {
		t.Errorf("together: %v", a)
	}
	all := history.Busiest(a.Busiest, 5)
	if len(all) != 2 || all[0].GetQueue() != "mail" || all[0].GetEnqueued() != 12 || all[0].GetDead() != 6 || all[1].GetDead() != 0 {
		t.Errorf("busiest: %v", all)
	}
	m.Queue, m.StepSeconds = "mail", 60
	if got := ask(t, one, m, now); !slices.Equal(got.GetDecisions().GetEnqueued(), []uint64{6, 6}) || got.GetWait().GetCounts() == nil {
		t.Errorf("of one queue: %v", got)
	}
}

// TestHistoryIsBounded: a day is remembered and no more, and of queues an hour of the busiest.
func TestHistoryIsBounded(t *testing.T) {
	table := New(Options{Queues: 1000, Named: 10}, begun)
	for i := range 9000 {
		all := []message.Decided{done("mail", message.DecidedEnqueued)}
		for q := range i / 10 % 300 {
			all = append(all, done(fmt.Sprint("q", q), message.DecidedEnqueued))
		}
		table.Add(at(time.Duration(i)*Step), all)
	}
	kept := 0
	for _, q := range table.queues {
		if q.hour != nil {
			kept++
		}
	}
	if kept != busiest {
		t.Errorf("an hour is kept of %d queues", kept)
	}
	now := at(8999 * Step)
	got := ask(t, table, &nornv1.HistoryRequest{Seconds: 86400}, now)
	if len(got.GetDecisions().GetEnqueued()) != 360 || got.GetSince().AsTime().UnixNano() != at((9000-time.Duration(daySteps))*Step) {
		t.Errorf("%d steps since %v", len(got.GetDecisions().GetEnqueued()), got.GetSince().AsTime())
	}
	one := ask(t, table, &nornv1.HistoryRequest{Queue: "mail", Seconds: 3600}, now).GetDecisions().GetEnqueued()
	if len(one) != 360 || slices.Contains(one, 0) {
		t.Errorf("the busiest queue has no curve: %v", one)
	}
	// A clock that jumps ahead leaves nothing that is wrong, one that is set back counts on.
	table.Add(at(100*24*time.Hour), []message.Decided{done("mail", message.DecidedEnqueued)})
	table.Add(at(0), []message.Decided{done("mail", message.DecidedEnqueued)})
	last := ask(t, table, &nornv1.HistoryRequest{Seconds: 3600}, at(100*24*time.Hour)).GetDecisions().GetEnqueued()
	if sum := last[len(last)-1]; sum != 2 || slices.ContainsFunc(last[:359], func(n uint64) bool { return n != 0 }) {
		t.Errorf("after the jump: %v", last)
	}
}

// TestQuietQueuesAreKnownByTheMinute: a queue that is none of the busiest has its last ten
// minutes.
func TestQuietQueuesAreKnownByTheMinute(t *testing.T) {
	table := New(Options{Queues: 1000, Named: 10}, begun)
	for i := range 60 {
		var all []message.Decided
		for q := range busiest {
			all = append(all, slices.Repeat([]message.Decided{done(fmt.Sprint("q", q), message.DecidedEnqueued)}, 3)...)
		}
		if i%6 == 0 {
			all = append(all, done("quiet", message.DecidedFailed))
		}
		table.Add(at(time.Duration(i)*Step), all)
	}
	if table.queues["quiet"].hour != nil {
		t.Fatal("it counts as busy")
	}
	got := ask(t, table, &nornv1.HistoryRequest{Queue: "quiet", Seconds: 600, StepSeconds: 60}, at(59*Step)).GetDecisions().GetFailed()
	if sum := got[len(got)-1] + got[0]; len(got) != 10 || sum != 2 {
		t.Errorf("by the minute: %v", got)
	}
}

// TestBadHistoryRequests: what is not remembered is refused, and says what is.
func TestBadHistoryRequests(t *testing.T) {
	nan := 0.0
	nan /= nan
	for _, m := range []*nornv1.HistoryRequest{
		{Seconds: 5}, {Seconds: 86401}, {Seconds: -1}, {Seconds: nan}, {Queue: "q", Seconds: 3601}, {Queue: "no name"}, {StepSeconds: -1}, {StepSeconds: nan},
		{StepSeconds: 601}, {Busiest: 10_001}, {Until: timestamppb.New(time.Unix(0, at(48*time.Hour)))}, {Until: &timestamppb.Timestamp{Nanos: -1}},
	} {
		if _, err := history.Check(m, begun); err == nil {
			t.Errorf("%v is taken", m)
		}
	}
	if m, err := history.Check(&nornv1.HistoryRequest{Seconds: 86400}, begun); err != nil || m.Seconds/m.StepSeconds > 360 {
		t.Errorf("%v %v", m, err)
	}
}

// slow is a source that does not answer before it is let go.
type slow struct {
	*fixed
	asked, answer chan struct{}
	most          int
}

// LedQueues waits.
func (s *slow) LedQueues(ctx context.Context, m *nornv1.QueuesRequest) *nornv1.QueuesReply {
	s.most = max(s.most, len(m.GetNames()), int(m.GetLimit()))
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-s.answer
	return s.fixed.LedQueues(ctx, m)
}

// TestAReadingHoldsNothingUp: ten thousand queues are asked for in pages, beside the loop, which
// counts its decisions meanwhile, however long the reading takes.
func TestAReadingHoldsNothingUp(t *testing.T) {
	table, from := crowd()
	s := &slow{fixed: from, asked: make(chan struct{}, 1), answer: make(chan struct{})}
	read := make(chan string)
	go func() { read <- scraped(t, table, s) }()
	<-s.asked
	for range 1000 { // would wait for ever if the reading held the table
		table.Add(at(0), []message.Decided{done("tenant-00000/mail.outgoing", message.DecidedCompleted)})
	}
	close(s.answer)
	if text := <-read; !strings.Contains(text, "norn_queue_metrics_cut 1") {
		t.Error("the reading has not ended well")
	}
	if s.most > queuePage {
		t.Errorf("%d queues were asked for at once", s.most)
	}
}
