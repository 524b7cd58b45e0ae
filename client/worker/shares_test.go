package worker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// backlog adds n tasks to a queue; it returns the number after the last.
func (q *queue) backlog(queue string, from, n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := from; i < from+n; i++ {
		q.ready = append(q.ready, &nornv1.Grant{
			Task:  &nornv1.Task{Id: id.ID{1, byte(i >> 8), byte(i)}.String(), Queue: queue, Payload: fmt.Append(nil, i)},
			Token: uint64(i), LeaseSeconds: 30,
		})
	}
	q.change()
	return from + n
}

// Weights say how much of each queue is taken while both have tasks, whatever
// the order of arrival; who is alone gets everything.
func TestWeights(t *testing.T) {
	for _, slots := range []int{1, 8} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				next := q.backlog("low", 1, 200)
				q.backlog("high", next, 200)
				began := time.Now()
				r := start(t, q, Config{
					Queues: []string{"low", "high"}, Slots: slots, PerQueue: map[string]QueueConfig{"high": {Weight: 3}}, ExitWhenEmpty: true,
				}, nil, func(w *Worker) {
					w.Handle("*", func(context.Context, *Task) error { time.Sleep(time.Second); return nil })
				})
				count := map[string]int{}
				for range 200 {
					e := r.ended()
					count[e.Task.Queue()]++
				}
				if high := count["high"]; high < 145 || high > 155 {
					t.Errorf("of the first 200 tasks %v", count)
				}
				if err := <-r.ran; err != nil {
					t.Error(err)
				}
				if took, want := time.Since(began), 400/time.Duration(slots)*time.Second; took > want+want/10 {
					t.Errorf("took %v for what %d slots can do in %v", took, slots, want)
				}
			})
		})
	}
}

// A queue with few slots never has more, and does not hold up the others.
func TestSlotsOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		next := q.backlog("heavy", 1, 6)
		running, most := make(chan string, 100), map[string]int{}
		r := start(t, q, Config{Queues: []string{"heavy", "light"}, Slots: 4, PerQueue: map[string]QueueConfig{"heavy": {Slots: 2}}}, nil, func(w *Worker) {
			w.Handle("heavy", func(context.Context, *Task) error {
				running <- "heavy"
				defer func() { <-running }()
				time.Sleep(10 * time.Second)
				return nil
			})
			w.Handle("light", func(context.Context, *Task) error { return nil })
		})
		time.Sleep(time.Second)
		most["heavy"] = len(running)
		began := time.Now()
		q.backlog("light", next, 20)
		for range 20 {
			if e := r.ended(); e.Task.Queue() != "light" || e.Kind != Completed {
				t.Errorf("got %+v", e)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("light tasks took %v", took)
		}
		for range 6 {
			most["heavy"] = max(most["heavy"], len(running))
			if e := r.ended(); e.Task.Queue() != "heavy" {
				t.Errorf("got %+v", e)
			}
		}
		// Six of ten seconds, two at a time: none waited for a long poll of the others.
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("heavy tasks took %v", took)
		}
		if most["heavy"] != 2 {
			t.Errorf("%d heavy tasks ran at once", most["heavy"])
		}
	})
}

// What was granted to a wait that was broken off is not lost.
func TestAWaitThatIsBrokenOffLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				// The long wait, for "b" alone, is granted a task that nobody hears of.
				if m, ok := r.Message.(*nornv1.ClaimRequest); ok && m.GetWaitSeconds() > 0 && len(m.GetQueues()) == 1 {
					q.claim(m)
					return &fakenode.Answer{Lose: true}
				}
				return nil
			}
		})
		next := q.backlog("a", 1, 1)
		r := start(t, q, Config{Queues: []string{"a", "b"}, Slots: 2, PerQueue: map[string]QueueConfig{"a": {Slots: 1}}}, nil, func(w *Worker) {
			w.Handle("*", func(_ context.Context, task *Task) error {
				if task.Queue() == "a" {
					time.Sleep(5 * time.Second)
				}
				return nil
			})
		})
		time.Sleep(time.Second)
		q.backlog("b", next, 1)
		for _, want := range []string{"a", "b"} {
			if e := r.ended(); e.Kind != Completed || e.Task.Queue() != want {
				t.Errorf("got %+v", e)
			}
		}
		if n := len(q.log()); n != 2 {
			t.Errorf("heard %v", q.log())
		}
	})
}

func TestLedger(t *testing.T) {
	l := newLedger(Config{Slots: 3, Prefetch: 1, PerQueue: map[string]QueueConfig{"a": {Slots: 1}, "b": {Weight: 7}}}, []string{"b", "a"})
	d, freed, opened := l.demand(time.Second)
	want := []appetite{{Queue: "b", Room: 4, Weight: 7}, {Queue: "a", Room: 1, Weight: 1}}
	if d.room != 4 || d.wait != time.Second || !slices.Equal(d.queues, want) {
		t.Errorf("demand %+v", d)
	}
	taken := map[string]int{}
	for _, q := range []string{"a", "a", "b", "b", "b", "b", "unknown"} {
		if l.take(q) {
			taken[q]++
		}
	}
	if !maps.Equal(taken, map[string]int{"a": 1, "b": 3}) {
		t.Errorf("took %v", taken)
	}
	if d, _, _ := l.demand(0); len(d.queues) != 0 || d.room != 0 {
		t.Errorf("demand %+v", d)
	}
	l.give("b")
	<-freed
	select {
	case <-opened:
		t.Error("no queue has room again")
	default:
	}
	l.give("a")
	<-opened
	if held, _ := l.left(); held != 2 {
		t.Errorf("%d are held", held)
	}
}

func TestConfigIsChecked(t *testing.T) {
	many := make([]string, MaxQueues+1)
	for i := range many {
		many[i] = fmt.Sprint("q", i)
	}
	nothing := func(context.Context, *Task) error { return nil }
	for name, cfg := range map[string]Config{
		"queues":       {Queues: many},
		"slots":        {Queues: []string{"q"}, Slots: MaxSlots, Prefetch: 1},
		"all slots":    {Queues: []string{"q"}, Slots: math.MaxInt, Prefetch: 1},
		"other queue":  {Queues: []string{"q"}, PerQueue: map[string]QueueConfig{"r": {Slots: 1}}},
		"few slots":    {Queues: []string{"q"}, PerQueue: map[string]QueueConfig{"q": {Slots: -1}}},
		"low weight":   {Queues: []string{"q"}, PerQueue: map[string]QueueConfig{"q": {Weight: -1}}},
		"no lease":     {Queues: []string{"q"}, Lease: -time.Second},
		"heavy weight": {Queues: []string{"q"}, PerQueue: map[string]QueueConfig{"q": {Weight: MaxWeight + 1}}},
	} {
		w := New((*client.Client)(nil), cfg)
		w.Handle("*", nothing)
		if err := w.Run(t.Context()); err == nil {
			t.Errorf("%s: it runs", name)
		} else {
			wantIs(t, err, ErrNotRunnable)
		}
	}
}
