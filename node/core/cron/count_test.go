package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// TestDeletedSchedulesAreNotCounted: what is kept of a deleted schedule, for an hour, is none
// for whoever watches how many there are, on the master and on those that follow.
func TestDeletedSchedulesAreNotCounted(t *testing.T) {
	w := newWorld(t)
	count := func(want int) {
		t.Helper()
		w.pass(time.Second)
		if n := w.machine.Stats(w.now).Schedules; n != want {
			t.Errorf("%d schedules, not %d", n, want)
		}
	}
	w.put("a", spec("* * * * *"))
	w.put("b", spec("* * * * *"))
	count(2)
	w.remove("a")
	count(1)
	w.put("a", spec("0 * * * *")) // another one of its name
	count(2)
	w.remove("a")
	w.remove("b")
	w.succeed() // who has never known them
	count(0)
	w.pass(forget + time.Minute)
	if n := w.state.Schedules.Len(); n > 0 {
		t.Errorf("%d are still kept", n)
	}
	count(0)
}

// TestAnEndHidesNoLateLaunch: the register is slow, so that a launch is late. That the end of
// another task is to be noted before it does not make it on time.
func TestAnEndHidesNoLateLaunch(t *testing.T) {
	w := newWorld(t)
	for name, cron := range map[string]string{"a": "0 * * * * *", "b": "1 * * * * *", "late": "3 * * * * *", "runs": "55 * * * * *"} {
		w.put(name, spec(cron))
	}
	w.pass(119 * time.Second)
	var runs id.ID
	for task := range w.machine.watch.of {
		if w.machine.watch.of[task].it.name == "runs" {
			runs = task
		}
	}
	for range 50 { // no commit is answered
		w.now = w.now.Add(time.Second)
		w.machine.Work(w.now)
	}
	if at := w.machine.Stats(w.now).Overdue; at < 40*time.Second {
		t.Fatalf("%s late", at)
	}
	w.machine.Finished(w.now, runs, crdt.StateCompleted)
	if at := w.machine.Stats(w.now).Overdue; at < 40*time.Second {
		t.Errorf("%s late, once another task has ended", at)
	}
}
