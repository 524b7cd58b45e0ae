package cron

import (
	"testing"

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
