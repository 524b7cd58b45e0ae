package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestPullClaimsAheadWhileItsRunsAreShort: a worker that asks for tasks has up to twice as many
// as it has slots once it knows that its tasks are short.
func TestPullClaimsAheadWhileItsRunsAreShort(t *testing.T) {
	for _, tt := range []struct {
		name     string
		prefetch int
		run      time.Duration
		most     int
	}{
		{"short runs", Adaptive, 10 * time.Millisecond, 2},
		{"long runs", Adaptive, 150 * time.Millisecond, 1},
		{"strict", 0, 10 * time.Millisecond, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				const tasks = 20
				for n := byte(1); n <= tasks; n++ {
					q.add(30, n)
				}
				var held []int // when a handler ends, by order
				r := start(t, q, Config{Pull: true, Prefetch: tt.prefetch}, func(context.Context, *Task) error {
					time.Sleep(tt.run)
					q.set(func(q *queue) { held = append(held, tasks-len(q.ready)-len(held)) })
					return nil
				})
				for range tasks {
					if e := r.ended(); e.Kind != Completed {
						t.Fatalf("%+v", e)
					}
				}
				if got := slices.Max(held); got != tt.most || held[0] != 1 {
					t.Errorf("it held %d tasks, want %d: %v", got, tt.most, held)
				}
			})
		})
	}
}

// TestWhatWaitsForASlotTooLongIsGivenBack: a worker whose tasks have been short is given a long
// one and one behind it.
func TestWhatWaitsForASlotTooLongIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		r := start(t, q, Config{Pull: true, Prefetch: Adaptive}, func(_ context.Context, task *Task) error {
			if task.Token() == 150 {
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		for n := byte(1); n <= 8; n++ {
			q.add(30, n)
			r.ended()
		}
		began := time.Now()
		var released time.Duration
		q.set(func(q *queue) {
			q.override = func(f fakenode.Request) *fakenode.Answer {
				if _, is := f.Message.(*nornv1.ReleaseRequest); is {
					released = time.Since(began)
				}
				return nil
			}
		})
		q.add(30, 50, 51)
		if e := r.ended(); e.Kind != Released || e.Task.Token() != 151 || released > 150*time.Millisecond {
			t.Fatalf("%+v after %v", e, released)
		}
		if got := q.log(); !slices.Contains(got, "release 51@151") {
			t.Errorf("heard %v", got)
		}
		if e := r.ended(); e.Kind != Completed || e.Task.Token() != 150 {
			t.Errorf("%+v", e)
		}
	})
}
