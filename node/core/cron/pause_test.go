package cron

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestAPauseWithoutANoteKeepsTheNote: somebody else has said why. A resumption takes it away.
func TestAPauseWithoutANoteKeepsTheNote(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	for _, step := range []struct {
		pause *nornv1.PauseSchedule
		want  string
	}{
		{&nornv1.PauseSchedule{Paused: true, Note: "incident 12"}, "incident 12"},
		{&nornv1.PauseSchedule{Paused: true}, "incident 12"},
		{&nornv1.PauseSchedule{Paused: true, Note: "incident 13"}, "incident 13"},
		{&nornv1.PauseSchedule{}, ""},
		{&nornv1.PauseSchedule{Paused: true}, ""},
	} {
		edit, err := w.editor().Pause("a", w.state.Schedules.Get("a"), 0, step.pause)
		if err != nil {
			t.Fatal(err)
		}
		if edit.Change != nil {
			w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
		}
		if got := w.show("a").GetSpec(); got.GetNote() != step.want || got.GetPaused() != step.pause.GetPaused() {
			t.Errorf("after %v: %v", step.pause, got)
		}
	}
}

// TestALaunchNeedsItsMakersRight: without it the schedule pauses itself, and says why; nothing is
// launched from then on. Who resumes it answers for it. One that nobody in particular has made
// goes on.
func TestALaunchNeedsItsMakersRight(t *testing.T) {
	w := newWorld(t)
	w.maker = &nornv1.ScheduleMaker{Name: "ci", Token: "7f3a"}
	w.put("theirs", spec("0 * * * * *"))
	w.maker = nil
	w.put("ours", spec("30 * * * * *"))
	w.pass(2 * time.Minute)
	before := w.show("theirs")
	if before.Launches < 1 || before.MadeBy != "ci" || w.show("ours").MadeBy != "" {
		t.Fatalf("it was launched %d times, made by %q", before.Launches, before.MadeBy)
	}
	w.barred = "token ci (ID 7f3a), with which it was made, was revoked"
	w.pass(5 * time.Minute)
	after := w.show("theirs")
	if !after.Spec.Paused || after.Spec.Note != "paused because "+w.barred || after.Launches != before.Launches {
		t.Errorf("without the right: paused %v, %q, launched %d times after %d", after.Spec.Paused, after.Spec.Note, after.Launches, before.Launches)
	}
	if n := w.show("ours").Launches; n < 6 {
		t.Errorf("the other one was launched %d times in seven minutes", n)
	}
	w.barred = ""
	w.maker = &nornv1.ScheduleMaker{Name: "ann", Token: "1111"}
	edit, err := w.editor().Pause("theirs", w.state.Schedules.Get("theirs"), 0, &nornv1.PauseSchedule{})
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	w.pass(2 * time.Minute)
	if s := w.show("theirs"); s.MadeBy != "ann" || s.Launches <= after.Launches {
		t.Errorf("resumed it is made by %q and was launched %d times after %d", s.MadeBy, s.Launches, after.Launches)
	}
}
