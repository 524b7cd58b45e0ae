package cron

import (
	"testing"
	"time"
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
