package norntest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func enqueue(t *testing.T, c *client.Client, task client.Task) client.Task {
	t.Helper()
	task.ID = c.NewID()
	if _, err := c.Enqueue(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return task
}

func claim(t *testing.T, c *client.Client, r client.ClaimRequest) []*client.Claim {
	t.Helper()
	r.Queues = []string{"q"}
	claims, err := c.Claim(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func state(t *testing.T, c *client.Client, task client.Task) nornv1.State {
	t.Helper()
	got, err := c.Get(t.Context(), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got.GetState()
}

func TestATaskFromBeginningToEnd(t *testing.T) {
	c := Start(t).Client(t)
	task := enqueue(t, c, client.Task{Queue: "q", Payload: []byte("x")})
	w := worker.New(c, worker.Config{ExitWhenEmpty: true})
	w.Handle("q", func(ctx context.Context, task *worker.Task) error {
		task.SetResult(append([]byte("result of "), task.Payload()...))
		return task.Update(ctx, []byte("half"))
	})
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Wait(t.Context(), task.ID)
	if err != nil || got.GetState() != nornv1.State_STATE_COMPLETED || string(got.GetResult()) != "result of x" || len(got.GetUpdates()) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// The clock that is put ahead makes tasks due and leases lapse, without any time
// passing here.
func TestAdvance(t *testing.T) {
	s := Start(t)
	c := s.Client(t)
	began := time.Now()
	later := enqueue(t, c, client.Task{Queue: "q", Delay: time.Hour})
	if got := claim(t, c, client.ClaimRequest{}); len(got) != 0 {
		t.Fatalf("granted %v too early", got[0].Grant)
	}
	s.Advance(59 * time.Minute)
	if got := claim(t, c, client.ClaimRequest{}); len(got) != 0 {
		t.Fatalf("granted %v too early", got[0].Grant)
	}
	waiting := make(chan []*client.Claim, 1)
	go func() {
		// It waits for longer than the clock is put ahead: what asks before that must
		// not have waited its time out when the task gets due.
		claims, err := c.Claim(context.Background(), client.ClaimRequest{Queues: []string{"q"}, Wait: 5 * time.Minute, Lease: time.Hour})
		if err != nil {
			t.Error(err)
		}
		waiting <- claims
	}()
	s.Advance(time.Minute)
	first := <-waiting
	if len(first) != 1 || first[0].ID != later.ID {
		t.Fatalf("granted %v", first)
	}
	s.Advance(time.Hour + time.Second)
	second := claim(t, c, client.ClaimRequest{Wait: time.Minute})
	if len(second) != 1 || second[0].Token <= first[0].Token {
		t.Fatalf("granted %v", second)
	}
	results, err := c.Renew(t.Context(), []client.Ref{first[0].Ref()}, 0)
	if err != nil || !errors.Is(results[0].Err, client.ErrClaimLost) {
		t.Errorf("renewed %v, %v", results, err)
	}
	// What clients say about times counts from the server's now.
	if _, err := c.Fail(t.Context(), later.ID, second[0].Token, client.FailOptions{Error: "no", RetryIn: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if got := state(t, c, later); got != nornv1.State_STATE_SCHEDULED {
		t.Errorf("state %v", got)
	}
	s.Advance(11 * time.Minute)
	if got := state(t, c, later); got != nornv1.State_STATE_READY {
		t.Errorf("state %v", got)
	}
	s.Advance(-time.Hour)
	if now := s.Now(); now.Before(began.Add(2 * time.Hour)) {
		t.Errorf("now is %v", now)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// TestADelayIsOfTheServersTimeHoweverFarItIsAhead: a client has heard of it when it connected, or at
// its last ping, or not yet.
func TestADelayIsOfTheServersTimeHoweverFarItIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start(t)
		before := s.Client(t)
		enqueue(t, before, client.Task{Queue: "other"})
		s.Advance(24 * time.Hour)
		for name, c := range map[string]*client.Client{"connected before": before, "connected after": s.Client(t)} {
			for _, wait := range []time.Duration{0, time.Minute} { // with pings
				time.Sleep(wait)
				later := enqueue(t, c, client.Task{Queue: "q", Delay: time.Hour})
				s.Advance(time.Hour - time.Second)
				if got := claim(t, c, client.ClaimRequest{}); len(got) != 0 {
					t.Errorf("%s, after %v: granted too early", name, wait)
				}
				s.Advance(time.Second)
				got := claim(t, c, client.ClaimRequest{})
				if len(got) != 1 || got[0].ID != later.ID {
					t.Errorf("%s, after %v: granted %v", name, wait, got)
				}
				for _, one := range got {
					if _, err := c.Complete(t.Context(), one.ID, one.Token, client.CompleteOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

// TestSchedulesAreLaunched, and a purge takes what is: the IDs of launches are of the server's time.
func TestSchedulesAreLaunched(t *testing.T) {
	s := Start(t)
	c := s.Client(t)
	spec := &nornv1.ScheduleSpec{Cron: "@hourly", Task: &nornv1.TaskSpec{Queue: "q"}}
	if _, err := c.Schedules().Put(t.Context(), "s", spec, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, c, client.Task{Queue: "q"})
	s.Advance(90 * time.Minute)
	got, err := c.Queues().Purge(t.Context(), "q", client.BulkOptions{})
	if err != nil || got.Done != 2 && got.Done != 3 { // one or two full hours
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := c.Count(t.Context(), "q"); err != nil || n.GetTotal().GetReady() != 0 {
		t.Errorf("counted %v, %v", n, err)
	}
}

// In a bubble the clocks of everybody move together.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, Options{MaxAttempts: 3, RetryInitial: 10 * time.Minute}).Client(t)
		task := enqueue(t, c, client.Task{Queue: "q", Delay: 30 * time.Minute})
		began, runs := time.Now(), 0
		w := worker.New(c, worker.Config{})
		w.Handle("q", func(ctx context.Context, _ *worker.Task) error {
			runs++
			time.Sleep(2 * time.Minute) // far beyond the lease: it is renewed
			return errors.Join(ctx.Err(), errors.New("no"))
		})
		ran := make(chan error)
		go func() { ran <- w.Run(context.Background()) }()
		got, err := c.Wait(t.Context(), task.ID)
		if err != nil || got.GetState() != nornv1.State_STATE_DEAD || runs != 3 || got.GetAttempts() != 3 {
			t.Errorf("got %v, %v after %d runs", got, err, runs)
		}
		// Half an hour, 10 and 20 minutes of back-off with their jitter, and the runs.
		if took := time.Since(began); took < 60*time.Minute || took > 75*time.Minute {
			t.Errorf("took %v", took)
		}
		w.StopNow()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// An outage loses nothing that was acknowledged; clients bridge it.
func TestDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start(t)
		c := s.Client(t)
		task := enqueue(t, c, client.Task{Queue: "q"})
		held := claim(t, c, client.ClaimRequest{})
		s.Down()
		s.Down()
		time.AfterFunc(10*time.Second, func() {
			if err := s.Up(); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		if _, err := c.Complete(t.Context(), task.ID, held[0].Token, client.CompleteOptions{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("took %v", took)
		}
		if got := state(t, c, task); got != nornv1.State_STATE_COMPLETED {
			t.Errorf("state %v", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Up(); !errors.Is(err, ErrDown) {
			t.Errorf("a closed server starts: %v", err)
		}
	})
}

// Everything clients can ask for gets an answer.
func TestMethods(t *testing.T) {
	for number := range nornv1.Method_name {
		m := nornv1.Method(number)
		switch m {
		case nornv1.Method_METHOD_UNSPECIFIED, nornv1.Method_METHOD_HELLO, nornv1.Method_METHOD_PING:
			continue
		}
		if request(m) == nil {
			t.Errorf("%v has no request", m)
		}
	}
	if request(99) != nil {
		t.Error("an unknown method has a request")
	}
	c := Start(t).Client(t)
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	task := enqueue(t, c, client.Task{Queue: "q"})
	if n, err := c.Count(t.Context(), "q"); err != nil || n.GetTotal().GetReady() != 1 {
		t.Errorf("counted %v, %v", n, err)
	}
	if results, err := c.Cancel(t.Context(), []id.ID{task.ID}, client.CancelOptions{}); err != nil || results[0].Err != nil {
		t.Errorf("cancelled %v, %v", results, err)
	}
}

func TestRun(t *testing.T) {
	got := Run(t, func(ctx context.Context, task *worker.Task) error {
		if task.Attempt() != 1 {
			t.Error("it runs again")
		}
		if err := task.Update(ctx, []byte("so far")); err != nil {
			return err
		}
		return worker.Snooze(0)
	}, client.Task{Payload: []byte("x")})
	if got.GetState() != nornv1.State_STATE_SCHEDULED || len(got.GetUpdates()) != 1 || got.GetAttempts() != 0 {
		t.Errorf("got %v", got)
	}
	got = Run(t, func(context.Context, *worker.Task) error { return worker.Discard(errors.New("hopeless")) }, client.Task{Queue: "other"})
	if got.GetState() != nornv1.State_STATE_DEAD || got.GetError() != "hopeless" || got.GetQueue() != "other" {
		t.Errorf("got %v", got)
	}
}
