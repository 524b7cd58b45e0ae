package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// A process that was frozen beyond its lease: whatever its timers have noticed,
// its next update asks the clocks first.
func TestAFrozenWorkerLosesTheClaimBeforeItsNextUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		var frozen atomic.Int64 // by how much the clocks went on without the timers
		r := start(t, q, Config{}, func(ctx context.Context, task *Task) error {
			if err := task.Update(ctx, []byte("before")); err != nil {
				t.Error(err)
			}
			frozen.Store(int64(time.Minute))
			err := task.Update(context.WithoutCancel(ctx), []byte("after"))
			wantIs(t, err, ErrClaimLost)
			wantIs(t, context.Cause(ctx), ErrClaimLost)
			return err
		}, func(w *Worker) {
			w.stamp = func() stamp { s := readClocks(); s.boot += time.Duration(frozen.Load()); return s }
		})
		q.add(30, 1)
		if e := r.ended(); e.Kind != Lost {
			t.Errorf("got %+v", e)
		}
		if got := q.log(); !slices.Equal(got, []string{`update 0 "before" 1@101`}) {
			t.Errorf("heard %v", got)
		}
	})
}

// An update that waits for a server ends when the claim does, whatever context
// it was given.
func TestAnUpdateEndsWithTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{}, func(ctx context.Context, task *Task) error {
			q.node.Stop()
			began := time.Now()
			long, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
			defer cancel()
			wantIs(t, task.Update(long, []byte("x")), ErrClaimLost)
			if took := time.Since(began); took > 27*time.Second {
				t.Errorf("took %v", took)
			}
			return errors.New("no")
		})
		if e := r.ended(); e.Kind != Lost {
			t.Errorf("got %+v", e)
		}
	})
}

// A handler that ignores the end of its context keeps its slot, and no more.
func TestAHandlerThatIgnoresItsContextIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2)
		free, hushed := make(chan struct{}), make(chan struct{})
		r := start(t, q, Config{Slots: 2}, func(_ context.Context, task *Task) error {
			if task.Token() == 101 {
				q.hush()
				close(hushed)
				<-free
				return errors.New("at last")
			}
			<-hushed // else it could be completed before
			return nil
		})
		if e := r.ended(); e.Kind != Stuck || !errors.Is(e.Err, ErrClaimLost) || e.Took < 29*time.Second || e.Took > 31*time.Second {
			t.Errorf("got %+v", e)
		}
		q.set(func(q *queue) { q.override = nil })
		if e := r.ended(); e.Kind != Completed || e.Task.Token() != 102 {
			t.Errorf("got %+v", e)
		}
		renewals := func() int { return len(q.node.Seen(nornv1.Method_METHOD_RENEW)) }
		before := renewals()
		q.add(30, 3, 4)
		for _, token := range []uint64{103, 104} { // one after the other: one slot is left
			if e := r.ended(); e.Kind != Completed || e.Task.Token() != token {
				t.Errorf("got %+v", e)
			}
		}
		time.Sleep(time.Minute)
		if renewals() != before {
			t.Error("a claim that is lost is renewed")
		}
		close(free)
		if e := r.ended(); e.Kind != Lost || e.Task.Token() != 101 {
			t.Errorf("got %+v", e)
		}
	})
}

func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cfg    Config
		header string
		want   time.Duration
	}{
		{"of the worker", Config{Timeout: time.Minute}, "", time.Minute},
		{"of the queue", Config{Timeout: time.Minute, PerQueue: map[string]QueueConfig{"q": {Timeout: time.Hour}}}, "", time.Hour},
		{"of the task", Config{Timeout: time.Minute, PerQueue: map[string]QueueConfig{"q": {Timeout: time.Hour}}}, "3s", 3 * time.Second},
		{"nonsense", Config{Timeout: time.Minute}, "soon", time.Minute},
		{"below zero", Config{Timeout: time.Minute}, "-1s", time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				q.add(30, 1)
				if tt.header != "" {
					q.set(func(q *queue) { q.ready[0].Task.Headers[TimeoutHeader] = tt.header })
				}
				r := start(t, q, tt.cfg, func(ctx context.Context, task *Task) error {
					<-ctx.Done()
					wantIs(t, context.Cause(ctx), ErrTimeout)
					// The claim still holds: there is time for a checkpoint.
					if err := task.Update(context.WithoutCancel(ctx), []byte("so far")); err != nil {
						t.Error(err)
					}
					return ctx.Err()
				})
				if e := r.ended(); e.Kind != Failed || !errors.Is(e.Err, ErrTimeout) || e.Took != tt.want {
					t.Errorf("got %+v", e)
				}
				if got := q.log(); !slices.Equal(got, []string{`update 0 "so far" 1@101`, "fail 1@101"}) || q.failures[0].GetUncounted() ||
					!strings.Contains(q.failures[0].GetError(), "time is over") {
					t.Errorf("heard %v, failed with %v", got, q.failures)
				}
			})
		})
	}
}

func TestNoTimeout(t *testing.T) {
	w := New(nil, Config{Timeout: time.Minute, PerQueue: map[string]QueueConfig{"q": {Timeout: -1}}})
	if d := timeoutOf(w, taskOf("q")); d > 0 {
		t.Errorf("a queue without a time-out has %v", d)
	}
}

// A task whose handler hangs fails all the same, so that it is tried again; when
// the handler has done it after all, that counts.
func TestAHangingHandlerLosesItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		free := make(chan struct{})
		r := start(t, q, Config{Timeout: time.Minute}, func(context.Context, *Task) error {
			<-free
			return nil
		})
		if e := r.ended(); e.Kind != Stuck || !errors.Is(e.Err, ErrTimeout) || e.Took != time.Minute+3*time.Second {
			t.Errorf("got %+v", e)
		}
		if e := r.ended(); e.Kind != Failed {
			t.Errorf("got %+v", e)
		}
		close(free)
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		if got := q.log(); !slices.Equal(got, []string{"fail 1@101", "complete 1@101"}) {
			t.Errorf("heard %v", got)
		}
	})
}

// A grant that comes late, or waits long for a slot, is not begun.
func TestTooLateToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if m, ok := r.Message.(*nornv1.ClaimRequest); ok && len(q.node.Seen(nornv1.Method_METHOD_CLAIM)) == 1 {
					a := q.claim(m)
					time.Sleep(25 * time.Second) // the answer is held up
					a.Message.(*nornv1.ClaimReply).WaitedSeconds = 0
					return &a
				}
				return nil
			}
		})
		q.add(30, 1)
		r := start(t, q, Config{}, func(context.Context, *Task) error { return nil })
		if e := r.ended(); e.Kind != Released || !errors.Is(e.Err, errTooLate) {
			t.Errorf("got %+v", e)
		}
		q.add(30, 2)
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		if got := q.log(); !slices.Equal(got, []string{"release 1@101", "complete 2@102"}) {
			t.Errorf("heard %v", got)
		}
	})
}
