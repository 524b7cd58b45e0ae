package worker

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestTaskIsRunAndCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{Name: "me"}, func(ctx context.Context, task *Task) error {
			if task.ID() != (id.ID{1}) || task.Token() != 101 || task.Queue() != "q" || string(task.Payload()) != "1" || task.Attempt() != 3 ||
				task.Headers()["h"] != "v" || string(task.Checkpoint()) != "before" || task.Grant() == nil {
				t.Errorf("got %+v", task.Grant())
			}
			task.SetResult([]byte("r"))
			return errors.Join(task.Update(ctx, []byte("a")), task.Output(ctx, []byte("b")), task.Update(ctx, []byte("c")))
		})
		if e := r.ended(); e.Kind != Completed || e.Err != nil {
			t.Errorf("got %+v", e)
		}
		want := []string{`update 0 "a" 1@101`, `update 1 "b" 1@101`, `update 2 "c" 1@101`, "complete 1@101"}
		if got := q.log(); !slices.Equal(got, want) {
			t.Errorf("heard %v", got)
		}
		if d := q.done[0]; d.GetSeq() != 3 || d.GetAutoSeq() || string(d.GetResult()) != "r" {
			t.Errorf("completed with %v", d)
		}
		m := q.node.Seen(nornv1.Method_METHOD_CLAIM)[0].Message.(*nornv1.ClaimRequest)
		if m.GetWorker() != "me" || m.GetLeaseSeconds() != 30 || m.GetMaxTasks() != 1 || !slices.Equal(m.GetQueues(), []string{"q"}) {
			t.Errorf("asked %v", m)
		}
	})
}

func TestErrorsSteer(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name      string
		h         func() error
		kind      EventKind
		retryIn   time.Duration
		uncounted bool
		discard   bool
		text      string
	}{
		{"error", func() error { return boom }, Failed, 0, false, false, "boom"},
		{"retry after", func() error { return RetryAfter(time.Minute, boom) }, Failed, time.Minute, false, false, "boom"},
		{"discard", func() error { return Discard(boom) }, Failed, 0, false, true, "boom"},
		{"snooze", func() error { return Snooze(time.Hour) }, Snoozed, time.Hour, true, false, "snoozed for 1h0m0s"},
		{"snooze by policy", func() error { return Snooze(0) }, Snoozed, 0, true, false, "snoozed"},
		{"wrapped", func() error { return errors.Join(errors.New("more"), Discard(boom)) }, Failed, 0, false, true, "more"},
		{"panic", func() error { panic("ouch") }, Failed, 0, false, false, "worker_test.go"},
		{"snooze for ever", func() error { return Snooze(math.MaxInt64) }, Snoozed, maxRetryIn, true, false, "snoozed for"},
		{"nil in an error", func() error { var none *os.PathError; return none }, Failed, 0, false, false, "nil pointer"},
		{"goexit", func() error { runtime.Goexit(); return nil }, Failed, 0, false, false, "Goexit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				q.add(30, 1, 2)
				r := start(t, q, Config{}, func(_ context.Context, task *Task) error {
					if task.Token() == 102 {
						return nil
					}
					return tt.h()
				})
				if e := r.ended(); e.Kind != tt.kind || e.Err == nil {
					t.Errorf("got %+v", e)
				}
				if e := r.ended(); e.Kind != Completed {
					t.Errorf("the slot is gone: %+v", e)
				}
				f := q.failures[0]
				if f.GetUncounted() != tt.uncounted || f.GetDiscard() != tt.discard || !strings.Contains(f.GetError(), tt.text) {
					t.Errorf("failed with %v", f)
				}
				if tt.retryIn == 0 && strings.Contains(f.GetError(), "0s") {
					t.Errorf("a time that nobody said: %v", f)
				}
				if (f.GetRetryAt() != nil) != (tt.retryIn > 0) {
					t.Errorf("retry at %v", f.GetRetryAt())
				}
				if in := time.Until(f.GetRetryAt().AsTime()); tt.retryIn > 0 && (in > tt.retryIn || in < tt.retryIn-time.Second) {
					t.Errorf("retry in %v", in)
				}
				if in := proto.Seconds(f.GetRetryInSeconds()); in != tt.retryIn { // whatever the clock here shows
					t.Errorf("retry in %v, by the server's clock", in)
				}
			})
		})
	}
}

// A result that no server takes is a failure that is seen: a report that is
// refused for ever would have the task done again and again.
func TestResultOverTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2)
		r := start(t, q, Config{}, func(_ context.Context, task *Task) error {
			task.SetResult(make([]byte, 1<<20+int(2-task.ID()[0])))
			return nil
		})
		if e := r.ended(); e.Kind != Failed || e.Err == nil {
			t.Errorf("got %+v", e)
		}
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("a result of just the limit: %+v", e)
		}
		if len(q.failures) != 1 || !strings.Contains(q.failures[0].GetError(), "result of 1048577 bytes is over the limit of 1048576") || len(q.done) != 1 {
			t.Errorf("failures %v, %d completed", q.failures, len(q.done))
		}
	})
}

// So is a completion that is refused for good, whatever is wrong with it.
func TestCompletionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if r.Method == nornv1.Method_METHOD_COMPLETE {
					return &fakenode.Answer{Err: proto.Invalid("no such thing")}
				}
				return nil
			}
		})
		r := start(t, q, Config{}, func(context.Context, *Task) error { return nil })
		if e := r.ended(); e.Kind != Failed || !errors.Is(e.Err, client.ErrInvalid) {
			t.Errorf("got %+v", e)
		}
		if len(q.failures) != 1 || !strings.Contains(q.failures[0].GetError(), "no such thing") {
			t.Errorf("failures %v", q.failures)
		}
	})
}

func TestPanicError(t *testing.T) {
	deep := &PanicError{Value: "ouch " + strings.Repeat("x", 20<<10), Stack: []byte("goroutine 1 [running]:\n" + strings.Repeat("main.main()\n", 5000))}
	text := deep.Error()
	if message, stack := proto.SplitError(text); len(text) > proto.MaxErrorBytes || !strings.HasPrefix(message, "panic: ouch x") || !strings.HasPrefix(stack, "goroutine 1") || !strings.HasSuffix(stack, "…") {
		t.Errorf("of a deep one: %d bytes, %.100q", len(text), text)
	}
	err := error(&PanicError{Value: "ouch", Stack: []byte("here")})
	if err.Error() != "panic: ouch\n\nhere" {
		t.Errorf("text %q", err)
	}
}

func TestSlotsAndPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3, 4, 5, 6, 7, 8)
		running, most := make(chan struct{}, 100), make(chan int, 100)
		r := start(t, q, Config{Slots: 2, Prefetch: 3}, func(ctx context.Context, task *Task) error {
			running <- struct{}{}
			time.Sleep(time.Second)
			most <- len(running)
			time.Sleep(time.Second)
			<-running
			return nil
		})
		synctest.Wait()
		if held := len(r.current()); held != 5 {
			t.Errorf("%d claims are held", held)
		}
		for range 8 {
			if e := r.ended(); e.Kind != Completed {
				t.Errorf("got %+v", e)
			}
		}
		close(most)
		for n := range most {
			if n != 2 {
				t.Errorf("%d ran at once", n)
			}
		}
	})
}

func TestExitWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3)
		q.set(func(q *queue) {
			q.state, q.retry = nornv1.State_STATE_SCHEDULED, timestamppb.New(time.Now().Add(20*time.Second))
		})
		time.AfterFunc(20*time.Second, func() { q.add(30, 2) })
		var snoozed atomic.Bool
		r := start(t, q, Config{Slots: 2, ExitWhenEmpty: true}, func(_ context.Context, task *Task) error {
			time.Sleep(time.Second)
			if task.Token() == 102 && snoozed.CompareAndSwap(false, true) {
				return Snooze(20 * time.Second)
			}
			return nil
		})
		began := time.Now()
		if err := <-r.ran; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 20*time.Second || took > 23*time.Second {
			t.Errorf("took %v", took)
		}
		if len(q.done) != 3 || len(q.failures) != 1 {
			t.Errorf("heard %v", q.log())
		}
	})
}

// A partition that has no leader hands out nothing, and of one that nobody can be
// asked about nobody knows: neither is empty. A queue that is paused is.
func TestExitWhenEmptyWaitsForALeader(t *testing.T) {
	away := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "of partition 3 no node is in reach")
	for name, tt := range map[string]struct {
		paused, unknown bool
		after           time.Duration
		done            int
	}{
		"a leader comes": {after: 5 * time.Second, done: 1},
		"it comes late":  {after: 5 * time.Minute, done: 1},
		"out of reach":   {unknown: true, after: 5 * time.Minute, done: 1},
		"paused":         {paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				q.unled, q.paused = 1, tt.paused
				if tt.unknown {
					q.override = func(r fakenode.Request) *fakenode.Answer {
						if _, ok := r.Message.(*nornv1.QueuesRequest); ok {
							return &fakenode.Answer{Err: away}
						}
						return nil
					}
				}
				if tt.done > 0 {
					time.AfterFunc(tt.after, func() { q.add(30, 1); q.set(func(q *queue) { q.unled, q.override = 0, nil }) })
				}
				r := start(t, q, Config{ExitWhenEmpty: true}, func(context.Context, *Task) error { return nil })
				began := time.Now()
				if err := <-r.ran; err != nil {
					t.Fatal(err)
				}
				// A look that is on its way takes up to the time-out of a call.
				if took := time.Since(began); took < tt.after || took > tt.after+35*time.Second || len(q.done) != tt.done {
					t.Errorf("%d tasks done after %v, want %d after %v", len(q.done), took, tt.done, tt.after)
				}
			})
		})
	}
}

// A retry of what ran here is waited for also while nobody can say when it is due.
func TestExitWhenEmptyWaitsForARetryOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		q.set(func(q *queue) {
			q.state, q.retry = nornv1.State_STATE_SCHEDULED, timestamppb.New(time.Now().Add(50*time.Second))
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if _, ok := r.Message.(*nornv1.GetRequest); ok {
					return &fakenode.Answer{Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "of partition 3 no node is in reach")}
				}
				return nil
			}
		})
		time.AfterFunc(50*time.Second, func() {
			q.add(30, 1)
			q.set(func(q *queue) { q.override, q.state = nil, nornv1.State_STATE_COMPLETED })
		})
		var runs atomic.Int32
		r := start(t, q, Config{ExitWhenEmpty: true}, func(context.Context, *Task) error {
			if runs.Add(1) == 1 {
				return errors.New("no")
			}
			return nil
		})
		if err := <-r.ran; err != nil || len(q.done) != 1 {
			t.Errorf("%v, %d done, heard %v", err, len(q.done), q.log())
		}
	})
}

// A retry after no time is due at once, not when the policy says.
func TestRetryAfterNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{ExitWhenEmpty: true}, func(context.Context, *Task) error { return RetryAfter(0, errors.New("no")) })
		if err := <-r.ran; err != nil {
			t.Fatal(err)
		}
		if len(q.failures) != 1 || q.failures[0].GetRetryAt() == nil {
			t.Errorf("heard %v", q.failures)
		}
	})
}

// A retry that is far off is not waited for.
func TestExitWhenEmptyBeforeFarRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		q.set(func(q *queue) {
			q.state, q.retry = nornv1.State_STATE_SCHEDULED, timestamppb.New(time.Now().Add(time.Hour))
		})
		r := start(t, q, Config{ExitWhenEmpty: true}, func(context.Context, *Task) error { return errors.New("no") })
		began := time.Now()
		if err := <-r.ran; err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestNotRunnable(t *testing.T) {
	c, err := client.Dial(t.Context(), []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nothing := func(context.Context, *Task) error { return nil }
	wantIs(t, New(c, Config{}).Run(t.Context()), ErrNotRunnable)
	wantIs(t, New(c, Config{Queues: []string{"a"}}).Run(t.Context()), ErrNotRunnable)
	w := New(c, Config{Name: "w\xff"})
	w.Handle("a", nothing)
	wantIs(t, w.Run(t.Context()), ErrNotRunnable) // no session can be kept under it
	w = New(c, Config{Queues: []string{"a", "b"}})
	w.Handle("a", nothing)
	wantIs(t, w.Run(t.Context()), ErrNotRunnable)
	w.Handle("", nothing)
	if err := w.Stop(t.Context()); err != nil { // before Run: it will return at once
		t.Error(err)
	}
	if err := w.Run(t.Context()); err != nil {
		t.Error(err)
	}
	wantIs(t, w.Run(t.Context()), ErrNotRunnable)
}

func TestHopelessErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if r.Method == nornv1.Method_METHOD_CLAIM {
					return &fakenode.Answer{Err: invalidLease}
				}
				return nil
			}
		})
		r := start(t, q, Config{}, func(context.Context, *Task) error { return nil })
		wantIs(t, <-r.ran, client.ErrInvalid)
	})
}

func TestHandleJSONAndMiddleware(t *testing.T) {
	c, err := client.Dial(t.Context(), []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := New(c, Config{})
	var calls []string
	wrap := func(name string) func(Handler) Handler {
		return func(h Handler) Handler {
			return func(ctx context.Context, task *Task) error {
				calls = append(calls, name)
				return h(ctx, task)
			}
		}
	}
	w.Use(wrap("outer"), wrap("inner"))
	HandleJSON(w, "q", func(_ context.Context, _ *Task, v struct{ N int }) error {
		if v.N != 3 {
			t.Errorf("got %+v", v)
		}
		calls = append(calls, "handler")
		return nil
	})
	task := func(payload string) *Task {
		claim := claimOf("q")
		claim.Grant.Task.Payload = []byte(payload)
		return newTask(c, claim, nil)
	}
	if err := w.handler(taskOf("q"))(t.Context(), task(`{"n": 3}`)); err != nil {
		t.Error(err)
	}
	if !slices.Equal(calls, []string{"outer", "inner", "handler"}) {
		t.Errorf("called %v", calls)
	}
	var s *steered
	if err := w.handler(taskOf("q"))(t.Context(), task(`{`)); !errors.As(err, &s) || !s.discard {
		t.Errorf("got %v", err)
	}
	if w.handler(taskOf("other")) != nil {
		t.Error("a queue without a handler has one")
	}
}

// TestMiddlewareWrapsAHandlerOnce: what it keeps, a limit for one, is for all tasks of the
// handler; and it may use the worker.
func TestMiddlewareWrapsAHandlerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.backlog("q", 1, 10)
		var running, most atomic.Int32
		r := start(t, q, Config{Slots: 10}, func(context.Context, *Task) error {
			n := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), n))
			time.Sleep(time.Second)
			return nil
		}, func(w *Worker) {
			w.Use(func(h Handler) Handler {
				w.Handle("unused", h)
				one := make(chan struct{}, 1)
				return func(ctx context.Context, task *Task) error {
					one <- struct{}{}
					defer func() { <-one }()
					return h(ctx, task)
				}
			})
		})
		for range 10 {
			if e := r.ended(); e.Kind != Completed {
				t.Errorf("%+v", e)
			}
		}
		if most.Load() != 1 {
			t.Errorf("%d handlers at once, though middleware lets only one run", most.Load())
		}
	})
}
