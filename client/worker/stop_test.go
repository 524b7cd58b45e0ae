package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestStopLetsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2)
		r := start(t, q, Config{Slots: 1, Prefetch: 1}, func(ctx context.Context, _ *Task) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		<-r.events
		time.Sleep(time.Second)
		began := time.Now()
		if err := r.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := <-r.ran; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 59*time.Second {
			t.Errorf("took %v", took)
		}
		// The task that had not begun is given back at once.
		if got := q.log(); !slices.Equal(got, []string{"release 2@102", "complete 1@101"}) {
			t.Errorf("heard %v", got)
		}
	})
}

func TestStopWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newQueue(t), Config{}, untilDone)
		time.Sleep(time.Second)
		began := time.Now()
		if err := r.Stop(context.Background()); err != nil || <-r.ran != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestStopRunsOutOfPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		causes := make(chan error, 1)
		r := start(t, q, Config{}, func(ctx context.Context, _ *Task) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return errors.New("interrupted")
		})
		<-r.events
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		began := time.Now()
		wantIs(t, r.Stop(ctx), context.DeadlineExceeded)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		wantIs(t, <-causes, ErrShutdown)
		// A shutdown costs no attempt: released, not failed.
		if got := q.log(); !slices.Equal(got, []string{"release 1@101"}) {
			t.Errorf("heard %v", got)
		}
		if e := r.ended(); e.Kind != Released {
			t.Errorf("got %+v", e)
		}
	})
}

func TestHandlersThatDoNotReturnAreAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		free := make(chan struct{})
		r := start(t, q, Config{Grace: 2 * time.Second}, func(context.Context, *Task) error {
			<-free
			return nil
		})
		<-r.events
		r.StopNow()
		began := time.Now()
		wantIs(t, <-r.ran, ErrAbandoned)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		if len(q.log()) != 0 {
			t.Errorf("a task that still runs was given back: %v", q.log())
		}
		close(free)
	})
}

// TestAGraceWithoutEnd: handlers that may take as long as can be said are waited for, and
// what they have done is reported.
func TestAGraceWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{Grace: math.MaxInt64}, func(context.Context, *Task) error {
			time.Sleep(3 * time.Second)
			return nil
		})
		<-r.events
		r.StopNow()
		if err := <-r.ran; err != nil {
			t.Error(err)
		}
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
	})
}

// StopNow with a dead server: reports end in time too.
func TestStopNowWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{}, untilDone)
		<-r.events
		q.node.Stop()
		r.StopNow()
		began := time.Now()
		if err := <-r.ran; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		if e := r.ended(); e.Kind != Unreported {
			t.Errorf("got %+v", e)
		}
	})
}

// A claim that is given up may have been granted: the node is told that nobody
// heard of it, and frees the task.
func TestStopFreesLostGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if m, ok := r.Message.(*nornv1.ClaimRequest); ok && len(q.node.Seen(nornv1.Method_METHOD_CLAIM)) == 1 {
					q.claim(m)
					return &fakenode.Answer{Lose: true}
				}
				return nil
			}
		})
		q.add(30, 1)
		r := start(t, q, Config{}, untilDone)
		synctest.Wait()
		if err := r.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		asked := q.node.Seen(nornv1.Method_METHOD_CLAIM)
		if len(asked) != 2 || !slices.Contains(asked[1].Message.(*nornv1.ClaimRequest).GetUnanswered(), asked[0].Message.(*nornv1.ClaimRequest).GetRequestNo()) {
			t.Errorf("asked %v", asked)
		}
	})
}

func TestEndOfContextStopsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{}, untilDone)
		<-r.events
		second := New(r.client, Config{})
		second.Handle("q", untilDone)
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error)
		go func() { ran <- second.Run(ctx) }()
		synctest.Wait()
		q.add(30, 2)
		synctest.Wait()
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if got := q.log(); !slices.Equal(got, []string{"release 2@102"}) {
			t.Errorf("heard %v", got)
		}
	})
}

// A server that grants more than was asked for gets the rest back.
func TestTooManyGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if m, ok := r.Message.(*nornv1.ClaimRequest); ok {
					m.MaxTasks = 2
				}
				return nil
			}
		})
		q.add(30, 1, 2)
		r := start(t, q, Config{}, func(context.Context, *Task) error { return nil })
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		synctest.Wait()
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if got := q.log(); !slices.Contains(got, "release 2@102") || !slices.Contains(got, "complete 1@101") || len(got) != 2 {
			t.Errorf("heard %v", got)
		}
	})
}
