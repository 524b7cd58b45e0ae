package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
)

// TestALaunchThatTheHistoryForgotIsAsLate as it was: the jitter is no lateness.
func TestALaunchThatTheHistoryForgotIsAsLate(t *testing.T) {
	w := newWorld(t)
	s := spec("0 * * * * *")
	s.JitterSeconds = 30
	w.put("a", s)
	w.pass(2 * time.Minute)
	rec := w.state.Schedules.Get("a")
	l, err := load(w.zones, rec.Definition)
	if err != nil || l.policy.Offset() == 0 {
		t.Fatal(err, l.policy.Offset())
	}
	r, err := decode(rec.State)
	if err != nil || r.policy.Launches == 0 {
		t.Fatal(err, r)
	}
	r.policy.Last.Begun = r.policy.Last.Instant + int64(l.policy.Offset()+7*time.Second)
	r.history = nil
	shown := Show(w.zones, [16]byte{}, &register.Schedule{Name: "a", Definition: rec.Definition, State: r.encode()}, w.now.Wall, false)
	if got := shown.GetLast().GetLateSeconds(); got != 7 {
		t.Errorf("it was 7 s late, and is said to have been %v s", got)
	}
}
