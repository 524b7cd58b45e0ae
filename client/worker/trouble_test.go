package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/session"
)

// TestUnableGivesBackAndRests: tasks that could not be begun are given back, and the worker
// tries again after a second, two, four …, with one task at a time; once one has begun it
// takes as many as ever, and never gives up.
func TestUnableGivesBackAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3)
		began := time.Now()
		var tried []time.Duration
		able := false
		// A task is there again as soon as it is given back.
		r := start(t, q, Config{Pull: true, GiveUp: 20 * time.Second}, func(_ context.Context, task *Task) error {
			tried = append(tried, time.Since(began))
			if !able {
				return Unable(errors.New("no room"))
			}
			return nil
		})
		for n := byte(1); n <= 3; n++ {
			if e := r.ended(); e.Kind != Released || e.Task.Token() != 100+uint64(n) {
				t.Fatalf("got %+v", e)
			}
		}
		able = true
		q.add(30, 4, 5)
		for range 2 {
			if e := r.ended(); e.Kind != Completed {
				t.Fatalf("got %+v", e)
			}
		}
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 7 * time.Second}
		if !slices.Equal(tried, want) {
			t.Errorf("tried after %v, want %v", tried, want)
		}
		if got := q.log(); !slices.Equal(got, []string{"release 1@101", "release 2@102", "release 3@103", "complete 4@104", "complete 5@105"}) {
			t.Errorf("heard %v", got)
		}
		able = false
		q.add(30, 6)
		if e := r.ended(); e.Kind != Released {
			t.Fatalf("got %+v", e)
		}
		time.Sleep(time.Hour)
		select {
		case err := <-r.ran:
			t.Error("it gave up, though it could begin tasks before: ", err)
		default:
		}
	})
}

// TestUnableTakesOneAtATime: of those taken together with the one that failed none is
// tried, and after the rest one is taken to try.
func TestUnableTakesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3, 4, 5, 6)
		tried := 0
		r := start(t, q, Config{Pull: true, Prefetch: 3}, func(context.Context, *Task) error {
			tried++
			return Unable(errors.New("no room"))
		})
		for range 5 {
			if e := r.ended(); e.Kind != Released {
				t.Fatalf("got %+v", e)
			}
		}
		if tried != 2 { // the first one of four, and one more
			t.Errorf("%d were tried", tried)
		}
	})
}

// TestGivesUp: who never could begin a task ends, with the reason.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		began := time.Now()
		r := start(t, q, Config{Pull: true, GiveUp: time.Minute}, func(context.Context, *Task) error { return Unable(errors.New("no room")) })
		r.ended()
		if err := <-r.ran; !errors.Is(err, ErrUnable) || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		r.ran <- nil // for the end of the test
	})
}

// TestBegunIsEnough: a task that has begun, and not ended, shows that the worker can.
func TestBegunIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		tried, free := 0, make(chan struct{})
		r := start(t, q, Config{Pull: true, GiveUp: time.Minute}, func(_ context.Context, task *Task) error {
			if tried++; tried == 1 {
				return Unable(errors.New("no room"))
			}
			task.Begun()
			<-free
			return nil
		})
		r.ended()
		q.add(30, 2)
		time.Sleep(time.Hour)
		select {
		case err := <-r.ran:
			t.Fatal("it gave up: ", err)
		default:
		}
		close(free)
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
	})
}

// TestASessionSaysWhyItRests, and refuses what comes all the same; also the next session.
func TestASessionSaysWhyItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		p.trouble("no room", true)
		p.push(1, 30*time.Second)
		if r, b := p.refused(), p.beat(); r != session.RefusedFull || b == nil || b.Trouble != "no room" || !b.Resting || len(b.Capacity.Queues) != 1 {
			t.Errorf("refused with %v, and the node was told of %+v", r, b)
		}
		p.trouble("no room", false)
		p.look()
		if b := p.beat(); b.Trouble != "no room" || b.Resting {
			t.Errorf("after the rest: %+v", b)
		}
		p.push(2, 30*time.Second)
		if got := p.taken(1); len(got) != 1 {
			t.Error("nothing is tried")
		}
		p.trouble("", false)
		p.look()
		if b := p.beat(); b.Trouble != "" {
			t.Errorf("in the end: %+v", b)
		}
	})
}
