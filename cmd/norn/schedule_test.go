package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type occurrenceJSON struct {
	At                  time.Time
	Local, Offset, Note string
}

func TestScheduleNext(t *testing.T) {
	got := decode[[]occurrenceJSON](t, "schedule", "next", "--cron", "30 2 * * *", "--tz", "America/New_York", "--from", "2026-03-07", "-n", "3")
	want := []occurrenceJSON{
		{time.Date(2026, 3, 7, 7, 30, 0, 0, time.UTC), "2026-03-07T02:30:00", "-05:00", ""},
		{time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC), "2026-03-08T03:00:00", "-04:00", "the offset was -05:00 before; the clock leaves out 02:30; this is the jump"},
		{time.Date(2026, 3, 9, 6, 30, 0, 0, time.UTC), "2026-03-09T02:30:00", "-04:00", ""},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	raw := ok(t, "schedule", "next", "--cron", "CRON_TZ=Europe/Berlin @daily", "--from", "2026-06-01T00:00:00Z", "-n", "1", "-o", "jsonl")
	if raw != `{"at":"2026-06-01T22:00:00Z","local":"2026-06-02T00:00:00","offset":"+02:00","note":""}`+"\n" {
		t.Errorf("got %s", raw)
	}
	table := ok(t, "schedule", "next", "--cron", "*/30 1 1 11 *", "--tz", "America/New_York", "--from", "2026-11-01T01:00", "-n", "2")
	if lines := strings.Split(table, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "AT ") ||
		lines[1] != "2026-11-01T05:00:00Z  Sun 2026-11-01 01:00:00  EDT   -04:00  01:00 comes twice; this is the first" {
		t.Errorf("got %s", table)
	}
}

// TestScheduleNextStartsNow takes ten from now when nothing else is said, and
// those from the start on.
func TestScheduleNextStartsNow(t *testing.T) {
	before := time.Now()
	got := decode[[]occurrenceJSON](t, "schedule", "next", "--cron", "@every 1m")
	if len(got) != 10 || got[0].At.Before(before) || got[0].At.After(time.Now().Add(time.Minute)) || got[9].At.Sub(got[0].At) != 9*time.Minute {
		t.Errorf("got %v", got)
	}
	got = decode[[]occurrenceJSON](t, "schedule", "next", "--cron", "0 0 * * *", "--from", "2026-06-01 00:00", "-n", "1")
	if len(got) != 1 || got[0].Local != "2026-06-01T00:00:00" {
		t.Errorf("the start is left out: %v", got)
	}
}

// TestADateBeginsWithItsFirstSecond: where the clock leaves midnight out, a date begins at the
// jump, and a local time that comes twice is the first, as in schedules.
func TestADateBeginsWithItsFirstSecond(t *testing.T) {
	for _, tc := range []struct{ zone, from, want string }{
		{"America/Havana", "2026-03-08", "2026-03-08T01:00:00-04:00"},
		{"America/Santiago", "2026-09-06", "2026-09-06T01:00:00-03:00"},
		{"Europe/Berlin", "2026-10-25 02:30", "2026-10-25T02:30:00+02:00"},
	} {
		got := decode[[]occurrenceJSON](t, "schedule", "next", "--cron", "@every 30m", "--tz", tc.zone, "--from", tc.from, "-n", "1")
		if len(got) != 1 || got[0].Local+got[0].Offset != tc.want {
			t.Errorf("%s in %s: %v", tc.from, tc.zone, got)
		}
	}
}

func TestScheduleNextPicks(t *testing.T) {
	one := norn(t, "schedule", "next", "--cron", "? ?(0-7) * * *", "--uuid", "0f9e8d7c-6b5a-4938-8776-655443322110", "--from", "2026-06-01", "-n", "2", "-o", "jsonl")
	two := norn(t, "schedule", "next", "--cron", "? ?(0-7) * * *", "--uuid", "0f9e8d7c-6b5a-4938-8776-655443322111", "--from", "2026-06-01", "-n", "2", "-o", "jsonl")
	if one.code != 0 || two.code != 0 || one.out == two.out || !strings.Contains(one.err, "norn: ? is here: ") {
		t.Errorf("%+v, %+v", one, two)
	}
	if none := norn(t, "schedule", "next", "--cron", "? 1 * * *", "-n", "1"); none.code != 0 || !strings.Contains(none.err, "depends on the schedule's UUID") {
		t.Errorf("without a UUID: %+v", none)
	}
	if quiet := norn(t, "schedule", "next", "--cron", "? 1 * * *", "-n", "1", "--quiet"); quiet.err != "" {
		t.Errorf("--quiet: %+v", quiet)
	}
}

func TestScheduleNextCompletesZones(t *testing.T) {
	if r := norn(t, "__completeNoDesc", "schedule", "next", "--tz", "Europe/Ber"); !strings.HasPrefix(r.out, "Europe/Berlin\n:4") {
		t.Errorf("%+v", r)
	}
}

func TestScheduleNextMistakes(t *testing.T) {
	r := norn(t, "schedule", "next", "--cron", "0 24 * * *")
	if r.code != 2 || r.out != "" || r.err != "norn: --cron: schedule: hour field, column 3: \"24\" is not from 0 to 23\nnorn: 0 24 * * *\nnorn:   ^^\n" {
		t.Errorf("%+v", r)
	}
	if r := norn(t, "schedule", "next", "--cron", "0 0 31 2 *"); r.code != 2 || !strings.Contains(r.err, "never due\nnorn: 0 0 31 2 *\nnorn:     ^^\n") {
		t.Errorf("%+v", r)
	}
	refused(t, 2, "a specification is missing", "schedule", "next")
	refused(t, 3, "there is no schedule nobody", "schedule", "next", "nobody")
	refused(t, 2, "a schedule has its own", "schedule", "next", "nobody", "--tz", "UTC")
	refused(t, 2, "quote the specification", "schedule", "next", "--cron", "0", "0")
	refused(t, 2, "did you mean Europe/Berlin?", "schedule", "next", "--cron", "@daily", "--tz", "Europe/Berln")
	for _, tc := range []struct{ spec, tz, want string }{
		{"TZ=UTC @daily", "Europe/Berlin", "a schedule has one\nnorn: TZ=UTC @daily\nnorn: ^^^^^^\n"},
		{"TZ=Europe/Berln @daily", "", "did you mean Europe/Berlin?\nnorn: TZ=Europe/Berln @daily\nnorn: ^^^^^^^^^^^^^^^\n"},
	} {
		if r := norn(t, "schedule", "next", "--cron", tc.spec, "--tz", tc.tz); r.code != 2 || !strings.HasSuffix(r.err, tc.want) {
			t.Errorf("%s: %+v", tc.spec, r)
		}
	}
	refused(t, 2, "is not from 1 to 10080", "schedule", "next", "--cron", "@daily", "-n", "0")
	refused(t, 2, "is not from 1 to 10080", "schedule", "next", "--cron", "@daily", "-n", "10081")
	refused(t, 2, "is not a time such as", "schedule", "next", "--cron", "@daily", "--from", "noon")
	refused(t, 2, "is not from 1700 to 2200", "schedule", "next", "--cron", "@daily", "--from", "2500-01-01")
	refused(t, 2, "is not a UUID", "schedule", "next", "--cron", "@daily", "--uuid", "x")
	if r := norn(t, "schedule", "next", "--cron", "TZ=Pacific/Apia 0 0 30 12 *", "--from", "2190-01-01", "-n", "100", "-o", "json"); r.code != 0 || !strings.Contains(r.err, "nothing more within 40 years") {
		t.Errorf("the end of time: %d, %s", r.code, r.err)
	}
}
