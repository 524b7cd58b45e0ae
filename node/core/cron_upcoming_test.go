package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// next are the instants of a schedule that are asked for, as text.
func next(all []*nornv1.Occurrence) string {
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintf(&b, "%s %s%s (%s)\n", o.GetAt().AsTime().Format(time.RFC3339), o.GetLocal(), o.GetOffset(), o.GetNote())
	}
	return b.String()
}

// TestUpcoming: the next instants of a schedule are told where they are asked for,
// within its bounds, also while it is paused, and of one that is only thought of.
func TestUpcoming(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron, s.TimeZone, s.Paused = "30 2 * * *", "Europe/Berlin", true
	s.End = timestamppb.New(time.Date(2035, 3, 27, 0, 0, 0, 0, time.UTC))
	r.change(put("nightly", s))
	ask := func(n uint32, from time.Time) []*nornv1.Occurrence {
		return must[*nornv1.SchedulesReply](r, &nornv1.SchedulesRequest{Names: []string{"nightly"}, Upcoming: n, UpcomingFrom: timestamppb.New(from)}).Schedules[0].GetUpcoming()
	}
	from := time.Date(2035, 3, 24, 1, 30, 0, 0, time.UTC) // an instant counts from itself on
	const want = `2035-03-24T01:30:00Z 2035-03-24T02:30:00+01:00 ()
2035-03-25T01:00:00Z 2035-03-25T03:00:00+02:00 (the offset was +01:00 before; the clock leaves out 02:30; this is the jump)
`
	if got := next(ask(2, from)); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := ask(9, from); len(got) != 3 {
		t.Errorf("up to the end there are:\n%s", next(got))
	}
	if got := r.schedule("nightly").GetUpcoming(); got != nil {
		t.Errorf("nobody asked for %v", got)
	}
	p := put("trial", &nornv1.ScheduleSpec{Cron: "@hourly", Task: s.GetTask()})
	p.GetPut().DryRun, p.GetPut().Upcoming = true, 3
	if got := r.change(p).GetSchedule().GetUpcoming(); len(got) != 3 || got[0].GetAt().AsTime().UnixNano() < r.now.Wall || got[2].GetAt().AsTime().Sub(got[0].GetAt().AsTime()) != 2*time.Hour {
		t.Errorf("of a specification:\n%s", next(got))
	}
	p.GetPut().Upcoming = 1001
	if res := r.ask(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{p}}); res.Err == nil || res.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("1,001: %v", res)
	}
	for _, m := range []*nornv1.SchedulesRequest{{Upcoming: 1001}, {Upcoming: 1, UpcomingFrom: &timestamppb.Timestamp{Seconds: 1 << 60}}} {
		if res := r.ask(m); res.Err == nil || res.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%v: %v", m, res)
		}
	}
}

// TestUpcomingIsBounded: an answer has no more than 10,000 instants; there are
// further pages.
func TestUpcomingIsBounded(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	for i := range 12 {
		r.change(put(fmt.Sprintf("s%02d", i), &nornv1.ScheduleSpec{Cron: "@hourly", Task: everySecond("q").GetTask()}))
	}
	m := must[*nornv1.SchedulesReply](r, &nornv1.SchedulesRequest{Upcoming: 1000})
	if len(m.GetSchedules()) != 10 || !m.GetMore() || len(m.GetSchedules()[9].GetUpcoming()) != 1000 {
		t.Errorf("%d, more %t", len(m.GetSchedules()), m.GetMore())
	}
	m = must[*nornv1.SchedulesReply](r, &nornv1.SchedulesRequest{Upcoming: 1000, After: m.GetSchedules()[9].GetName()})
	if len(m.GetSchedules()) != 2 || m.GetMore() {
		t.Errorf("then %d, more %t", len(m.GetSchedules()), m.GetMore())
	}
}

// TestByHandWithoutAnID: who brings no ID gets one, for a trigger and a backfill.
func TestByHandWithoutAnID(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron = "0 * * * *"
	r.change(put("hourly", s))
	trigger := func() string {
		res := r.change(&nornv1.ScheduleChange{Name: "hourly", Action: &nornv1.ScheduleChange_Trigger{Trigger: &nornv1.TriggerSchedule{}}})
		if res.GetError() != nil || len(res.GetTaskIds()) != 1 {
			t.Fatal(res)
		}
		return res.GetTaskIds()[0]
	}
	if a, b := trigger(), trigger(); a == b {
		t.Errorf("twice %s", a)
	}
	fill := r.backfill("hourly", 3*time.Hour)
	fill.GetBackfill().Seed = nil
	if res := r.change(fill); res.GetError() != nil || len(res.GetTaskIds()) != 3 {
		t.Error(res)
	}
	if n := len(r.tasks("q")); n != 5 {
		t.Errorf("%d tasks", n)
	}
}
