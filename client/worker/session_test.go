package worker_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// bench is a worker with a session on a server in memory, in a bubble.
type bench struct {
	t      *testing.T
	server *norntest.Server
	c      *client.Client
	w      *worker.Worker
	ran    chan error
	events chan worker.Event
}

func newBench(t *testing.T, cfg worker.Config, h worker.Handler) *bench {
	t.Helper()
	b := &bench{t: t, server: norntest.Start(t), ran: make(chan error, 1), events: make(chan worker.Event, 1000)}
	fakenode.Watch(t) // behind the server's leap to today
	b.c = b.server.Client(t)
	cfg.OnEvent = func(e worker.Event) { b.events <- e }
	b.w = worker.New(b.c, cfg)
	b.w.Handle("q", h)
	go func() { b.ran <- b.w.Run(context.Background()) }()
	t.Cleanup(func() {
		b.w.StopNow()
		<-b.ran
	})
	// The time of the bubble runs ahead of the clock that goes on while a machine is
	// suspended, which no bubble has: a slow machine does not look like a suspended one.
	time.Sleep(time.Minute)
	return b
}

func (b *bench) enqueue(n int) {
	b.t.Helper()
	for range n {
		if _, err := b.c.Enqueue(b.t.Context(), client.Task{Queue: "q", Payload: []byte("x")}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// ended is the next event that is not Started.
func (b *bench) ended() worker.Event {
	for e := range b.events {
		if e.Kind != worker.Started {
			return e
		}
	}
	panic("not reached")
}

// one is the only worker of the cluster.
func (b *bench) one() *nornv1.Worker {
	b.t.Helper()
	all, err := b.c.Workers().List(b.t.Context())
	if err != nil || len(all) != 1 {
		b.t.Fatalf("workers %v, %v", all, err)
	}
	return all[0]
}

// A worker keeps a session, is listed with what it runs, and is handed tasks.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := newBench(t, worker.Config{Slots: 2, Name: "shard-1"}, func(ctx context.Context, task *worker.Task) error {
			<-gate
			return nil
		})
		b.enqueue(3)
		time.Sleep(2 * time.Second)
		if w := b.one(); w.GetName() != "shard-1" || w.GetState() != nornv1.SessionState_SESSION_STATE_HEALTHY || !w.GetNamed() || len(w.GetRunning()) != 2 || w.GetSlots() != 2 {
			t.Errorf("the worker is %v", w)
		}
		close(gate)
		for range 3 {
			if e := b.ended(); e.Kind != worker.Completed {
				t.Errorf("%+v", e)
			}
		}
		if err := b.w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if all, err := b.c.Workers().List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("workers %v, %v", all, err)
		}
	})
}

// A task is renewed for as long as it runs, by the heartbeats of its worker.
func TestSessionRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{Lease: 5 * time.Second}, func(ctx context.Context, task *worker.Task) error {
			select {
			case <-time.After(10 * time.Minute):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		b.enqueue(1)
		if e := b.ended(); e.Kind != worker.Completed || e.Task.Attempt() != 1 {
			t.Errorf("%+v", e)
		}
	})
}

// A cancelled task's worker hears of it at once, not when it renews next.
func TestSessionCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan *worker.Task, 1)
		b := newBench(t, worker.Config{Lease: time.Hour}, func(ctx context.Context, task *worker.Task) error {
			started <- task
			<-ctx.Done()
			return context.Cause(ctx)
		})
		b.enqueue(1)
		task := <-started
		began := time.Now()
		if _, err := b.c.Cancel(t.Context(), []id.ID{task.ID()}, client.CancelOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := b.ended(); e.Kind != worker.Lost || !errors.Is(e.Err, worker.ErrCancelled) {
			t.Errorf("%+v", e)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// An operator drains a worker: what runs is finished, and Run returns.
func TestSessionDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, started := make(chan struct{}), make(chan struct{}, 1)
		b := newBench(t, worker.Config{Name: "w", Prefetch: 1}, func(context.Context, *worker.Task) error {
			started <- struct{}{}
			<-gate
			return nil
		})
		b.enqueue(2)
		<-started
		if w, err := b.c.Workers().Drain(t.Context(), "w"); err != nil || !w.GetDraining() {
			t.Fatalf("%v, %v", w, err)
		}
		time.Sleep(time.Second)
		close(gate)
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
		b.ran <- nil
		count, err := b.c.Count(t.Context(), "q")
		if n := count.GetTotal(); err != nil || n.GetCompleted() != 1 || n.GetReady() != 1 {
			t.Errorf("%v, %v", n, err)
		}
	})
}

// An operator stops a worker: its handlers end, their tasks are given back, and Run
// says why.
func TestSessionKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 1)
		b := newBench(t, worker.Config{Name: "w"}, func(ctx context.Context, _ *worker.Task) error {
			started <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		b.enqueue(1)
		<-started
		if _, err := b.c.Workers().Kill(t.Context(), "w", "it misbehaves"); err != nil {
			t.Fatal(err)
		}
		if e := b.ended(); e.Kind != worker.Released || !errors.Is(e.Err, worker.ErrShutdown) {
			t.Errorf("%+v", e)
		}
		err := <-b.ran
		b.ran <- nil
		if !errors.Is(err, worker.ErrKilled) {
			t.Errorf("Run: %v", err)
		}
		count, err := b.c.Count(t.Context(), "q")
		if n := count.GetTotal(); err != nil || n.GetReady() != 1 {
			t.Errorf("%v, %v", n, err)
		}
		if _, err := b.c.Workers().Kill(t.Context(), "w", ""); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("a second time: %v", err)
		}
	})
}

// An operator stops a worker that finishes what it runs, because it was drained, or was told
// to stop: Run says so, and does not wait for a handler that hangs.
func TestSessionKilledWhileItFinishes(t *testing.T) {
	for _, how := range []string{"drained", "stopped"} {
		for _, hangs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				started, free := make(chan struct{}), make(chan struct{})
				b := newBench(t, worker.Config{Name: "w"}, func(ctx context.Context, _ *worker.Task) error {
					close(started)
					if <-ctx.Done(); hangs {
						<-free
					}
					return context.Cause(ctx)
				})
				defer close(free)
				b.enqueue(1)
				<-started
				stopped := make(chan error, 1)
				if how == "drained" {
					if _, err := b.c.Workers().Drain(t.Context(), "w"); err != nil {
						t.Fatal(err)
					}
				} else {
					go func() { stopped <- b.w.Stop(t.Context()) }()
				}
				time.Sleep(10 * time.Second)
				if _, err := b.c.Workers().Kill(t.Context(), "w", ""); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-b.ran:
					if !errors.Is(err, worker.ErrKilled) || errors.Is(err, worker.ErrAbandoned) != hangs {
						t.Errorf("%s, the handler hangs: %t. Run: %v", how, hangs, err)
					}
					b.ran <- nil
				case <-time.After(time.Hour):
					t.Errorf("%s, the handler hangs: %t. Run goes on", how, hangs)
				}
				if how == "stopped" {
					<-stopped
				}
			})
		}
	}
}

// Two workers with one name: the second waits until the first has left.
func TestSessionName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newBench(t, worker.Config{Name: "w"}, func(context.Context, *worker.Task) error { return nil })
		time.Sleep(2 * time.Second)
		second := worker.New(first.c, worker.Config{Name: "w"})
		ran := make(chan struct{}, 1)
		second.Handle("q", func(context.Context, *worker.Task) error {
			ran <- struct{}{}
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- second.Run(context.Background()) }()
		time.Sleep(10 * time.Second)
		all, err := first.c.Workers().List(t.Context(), "w")
		if err != nil || len(all) != 2 || all[0].GetNamed() == all[1].GetNamed() {
			t.Errorf("workers %v, %v", all, err)
		}
		if err := first.w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		first.enqueue(1)
		<-ran
		if err := second.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A server that goes away and comes back: running tasks go on, new ones arrive.
func TestSessionOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, started := make(chan struct{}), make(chan struct{}, 10)
		b := newBench(t, worker.Config{Slots: 2}, func(ctx context.Context, _ *worker.Task) error {
			started <- struct{}{}
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		b.enqueue(1)
		<-started
		b.server.Down()
		time.Sleep(8 * time.Second)
		if err := b.server.Up(); err != nil {
			t.Fatal(err)
		}
		b.enqueue(1)
		<-started
		close(gate)
		for range 2 {
			if e := b.ended(); e.Kind != worker.Completed || e.Task.Attempt() != 1 {
				t.Errorf("%+v", e)
			}
		}
	})
}

// A session that was lost, here because the server's clock went ahead, is followed by
// another one: the worker begins anew, and the word to die that was meant for the
// instance before does not reach the new one.
func TestSessionBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{Name: "w"}, func(context.Context, *worker.Task) error { return nil })
		time.Sleep(2 * time.Second)
		first := b.one()
		b.server.Advance(2 * time.Minute)
		time.Sleep(20 * time.Second)
		second := b.one()
		if string(first.GetInstance()) == string(second.GetInstance()) || second.GetState() != nornv1.SessionState_SESSION_STATE_HEALTHY || second.GetName() != "w" {
			t.Errorf("first %v, then %v", first, second)
		}
		b.enqueue(1)
		if e := b.ended(); e.Kind != worker.Completed {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		if third := b.one(); string(second.GetInstance()) != string(third.GetInstance()) {
			t.Errorf("it died again: %v", third)
		}
	})
}

// Where no node keeps sessions the worker asks for tasks instead; with Pull it does so
// at once, and is not listed.
func TestPullIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{Pull: true}, func(context.Context, *worker.Task) error { return nil })
		b.enqueue(1)
		if e := b.ended(); e.Kind != worker.Completed {
			t.Errorf("%+v", e)
		}
		if all, err := b.c.Workers().List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("workers %v, %v", all, err)
		}
	})
}

// Queues with slots and weights of their own are asked for by them.
func TestSessionShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := norntest.Start(t)
		c := server.Client(t)
		for _, q := range []string{"much", "some", "narrow"} {
			for range 100 {
				if _, err := c.Enqueue(t.Context(), client.Task{Queue: q}); err != nil {
					t.Fatal(err)
				}
			}
		}
		order, narrow := make(chan string, 300), make(chan struct{}, 1)
		w := worker.New(c, worker.Config{Slots: 4, PerQueue: map[string]worker.QueueConfig{"much": {Weight: 3}, "narrow": {Slots: 1}}})
		for _, q := range []string{"much", "some", "narrow"} {
			w.Handle(q, func(context.Context, *worker.Task) error {
				if q == "narrow" {
					select {
					case narrow <- struct{}{}:
					default:
						t.Error("two of the narrow queue at a time")
					}
					defer func() { <-narrow }()
				}
				time.Sleep(100 * time.Millisecond)
				order <- q
				return nil
			})
		}
		ran := make(chan error, 1)
		go func() { ran <- w.Run(context.Background()) }()
		count := map[string]int{}
		for range 120 {
			count[<-order]++
		}
		if count["much"] < 2*count["some"] || count["narrow"] == 0 || count["some"] == 0 {
			t.Errorf("the first 120 tasks are %v", count)
		}
		w.StopNow()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// What a handler logs is told to whoever asks, while it runs and after; with pull
// nothing is kept.
func TestTaskLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, logged := make(chan struct{}), make(chan client.Ref, 1)
		b := newBench(t, worker.Config{Name: "w"}, func(_ context.Context, task *worker.Task) error {
			task.Log("one")
			logged <- client.Ref{ID: task.ID(), Token: task.Token()}
			<-gate
			task.Log("two")
			return nil
		})
		b.enqueue(1)
		c := <-logged
		if m, err := b.c.Workers().Lines(t.Context(), "w", c, client.LineOptions{}); err != nil || m.GetFirst() != 1 || len(m.GetLines()) != 1 || string(m.GetLines()[0]) != "one" || m.GetEnded() {
			t.Errorf("while it runs: %v, %v", m, err)
		}
		close(gate)
		if e := b.ended(); e.Kind != worker.Completed {
			t.Errorf("%+v", e)
		}
		if m, err := b.c.Workers().Lines(t.Context(), "w", c, client.LineOptions{After: 1, Limit: 1}); err != nil || m.GetFirst() != 2 || len(m.GetLines()) != 1 || string(m.GetLines()[0]) != "two" || !m.GetEnded() {
			t.Errorf("after it: %v, %v", m, err)
		}
		if _, err := b.c.Workers().Lines(t.Context(), "x", c, client.LineOptions{}); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("of nobody: %v", err)
		}
	})
}

// A handler that needs longer than ten seconds to stop is given all of its Grace when
// its session is lost: nobody else begins its task before that is over.
func TestALostSessionKeepsTheWholeGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace, needs = time.Minute, 55 * time.Second
		var told, returned, again time.Time
		ended := make(chan struct{})
		b := newBench(t, worker.Config{Lease: 10 * time.Minute, Grace: grace}, func(ctx context.Context, _ *worker.Task) error {
			defer close(ended)
			<-ctx.Done()
			told = time.Now()
			if !errors.Is(context.Cause(ctx), worker.ErrClaimLost) {
				t.Errorf("the context ended with %v", context.Cause(ctx))
			}
			time.Sleep(needs)
			returned = time.Now()
			return context.Cause(ctx)
		})
		observer := b.server.Client(t)
		b.enqueue(1)
		for e := range b.events {
			if e.Kind == worker.Started {
				break
			}
		}
		cut := time.Now()
		if err := b.c.Close(); err != nil { // it hears and says nothing any more
			t.Fatal(err)
		}
		other := worker.New(observer, worker.Config{Lease: 10 * time.Minute})
		ran := make(chan error, 1)
		other.Handle("q", func(context.Context, *worker.Task) error {
			again = time.Now()
			go other.StopNow()
			return nil
		})
		go func() { ran <- other.Run(context.Background()) }()
		<-ended
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if told.IsZero() || again.Before(returned) || again.Before(told.Add(grace)) {
			t.Errorf("after the cut: told to stop at %v, returned at %v, begun elsewhere at %v", told.Sub(cut), returned.Sub(cut), again.Sub(cut))
		}
	})
}

// What a node refuses for good is told by Run, as without a session: nothing would ever
// come of trying again.
func TestSessionRefusedForGood(t *testing.T) {
	for name, cfg := range map[string]worker.Config{
		"queue": {Queues: []string{"no queue!"}},
		"lease": {Lease: time.Millisecond},
		"name":  {Name: strings.Repeat("n", proto.MaxWorkerName+1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worker.New(norntest.Start(t).Client(t), cfg)
				for _, q := range []string{"*", "q"} {
					w.Handle(q, func(context.Context, *worker.Task) error { return nil })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := w.Run(ctx); !errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrUnknown) {
					t.Errorf("Run: %v", err)
				}
			})
		})
	}
}

// Nor does a client that was closed ever connect again.
func TestSessionOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, func(context.Context, *worker.Task) error { return nil })
		if err := b.c.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-b.ran:
			if !errors.Is(err, client.ErrClosed) {
				t.Errorf("Run: %v", err)
			}
			b.ran <- nil // for the end of the bench
		case <-time.After(time.Hour):
			t.Error("Run goes on")
		}
	})
}

// What is put off for longer than there are times holds up nothing else: a node refuses
// what is no time, and with it all that came in the same message.
func TestSessionSnoozesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, func(_ context.Context, task *worker.Task) error {
			if task.Attempt() == 1 && len(task.Headers()) == 0 {
				return worker.Snooze(math.MaxInt64)
			}
			return nil
		})
		b.enqueue(1)
		time.Sleep(time.Minute)
		if _, err := b.c.Enqueue(t.Context(), client.Task{Queue: "q", Headers: map[string]string{"h": "v"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		count, err := b.c.Count(t.Context(), "q")
		if n := count.GetTotal(); err != nil || n.GetScheduled() != 1 || n.GetCompleted() != 1 {
			t.Errorf("%v, %v", n, err)
		}
	})
}

// A worker that an operator stops does not wait for handlers that hang.
func TestSessionKilledWithAHandlerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, free := make(chan struct{}), make(chan struct{})
		b := newBench(t, worker.Config{Name: "w"}, func(context.Context, *worker.Task) error {
			close(started)
			<-free
			return nil
		})
		defer close(free)
		b.enqueue(1)
		<-started
		if _, err := b.c.Workers().Kill(t.Context(), "w", ""); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-b.ran:
			if !errors.Is(err, worker.ErrKilled) || !errors.Is(err, worker.ErrAbandoned) {
				t.Errorf("Run: %v", err)
			}
			b.ran <- nil
		case <-time.After(time.Hour):
			t.Error("Run goes on")
		}
	})
}
