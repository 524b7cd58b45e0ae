package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
)

// kind gives the tasks that are ready kinds, in their order.
func (q *queue) kinds(kinds ...string) {
	q.set(func(q *queue) {
		for i, k := range kinds {
			q.ready[i].Task.Kind = k
		}
	})
}

// TestHandlersByKind: that of a kind goes before that of the queue, and one that was taken away
// counts no more.
func TestHandlersByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3, 4)
		q.kinds("send", "other", "", "gone")
		ran := make(chan string, 4)
		by := func(name string) Handler {
			return func(_ context.Context, t *Task) error {
				ran <- fmt.Sprintf("%d by %s", t.ID()[0], name)
				return nil
			}
		}
		r := start(t, q, Config{}, by("queue"), func(w *Worker) {
			w.HandleKind("send", by("kind"))
			w.HandleKind("gone", by("gone"))
			w.HandleKind("gone", nil)
		})
		for _, want := range []string{"1 by kind", "2 by queue", "3 by queue", "4 by queue"} {
			if got := <-ran; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if e := r.ended(); e.Kind != Completed {
				t.Errorf("got %+v", e)
			}
		}
	})
}

// TestATaskOfAnotherKindIsGivenBack: it is ready at once, without using an attempt, and keeps
// away from this worker; where it comes all the same it is put off, each time for longer.
func TestATaskOfAnotherKindIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for range 3 {
			q.add(30, 1)
		}
		q.add(30, 2)
		q.kinds("other", "other", "other", "send")
		r := start(t, q, Config{Queues: []string{"q"}, Name: "me"}, nil, func(w *Worker) {
			w.HandleKind("send", func(context.Context, *Task) error { return nil })
		})
		for range 3 {
			if e := r.ended(); e.Kind != Snoozed {
				t.Errorf("got %+v", e)
			}
		}
		if e := r.ended(); e.Kind != Completed || e.Task.ID()[0] != 2 {
			t.Errorf("got %+v", e)
		}
		var waits, aways []time.Duration
		for _, f := range q.failures {
			waits, aways = append(waits, proto.Seconds(f.GetRetryInSeconds())), append(aways, proto.Seconds(f.GetKeepAwaySeconds()))
			if !f.GetUncounted() || f.GetDiscard() || !strings.Contains(f.GetError(), `worker me has no handler for tasks of kind "other" in queue q`) {
				t.Errorf("failed with %v", f)
			}
		}
		if want := []time.Duration{1, firstOff, 2 * firstOff}; !slices.Equal(waits, want) {
			t.Errorf("put off by %v, want %v", waits, want)
		}
		if want := []time.Duration{firstAway, 2 * firstAway, 4 * firstAway}; !slices.Equal(aways, want) {
			t.Errorf("kept away for %v, want %v", aways, want)
		}
	})
}

// TestWithoutHandlersByKindNothingIsPutOff: a queue without a handler fails its tasks as ever.
func TestWithoutHandlersByKindNothingIsPutOff(t *testing.T) {
	w := New(nil, Config{})
	if err := unhandled(w, taskOf("q")); steers(err) {
		t.Errorf("it is put off: %v", err)
	}
}

// TestWhatIsPutOffIsBounded: of many tasks only so many are remembered, the log tells of each
// kind once a minute, and no pause is over its limit.
func TestWhatIsPutOffIsBounded(t *testing.T) {
	var a away
	now := time.Unix(0, 0)
	told := 0
	for i := range 2 * maxAwayTasks {
		one, tell := a.comes(id.ID{byte(i), byte(i >> 8), 1}, fmt.Sprint("kind ", i), now)
		if one.away != firstAway || i < maxAwayTasks && one.off != 0 || i >= maxAwayTasks && one.off != maxOff {
			t.Fatalf("task %d: %+v", i, one)
		}
		if tell {
			told++
		}
	}
	if len(a.tasks) != maxAwayTasks || len(a.told) != maxAwayKinds || told != maxAwayKinds {
		t.Errorf("%d tasks, %d kinds, told %d times", len(a.tasks), len(a.told), told)
	}
	for range 20 {
		if one, tell := a.comes(id.ID{0, 0, 1}, "kind 0", now); one.off > maxOff || one.away > maxAway || tell {
			t.Fatalf("%+v, told: %v", one, tell)
		}
	}
	if _, tell := a.comes(id.ID{0, 0, 1}, "kind 0", now.Add(awayTold)); !tell {
		t.Error("a minute later nothing is told")
	}
	if one, _ := a.comes(id.ID{9, 9, 9}, "late", now.Add(3*maxAway)); one.away != firstAway || one.off != 0 || len(a.tasks) > 2 {
		t.Errorf("%+v, and %d tasks are remembered", one, len(a.tasks))
	}
}
