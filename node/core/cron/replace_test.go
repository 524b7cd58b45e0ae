package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestReplaceWaitsForTheCancel: the task before is cancelled before the next one is
// enqueued, also if nobody could be reached at first; after a while, or where it
// cannot be cancelled, the next one is enqueued all the same.
func TestReplaceWaitsForTheCancel(t *testing.T) {
	unavailable := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	for _, tc := range []struct {
		name     string
		err      *proto.Error
		lasts    time.Duration
		beside   bool // the next one is there before the cancel has had its effect
		attempts int
	}{
		{"done", nil, 0, false, 1},
		{"out of reach for a while", unavailable, 3 * time.Second, false, 0},
		{"out of reach for long", unavailable, time.Minute, true, 0},
		{"forgotten", proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "no such task"), time.Minute, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			s := spec("@every 5m")
			s.Overlap = nornv1.Overlap_OVERLAP_REPLACE
			w.put("a", s)
			w.pass(5 * time.Minute)
			if len(w.tasks) != 1 {
				t.Fatalf("%d tasks", len(w.tasks))
			}
			first := id.ID{}
			for first = range w.tasks {
			}
			w.noCancel = tc.err
			w.pass(5*time.Minute + tc.lasts - time.Second)
			if got := len(w.tasks) == 2; tc.lasts > 0 && got != tc.beside {
				t.Errorf("the next one is enqueued: %v", got)
			}
			w.noCancel = nil
			w.pass(10 * time.Second)
			if len(w.tasks) != 2 || w.cancels[0] != first || tc.attempts > 0 && len(w.cancels) != tc.attempts {
				t.Errorf("%d tasks, cancelled %v", len(w.tasks), w.cancels)
			}
			if s := w.show("a"); s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING || s.GetLaunches() != 2 {
				t.Errorf("%v", s)
			}
		})
	}
}

// TestPatienceIsForOneLaunch: a schedule is made anew while the task of a launch
// cannot be enqueued. Its own launches are tried as long as any others.
func TestPatienceIsForOneLaunch(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	w.turn()
	w.refuse = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	w.pass(80 * time.Second) // at 0:00:00.5; the launch of 0:01:00 is tried for 20 s
	w.remove("a")
	w.put("a", spec("0 * * * * *"))
	w.pass(50 * time.Second) // that of 0:02:00 is tried for 10 s
	if s := w.show("a"); s.GetLaunches() != 1 || s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_OPEN {
		t.Errorf("given up early: %v", s)
	}
	w.refuse = nil
	w.pass(5 * time.Second)
	if s := w.show("a"); s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING {
		t.Errorf("%v", s)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	edit, err := w.editor().Delete(name, w.state.Schedules.Get(name), 0, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
}

// TestPatienceIsOfOneMaster: the register has no leader for a while, and then the same
// one as before: it tries what is open as long as any other master would.
func TestPatienceIsOfOneMaster(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	w.turn()
	w.refuse = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	w.pass(65 * time.Second) // the launch of 0:01:00 is tried for five seconds
	w.machine.Lead(w.now, false)
	w.pass(40 * time.Second)
	w.machine.Lead(w.now, true)
	w.pass(5 * time.Second)
	if s := w.show("a"); s.GetLaunches() != 1 || s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_OPEN {
		t.Errorf("given up early: %v", s)
	}
	w.refuse = nil
	w.pass(5 * time.Second)
	if s := w.show("a"); s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING {
		t.Errorf("%v", s)
	}
}
