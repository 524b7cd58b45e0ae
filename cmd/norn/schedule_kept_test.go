package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type launchJSON struct {
	Kind, Status, Reason, Note string
	TaskID                     string `json:"task_id"`
	Instant                    time.Time
	Count                      int
}

type scheduleJSON struct {
	Name, UUID, Version, Launches, Skipped, Failed string
	Spec                                           struct {
		Cron, Overlap, Note string
		TimeZone            string `json:"time_zone"`
		Paused              bool
		Task                struct{ Queue, Payload string }
	}
	Last    *launchJSON
	Next    *time.Time
	History []launchJSON
	Running int
}

// becomes asks about a schedule until it is as it is to be.
func becomes(t *testing.T, name string, is func(*scheduleJSON) bool) scheduleJSON {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		s := decode[scheduleJSON](t, "schedule", "get", name)
		if is(&s) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("it never comes to that: %+v", s)
		}
	}
}

// TestScheduleLaunches: a schedule that is made launches tasks that a worker
// takes, and its history says what became of them.
func TestScheduleLaunches(t *testing.T) {
	beside(t)
	name, queue := "kept/launches", "kept-launches"
	made := decode[scheduleJSON](t, "schedule", "set", name, "--cron", "* * * * * *", "-q", queue, "hello", "--history", "100")
	if made.Version != "1" || made.Spec.Task.Queue != queue || made.Next == nil {
		t.Fatalf("%+v", made)
	}
	becomes(t, name, func(s *scheduleJSON) bool { return s.Launches >= "2" })
	task := decode[[]struct {
		Task struct {
			ID      string
			Headers map[string]string
		}
		Token string
	}](t, "task", "claim", "-q", queue, "--wait", "10s")[0]
	if task.Task.Headers["norn-schedule"] != name || task.Task.Headers["norn-instant"] == "" {
		t.Errorf("%+v", task)
	}
	ok(t, "task", "complete", task.Task.ID, task.Token)
	done := becomes(t, name, func(s *scheduleJSON) bool {
		for _, l := range s.History {
			if l.TaskID == task.Task.ID && l.Status == "completed" {
				return true
			}
		}
		return false
	})
	seen := map[time.Time]bool{}
	for _, l := range done.History {
		if l.Kind == "launch" && seen[l.Instant] {
			t.Errorf("%s is there twice", l.Instant)
		}
		seen[l.Instant] = true
	}
	if table := ok(t, "schedule", "list"); !strings.Contains(table, name) {
		t.Errorf("the list: %s", table)
	}
	if sheet := ok(t, "schedule", "get", name); !strings.Contains(sheet, "completed") || !strings.Contains(sheet, task.Task.ID) {
		t.Errorf("the sheet: %s", sheet)
	}
	paused := decode[scheduleJSON](t, "schedule", "pause", name, "--note", "for lunch")
	if !paused.Spec.Paused || paused.Spec.Note != "for lunch" || paused.Next != nil {
		t.Errorf("%+v", paused)
	}
	ok(t, "schedule", "delete", name)
	refused(t, 3, "there is no schedule", "schedule", "get", name)
	refused(t, 3, "there is no schedule", "schedule", "delete", name)
}

// TestScheduleByHand: set changes what is said, trigger and backfill make tasks.
func TestScheduleByHand(t *testing.T) {
	name := "kept-by-hand"
	ok(t, "schedule", "set", name, "--cron", "0 12 1 1 *", "--tz", "Europe/Berlin", "-q", "kept-by-hand", "one")
	s := decode[scheduleJSON](t, "schedule", "set", name, "--overlap", "queue-one")
	if s.Version != "2" || s.Spec.Cron != "0 12 1 1 *" || s.Spec.TimeZone != "Europe/Berlin" || s.Spec.Overlap != "queue_one" {
		t.Errorf("%+v", s)
	}
	refused(t, 5, "there already", "schedule", "set", name, "--cron", "@daily", "-q", "q", "--create")
	if dry := ok(t, "schedule", "set", name, "--cron", "@daily", "--dry-run"); !strings.Contains(dry, "+ cron: @daily") {
		t.Errorf("a dry run: %s", dry)
	}
	task := strings.TrimSpace(ok(t, "schedule", "trigger", name))
	if r := norn(t, "schedule", "backfill", name, "--from", "2024-01-01", "--to", "2026-01-02", "--dry-run"); r.code != 0 || !strings.Contains(r.err, "3 instants") {
		t.Errorf("%+v", r)
	}
	if n := decode[struct{ Instants int }](t, "schedule", "backfill", name, "--from", "2024-01-01", "--to", "2026-01-02", "--dry-run").Instants; n != 3 {
		t.Errorf("%d instants", n)
	}
	refused(t, 2, `norn: --to: "soon" is not a time`, "schedule", "backfill", name, "--from", "2024-01-01", "--to", "soon")
	if filled := strings.Fields(ok(t, "schedule", "backfill", name, "--from", "2024-01-01", "--to", "2026-01-02")); len(filled) != 3 {
		t.Errorf("%q", filled)
	}
	history := decode[[]launchJSON](t, "schedule", "history", name)
	if len(history) != 4 || history[3].Kind != "trigger" || history[3].TaskID != task || history[0].Kind != "backfill" || history[0].Instant.Year() != 2026 {
		t.Errorf("%+v", history)
	}
	if got := decode[[]occurrenceJSON](t, "schedule", "next", name, "--from", "2026-06-01", "-n", "1"); len(got) != 1 || got[0].Local != "2027-01-01T12:00:00" {
		t.Errorf("%+v", got)
	}
	ok(t, "schedule", "pause", name)
	if r := norn(t, "schedule", "next", name, "-n", "1"); r.code != 0 || !strings.Contains(r.err, "paused: nothing is launched until `norn schedule resume kept-by-hand`") {
		t.Errorf("instants of one that is paused: %+v", r)
	}
	refused(t, 2, "is in the future", "schedule", "backfill", name, "--from", "2024-01-01", "--to", "2200-01-01")
	refused(t, 2, "--from and --to are needed", "schedule", "backfill", name, "--from", "2024-01-01")
	refused(t, 2, "invalid schedule: catch-up window 5s is not from 10s", "schedule", "set", name, "--catch-up-window", "5s")
	refused(t, 2, "the file is missing", "schedule", "apply")
	ok(t, "schedule", "delete", name)
}

// TestScheduleSaysWhatItPicks: ? is a value here, and not * as elsewhere; who
// wrote it for another program is told.
func TestScheduleSaysWhatItPicks(t *testing.T) {
	name, days := "kept-picks", "one day is picked; if ? was to mean any day"
	for spec, warned := range map[string]bool{"0 0 12 ? * MON": true, "0 12 15 * ?": true, "? ? * * *": false, "0 0 12 * * ?": true, "0 12 ?(1-7) * *": false} {
		r := norn(t, "schedule", "set", name, "--cron", spec, "-q", "kept-picks")
		if r.code != 0 || !strings.Contains(r.err, "norn: ? is here: ") || strings.Contains(r.err, days) != warned {
			t.Errorf("%s: %+v", spec, r)
		}
	}
	if r := norn(t, "schedule", "set", name, "--cron", "0 12 * * *"); r.code != 0 || r.err != "" {
		t.Errorf("without one: %+v", r)
	}
	ok(t, "schedule", "delete", name)
}

// TestScheduleApplySaysWhatItPicks, as set does: of each schedule of a file in its
// line, but not before a UUID has chosen; and it warns once.
func TestScheduleApplySaysWhatItPicks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	text := "- {name: kept-p1, cron: '? ?(0-7) * * *', queue: kept}\n- {name: kept-p2, cron: '0 12 ? * MON', queue: kept}\n- {name: kept-p3, cron: '0 1 * * *', queue: kept}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if dry := norn(t, "schedule", "apply", "-f", file, "--dry-run"); strings.Contains(dry.out, "? is here") || !strings.Contains(dry.err, "kept-p2: one day is picked") {
		t.Errorf("a dry run knows no UUID yet: %+v", dry)
	}
	made := norn(t, "schedule", "apply", "-f", file)
	if strings.Count(made.out, "? is here: ") != 2 || strings.Count(made.err, "one day is picked") != 1 || !strings.Contains(made.err, "kept-p1: minute: ? picks one value") {
		t.Errorf("%+v", made)
	}
	got := decode[[]struct{ Name, Resolved, Result string }](t, "schedule", "apply", "-f", file)
	if len(got) != 3 || got[0].Result != "unchanged" || got[2].Resolved != "" || !strings.HasSuffix(got[0].Resolved, " * * *") || strings.Contains(got[0].Resolved, "?") {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(made.out, "? is here: "+got[0].Resolved) {
		t.Errorf("%s is not said in %s", got[0].Resolved, made.out)
	}
	if sheet := ok(t, "schedule", "get", "kept-p1"); !strings.Contains(sheet, got[0].Resolved) {
		t.Errorf("the sheet: %s", sheet)
	}
	r := norn(t, "schedule", "delete", "kept-p1", "kept-gone", "kept-p2", "kept-p3")
	if r.code != 3 || r.out != "DELETED\nkept-p1\nkept-p2\nkept-p3\n" || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "there is no schedule kept-gone") {
		t.Errorf("%+v", r)
	}
}

// TestScheduleWarnings are told by set, apply and next, and are in what programs read.
func TestScheduleWarnings(t *testing.T) {
	const name = "kept/warned"
	file := filepath.Join(t.TempDir(), "s.yaml")
	for spec, want := range map[string]string{
		"0 10 * * ? *": "looks like a line of EventBridge", "0 0 12 ? * MON": "looks like a line of Quartz", "? 3 * * *": "minute: ? picks one value",
		"0 0 30 * SAT": "either day-of-month or day-of-week",
	} {
		if err := os.WriteFile(file, []byte("{name: "+name+", cron: '"+spec+"', queue: kept}"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"next", "--cron", spec, "-n", "1"}, {"apply", "-f", file, "--dry-run"}, {"apply", "-f", file}, {"next", name, "-n", "1"}, {"set", name, "--cron", spec},
		} {
			if r := norn(t, append([]string{"schedule"}, args...)...); r.code != 0 || !strings.Contains(r.err, want) {
				t.Errorf("%s: %q says %s", spec, args, r.err)
			}
		}
		if s := decode[struct{ Warnings []string }](t, "schedule", "get", name); !strings.Contains(strings.Join(s.Warnings, " "), want) {
			t.Errorf("%s: %q", spec, s.Warnings)
		}
	}
	if r := norn(t, "schedule", "set", name, "--cron", "0 0 1 1 *", "--end", "2026-01-01"); r.code != 0 || !strings.Contains(r.err, "before its first instant") {
		t.Errorf("an end before the first instant: %+v", r)
	}
	ok(t, "schedule", "delete", name)
}

// TestScheduleApply: a file is applied as a whole, tells what differs, and does
// not resume what somebody has paused.
func TestScheduleApply(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("schedules:\n  - name: kept-a\n    cron: '0 3 * * *'\n    tz: Europe/Berlin\n    queue: kept\n    payload: '{\"a\":1}'\n    headers: {team: x}\n  - name: kept-b\n    cron: '@hourly'\n    queue: kept\n    catch_up: all\n")
	if dry := ok(t, "schedule", "apply", "-f", file, "--dry-run"); !strings.Contains(dry, "created (dry run)") {
		t.Errorf("%s", dry)
	}
	refused(t, 3, "there is no schedule", "schedule", "get", "kept-a")
	type resultJSON struct {
		Name, Result string
		Diff         []string
	}
	got := decode[[]resultJSON](t, "schedule", "apply", "-f", file)
	if len(got) != 2 || got[0].Result != "created" || got[1].Result != "created" {
		t.Fatalf("%+v", got)
	}
	ok(t, "schedule", "pause", "kept-a", "--note", "wait")
	write("name: kept-a\ncron: '0 4 * * *'\ntz: Europe/Berlin\nqueue: kept\npayload: '{\"a\":1}'\nheaders: {team: x}\n---\nname: kept-b\ncron: '@hourly'\nqueue: kept\ncatch-up: all\n")
	got = decode[[]resultJSON](t, "schedule", "apply", "-f", file)
	if got[0].Result != "changed" || strings.Join(got[0].Diff, "|") != "- cron: 0 3 * * *|+ cron: 0 4 * * *" || got[1].Result != "unchanged" {
		t.Errorf("%+v", got)
	}
	if s := decode[scheduleJSON](t, "schedule", "get", "kept-a"); !s.Spec.Paused || s.Spec.Note != "wait" {
		t.Errorf("it is resumed: %+v", s)
	}
	for text, want := range map[string]string{
		"name: kept-a\ncron: '61 * * * *'\nqueue: kept\n":                "minute field",
		"name: kept-a\ncron: '@daily'\n":                                 "has no queue",
		"name: kept-a\nqueue: kept\n":                                    "has no cron",
		"- name: kept-a\n  cron: '@daily'\n  queue: kept\n  que: x\n":    "unknown key \"que\"",
		"- name: kept-a\n  cron: '@daily'\n  queue: kept\n  jitter: x\n": "not a duration",
		"schedules: 5\n": "expected a list",
		"":               "no schedule in it",
		"- {name: x, cron: '@daily', queue: q}\n- {name: x, cron: '@daily', queue: q}\n": "there already, in line 1",
	} {
		write(text)
		refused(t, 2, want, "schedule", "apply", "-f", file)
	}
	ok(t, "schedule", "delete", "kept-a", "kept-b")
	// What only the server knows to be wrong is found before anything is changed, too.
	write("- {name: kept-a, cron: '@daily', queue: kept}\n- {name: kept-b, cron: '@daily', queue: kept, jitter: 48h}\n")
	r := refused(t, 2, "1 of 2 schedules were refused; nothing was changed\n", "schedule", "apply", "-f", file, "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got) != 2 || got[0].Result != "created (not done)" || got[1].Result != "refused" {
		t.Errorf("%v: %+v", err, r)
	}
	refused(t, 3, "there is no schedule", "schedule", "get", "kept-a")
}

// TestSchedulePrune: what an owner's files name no more goes, and nothing of anybody else's.
func TestSchedulePrune(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	apply := func(args ...string) []string {
		return append([]string{"schedule", "apply", "-f", file, "--owner", "kept-team"}, args...)
	}
	write := func(names ...string) {
		t.Helper()
		text := ""
		for _, name := range names {
			text += "- {name: kept-prune/" + name + ", cron: '@yearly', queue: kept}\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string, args ...string) {
		t.Helper()
		var got []string
		for _, r := range decode[[]struct{ Name, Result string }](t, args...) {
			got = append(got, strings.TrimPrefix(r.Name, "kept-prune/")+" "+r.Result)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %s", args, got, want)
		}
	}
	ok(t, "schedule", "set", "kept-prune/free", "--cron", "@yearly", "-q", "kept")
	ok(t, "schedule", "set", "kept-prune/theirs", "--cron", "@yearly", "-q", "kept", "--owner", "kept-others")
	write("a", "b", "c")
	is("a created, b created, c created", apply("--prune")...)
	if s := decode[struct{ Spec struct{ Owner string } }](t, "schedule", "get", "kept-prune/a"); s.Spec.Owner != "kept-team" {
		t.Errorf("%+v", s)
	}
	write("b")
	is("b unchanged", apply()...)
	is("b unchanged, a deleted (dry run), c deleted (dry run)", apply("--prune", "--dry-run")...)
	ok(t, "schedule", "get", "kept-prune/a")
	is("b unchanged, a deleted, c deleted", apply("--prune")...)
	refused(t, 3, "there is no schedule", "schedule", "get", "kept-prune/a")
	write("b", "theirs")
	refused(t, 5, "1 of 2 schedules were refused; nothing was changed", apply("--prune")...)
	write("b", "free")
	is("b unchanged, free changed", apply("--prune")...) // it was nobody's
	write()
	refused(t, 2, "no schedule in it", apply("--prune")...)
	refused(t, 2, "give --owner", "schedule", "apply", "-f", file, "--prune")
	refused(t, 2, "is not a name", "schedule", "apply", "-f", file, "--prune", "--owner", "a b")
	refused(t, 2, "is not a name", "schedule", "set", "kept-prune/b", "--owner", "a b")
	ok(t, "schedule", "delete", "kept-prune/b", "kept-prune/free", "kept-prune/theirs")
}

// TestScheduleImport: a crontab becomes schedules, again it changes nothing, and lines that have
// gone are pruned.
func TestScheduleImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tab")
	run := func(text string, args ...string) result {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return norn(t, append([]string{"schedule", "import", file, "--prefix", "kept-cron/", "--owner", "kept-host", "-q", "kept", "-o", "json"}, args...)...)
	}
	const line = "CRON_TZ=Europe/Berlin\n0 9 */2 * 1-5 root /bin/a%in\n"
	if r := run(line+"@reboot root b\n", "--dry-run"); r.code != 0 || !strings.Contains(r.out, `"created (dry run)"`) || !strings.Contains(r.err, ":3: @reboot b is left out") {
		t.Errorf("%+v", r)
	}
	r := run(line+"0 0 30 * 6 root c\n", "--overlap", "skip")
	var got []struct {
		Name, Result string
		Schedule     struct {
			Spec struct {
				Cron, Overlap string
				TimeZone      string `json:"time_zone"`
				Task          struct {
					Payload string
					Headers map[string]string
					Retry   struct {
						MaxAttempts int `json:"max_attempts"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got) != 2 || !strings.Contains(r.err, "either") {
		t.Fatalf("%v: %+v", err, r)
	}
	if s := got[0].Schedule.Spec; s.Cron != "0 9 */2 * 1-5" || s.TimeZone != "Europe/Berlin" || s.Overlap != "skip" || s.Task.Retry.MaxAttempts != 1 || s.Task.Headers["crontab-user"] != "root" {
		t.Errorf("%+v", got[0])
	}
	if r := run(line, "--overlap", "skip", "--prune"); r.code != 0 || strings.Count(r.out, `"unchanged"`) != 1 || strings.Count(r.out, `"deleted"`) != 1 {
		t.Errorf("again, without a line: %+v", r)
	}
	if r := run("61 * * * * root a\n0 9 * * * Europe/Berln root b\n5 * * * * root c\n", "--prune"); r.code != 2 || !strings.Contains(r.err, "tab:1: ") || !strings.Contains(r.err, "did you mean Europe/Berlin?") {
		t.Errorf("wrong lines: %+v", r)
	}
	ok(t, "schedule", "delete", got[0].Name)
}

// TestAScheduleWhosePayloadIsNotNamed: the variable of a script that was to name the file
// is not set, and a schedule without a payload would launch tasks that have none.
func TestAScheduleWhosePayloadIsNotNamed(t *testing.T) {
	refused(t, 2, "--file: nothing is given with it", "schedule", "set", "kept/nameless", "--cron", "@daily", "-q", "kept", "--file", "")
	refused(t, 3, "there is no schedule", "schedule", "get", "kept/nameless")
}

// TestScheduleFlagsGoBack: whatever was said, nothing in its place is the default.
func TestScheduleFlagsGoBack(t *testing.T) {
	const name = "kept/back"
	ok(t, "schedule", "set", name, "--cron", "@daily", "-q", "kept", "--paused", "--pause-on-failure=true", "--overlap", "skip", "--jitter", "5m")
	if s := decode[scheduleJSON](t, "schedule", "get", name); !s.Spec.Paused || s.Spec.Overlap != "skip" {
		t.Errorf("%+v", s)
	}
	ok(t, "schedule", "set", name, "--paused=", "--pause-on-failure=", "--overlap=", "--jitter=")
	if s := decode[scheduleJSON](t, "schedule", "get", name); s.Spec.Paused || s.Spec.Overlap != "allow" || s.Version != "2" {
		t.Errorf("%+v", s)
	}
	headers := func(args ...string) map[string]string {
		t.Helper()
		ok(t, append([]string{"schedule", "set", name}, args...)...)
		return decode[struct {
			Spec struct {
				Task struct{ Headers map[string]string }
			}
		}](t, "schedule", "get", name).Spec.Task.Headers
	}
	if h := headers("--header", "a=b", "--header", "c=d"); len(h) != 2 {
		t.Errorf("headers are %v", h)
	}
	if h := headers("--header=", "--header", "e=f"); len(h) != 1 || h["e"] != "f" {
		t.Errorf("headers are %v", h)
	}
	if h := headers("--header="); len(h) != 0 {
		t.Errorf("headers are %v", h)
	}
	refused(t, 2, `invalid argument "maybe"`, "schedule", "set", name, "--paused=maybe")
	refused(t, 2, "--paused=false", "schedule", "set", name, "--paused", "false")
	ok(t, "schedule", "delete", name)
}
