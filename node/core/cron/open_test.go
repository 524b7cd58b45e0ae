package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// pause pauses a schedule.
func (w *world) pause(name string) {
	w.t.Helper()
	edit, err := w.editor().Pause(name, w.state.Schedules.Get(name), 0, &nornv1.PauseSchedule{Paused: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
}

// refused is an answer of a partition that has no majority.
func refused(effect nornv1.Effect) *proto.Error {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	e.Effect = effect
	return e
}

// TestAPauseEndsAnOpenLaunch: its task could not be enqueued before the schedule was paused,
// and is not afterwards, by this master or another. Where an attempt may have made it the
// history says so, and where it has, the launch is one as any other.
func TestAPauseEndsAnOpenLaunch(t *testing.T) {
	const none, unknown = nornv1.Effect_EFFECT_NONE, nornv1.Effect_EFFECT_UNKNOWN
	const running, notEnqueued = nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING, nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED
	const paused = "the schedule was paused before the task was enqueued"
	for _, tc := range []struct {
		what    string
		effect  nornv1.Effect
		made    bool // all the same
		succeed bool
		finds   int
		status  nornv1.LaunchStatus
		note    string
	}{
		{"not made", none, false, false, 0, notEnqueued, paused},
		{"unclear", unknown, false, false, 1, notEnqueued, "in doubt: " + paused},
		{"of another master", none, false, true, 1, notEnqueued, "in doubt: " + paused},
		{"made", unknown, true, false, 1, running, ""},
		{"made by another master", none, true, true, 1, running, ""},
	} {
		w := newWorld(t)
		w.put("a", spec("0 * * * * *"))
		w.turn()
		w.refuse, w.made = refused(tc.effect), tc.made
		w.pass(65 * time.Second)
		w.pause("a")
		if w.refuse = nil; tc.succeed {
			w.succeed()
		}
		w.pass(5 * time.Second)
		if last := w.show("a").GetLast(); last.GetStatus() != tc.status || last.GetNote() != tc.note || w.finds != tc.finds || !tc.made && len(w.tasks) != 0 {
			t.Errorf("%s: %d tasks, %d looks, %v", tc.what, len(w.tasks), w.finds, last)
		}
	}
}

// TestAnOpenLaunchGrowsTooOld: all nodes are down for hours between its begin and the enqueue.
// Within the window its task is made by who comes then, beyond window or deadline it is not.
func TestAnOpenLaunchGrowsTooOld(t *testing.T) {
	for _, tc := range []struct {
		window, deadline, after time.Duration
		made                    bool
	}{
		{6 * time.Hour, 0, 5 * time.Hour, true},
		{time.Hour, 0, 5 * time.Hour, false},
		{6 * time.Hour, 10 * time.Minute, 5 * time.Hour, false},
		{6 * time.Hour, 10 * time.Minute, 9 * time.Minute, true},
		{6 * time.Hour, time.Second, 40 * time.Second, true}, // a new master takes a while
	} {
		w := newWorld(t)
		s := spec("0 0 * * *")
		s.CatchUpWindowSeconds, s.DeadlineSeconds = tc.window.Seconds(), tc.deadline.Seconds()
		w.put("a", s)
		w.turn()
		w.refuse = refused(nornv1.Effect_EFFECT_NONE)
		w.pass(24 * time.Hour)
		if n := w.show("a").GetLaunches(); n != 1 {
			t.Fatalf("%d launches", n)
		}
		w.refuse, w.now = nil, w.now.Add(tc.after)
		w.succeed()
		w.pass(5 * time.Second)
		last := w.show("a").GetLast()
		if made := last.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING; made != tc.made || len(w.tasks) == 1 != tc.made {
			t.Errorf("window %v, deadline %v, %v later: %d tasks, %v", tc.window, tc.deadline, tc.after, len(w.tasks), last)
		}
	}
}

// TestAPauseCancelsNoTask: the launch that was to take the place of a task is not made any
// more, so the task stays.
func TestAPauseCancelsNoTask(t *testing.T) {
	w := newWorld(t)
	s := spec("0 * * * * *")
	s.Overlap = nornv1.Overlap_OVERLAP_REPLACE
	w.put("a", s)
	w.pass(61 * time.Second)
	w.noCancel = refused(nornv1.Effect_EFFECT_NONE)
	w.pass(63 * time.Second)
	tries := len(w.cancels)
	w.pause("a")
	w.noCancel = nil
	w.pass(5 * time.Second)
	if last := w.show("a").GetLast(); tries == 0 || len(w.cancels) != tries || len(w.tasks) != 1 || last.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED {
		t.Errorf("%d cancels before the pause, %d in all, %d tasks, %v", tries, len(w.cancels), len(w.tasks), last)
	}
}

// TestARefusalOfWhatIsThere: an attempt without an answer has made the task, and the next one
// comes to a node that has not heard of it, and refuses it for good.
func TestARefusalOfWhatIsThere(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	w.turn()
	w.refuse, w.made = refused(nornv1.Effect_EFFECT_UNKNOWN), true
	w.pass(60 * time.Second)
	w.refuse = proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, "too late by my clock")
	w.pass(5 * time.Second)
	if last := w.show("a").GetLast(); last.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING {
		t.Errorf("%v", last)
	}
}

// TestALookThatNobodyAnswers is tried for a while; then the launch ends in doubt.
func TestALookThatNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	w.turn()
	w.refuse, w.unheard = refused(nornv1.Effect_EFFECT_UNKNOWN), refused(nornv1.Effect_EFFECT_NONE)
	w.pass(60 * time.Second)
	w.pause("a")
	w.pass(patience - time.Second)
	if last := w.show("a").GetLast(); last.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_OPEN || w.finds < 10 {
		t.Errorf("after %d looks: %v", w.finds, last)
	}
	w.pass(5 * time.Second)
	if last := w.show("a").GetLast(); last.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED || last.GetNote()[:10] != "in doubt: " {
		t.Errorf("after %d looks: %v", w.finds, last)
	}
}

// TestLooksForOpenLaunchesAreBounded, and all come to their end.
func TestLooksForOpenLaunchesAreBounded(t *testing.T) {
	const n = 5 * maxFinds
	w := newWorld(t)
	w.fill(n, "0 * * * * *")
	w.turn()
	w.refuse, w.made = refused(nornv1.Effect_EFFECT_UNKNOWN), true
	w.pass(60 * time.Second)
	w.refuse, w.now = nil, w.now.Add(2*time.Hour)
	w.succeed()
	w.now = w.now.Add(time.Second)
	for range 5 { // of the mastership, and what is open
		out := w.machine.Work(w.now)
		for i := range out.Commits {
			w.machine.Committed(w.now, &out.Commits[i], w.apply(&out.Commits[i].Request))
		}
		if len(out.Finds) > 0 {
			if len(out.Finds) != maxFinds || len(w.machine.finds) != maxFinds {
				t.Fatalf("%d looks", len(out.Finds))
			}
			for _, f := range out.Finds {
				w.find(f)
			}
			break
		}
	}
	w.pass(5 * time.Second)
	if s := w.machine.Stats(w.now); w.finds != n || s.NotEnqueued != 0 || s.Running != 2*n {
		t.Errorf("%d looks, %+v", w.finds, s)
	}
}
