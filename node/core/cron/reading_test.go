package cron

import (
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// upcomingDays are the days of the next instants of a schedule from June 2026 on.
func (w *world) upcomingDays(name string) (days string) {
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for _, o := range Upcoming(w.zones, w.state.Schedules.Get(name), from, 4) {
		days += o.GetAt().AsTime().Format(" Mon02")
	}
	return days
}

// older stores a schedule as a build that knows only the first rules does.
func (w *world) older(name, cron string) {
	w.t.Helper()
	w.put(name, spec("0 9 * * *"))
	rec := w.state.Schedules.Get(name)
	l, err := load(w.zones, rec.Definition)
	if err != nil {
		w.t.Fatal(err)
	}
	l.wire.Spec.Cron, l.wire.Reading = cron, 0
	w.store(rec, l.wire)
}

func (w *world) store(rec *register.Schedule, d *nornv1.ScheduleDefinition) {
	w.t.Helper()
	b, err := gproto.Marshal(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{{Name: rec.Name, Old: rec.Revision, Definition: b}}})
}

// TestStoredSchedulesKeepTheirReading until they are set again, also by the same text.
func TestStoredSchedulesKeepTheirReading(t *testing.T) {
	const first, now = " Mon01 Tue02 Wed03 Thu04", " Mon01 Wed03 Fri05 Tue09"
	w := newWorld(t)
	w.older("a", "0 9 */2 * 1-5")
	if got := w.upcomingDays("a"); got != first {
		t.Fatalf("one of an older build is due on%s", got)
	}
	for _, paused := range []bool{true, false} {
		edit, err := w.editor().Pause("a", w.state.Schedules.Get("a"), 0, &nornv1.PauseSchedule{Paused: paused})
		if err != nil || edit.Change == nil || edit.Reread {
			t.Fatal(edit, err)
		}
		w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	}
	if got := w.upcomingDays("a"); got != first {
		t.Errorf("after a pause it is due on%s", got)
	}
	edit, err := w.editor().Put("a", w.state.Schedules.Get("a"), 0, &nornv1.PutSchedule{Spec: spec("0 9 */2 * 1-5")})
	if err != nil || edit.Change == nil || !edit.Reread {
		t.Fatalf("set again: %+v, %v", edit, err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	if got := w.upcomingDays("a"); got != now {
		t.Errorf("set again, it is due on%s", got)
	}
	w.older("b", "0 9 * * 1-5") // whose instants are the same by either
	if edit, err := w.editor().Put("b", w.state.Schedules.Get("b"), 0, &nornv1.PutSchedule{Spec: spec("0 9 * * 1-5")}); err != nil || edit.Change != nil {
		t.Errorf("set again without a difference: %+v, %v", edit, err)
	}
}

// TestOlderBuildsLaunchNothingThatTheyMisread: they find a specification only where their rules
// give its instants; this build likewise launches nothing by rules of a newer one.
func TestOlderBuildsLaunchNothingThatTheyMisread(t *testing.T) {
	w := newWorld(t)
	for text, apart := range map[string]bool{
		"0 9 */2 * 1-5": true, "0 9 L * *": true, "0 9 * * FRI#2": true, "0 9 15W * *": true, "0 9 1-31/2 * */2": true,
		"0 9 1 * MON": false, "*/5 * * * *": false, "@daily": false, "? 9 * * 1-5": false, "0 9 */2 * *": false, "CRON_TZ=Asia/Tokyo 0 9 * * 1": false,
	} {
		w.put("a", spec(text))
		d := &nornv1.ScheduleDefinition{}
		if err := gproto.Unmarshal(w.state.Schedules.Get("a").Definition, d); err != nil || (d.GetSpec() == nil) != apart || (d.GetSpecApart() != nil) != apart || d.GetReading() != 1 {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		if s := Show(w.zones, [16]byte{}, w.state.Schedules.Get("a"), w.now.Wall, false); s.GetProblem() != "" || s.GetSpec().GetCron() != text || s.GetReading() != 1 {
			t.Errorf("%s is shown as %v", text, s)
		}
	}
	rec := w.state.Schedules.Get("a")
	l, err := load(w.zones, rec.Definition)
	if err != nil {
		t.Fatal(err)
	}
	l.wire.Reading = 2
	w.store(rec, l.wire)
	if s := Show(w.zones, [16]byte{}, w.state.Schedules.Get("a"), w.now.Wall, false); !strings.Contains(s.GetProblem(), "by rules that this build does not know") {
		t.Errorf("of a newer build: %v", s)
	}
	w.pass(48 * time.Hour)
	if len(w.tasks) != 0 {
		t.Errorf("%d launches by rules that are not known", len(w.tasks))
	}
}

// TestWarningsOfASchedule are in each answer, and what ? has become.
func TestWarningsOfASchedule(t *testing.T) {
	w := newWorld(t)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Unix(0, w.now.Wall).Add(d)) }
	for _, tc := range []struct {
		cron       string
		start, end time.Duration
		says       []string
	}{
		{"0 0 * * *", 0, 0, nil},
		{"? ? * * *", 0, 0, []string{"minute, hour: ?"}},
		{"0 10 * * ? *", 0, 0, []string{"EventBridge", "month: ?"}},
		{"0 0 30 * SAT", 0, 0, []string{"either"}},
		{"0 0 1 1 *", 0, 24 * time.Hour, []string{"before its first instant at 2027-01-01T00:00:00Z: nothing is launched"}},
		{"0 0 1 4 *", 32 * 24 * time.Hour, 40 * 24 * time.Hour, []string{"before its first instant at 2027-04-01T00:00:00Z"}},
		{"0 0 * * *", 0, -time.Hour, []string{"before its first instant"}},
		{"0 0 * * *", 0, 48 * time.Hour, nil},
	} {
		s := spec(tc.cron)
		if tc.start != 0 {
			s.Start = at(tc.start)
		}
		if tc.end != 0 {
			s.End = at(tc.end)
		}
		w.put("a", s)
		shown := Show(w.zones, [16]byte{}, w.state.Schedules.Get("a"), w.now.Wall, false)
		got := shown.GetWarnings()
		for i := range max(len(got), len(tc.says)) {
			if i >= len(got) || i >= len(tc.says) || !strings.Contains(got[i], tc.says[i]) {
				t.Errorf("%s: %q, want %q", tc.cron, got, tc.says)
				break
			}
		}
		if r := shown.GetResolved(); (r != "") != strings.Contains(tc.cron, "?") || strings.Contains(r, "?") {
			t.Errorf("%s is resolved to %q", tc.cron, r)
		}
	}
}
