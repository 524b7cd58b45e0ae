package schedule

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// between lists the instants of a timetable from one local date up to another,
// in local time with the offset.
func between(t *testing.T, tt *Timetable, from, to string) (out []string) {
	t.Helper()
	loc := tt.Zone().Location()
	begin, err := time.ParseInLocation(time.DateOnly, from, loc)
	if err != nil {
		t.Fatal(err)
	}
	end, err := time.ParseInLocation(time.DateOnly, to, loc)
	if err != nil {
		t.Fatal(err)
	}
	for at := begin.UnixNano() - 1; ; {
		next, ok := tt.Next(at)
		if !ok || next >= end.UnixNano() || len(out) > 5000 {
			return out
		}
		out = append(out, time.Unix(0, next).In(loc).Format("01-02 15:04-07:00"))
		at = next
	}
}

// TestDST has the cases of design's table of other libraries, and more.
func TestDST(t *testing.T) {
	for _, tc := range []struct {
		name, zone, spec, from, to, want string
	}{
		{"a time in a gap runs at the jump", "America/New_York", "30 2 * * *", "2026-03-07", "2026-03-10", "03-07 02:30-05:00 03-08 03:00-04:00 03-09 02:30-04:00"},
		{"several times in a gap run once", "America/New_York", "*/20 2 * * *", "2026-03-08", "2026-03-09", "03-08 03:00-04:00"},
		{"and with the one at its end once", "America/New_York", "0 2,3 * * *", "2026-03-08", "2026-03-09", "03-08 03:00-04:00"},
		{"a time that comes twice runs first", "America/New_York", "30 1 * * *", "2026-10-31", "2026-11-03", "10-31 01:30-04:00 11-01 01:30-04:00 11-02 01:30-05:00"},
		{"all minutes of an hour that comes twice run once", "America/New_York", "*/30 1 * * *", "2026-11-01", "2026-11-02", "11-01 01:00-04:00 11-01 01:30-04:00"},
		{"the end of an overlap runs once", "America/New_York", "0 2 * * *", "2026-11-01", "2026-11-02", "11-01 02:00-05:00"},
		{"a gap of 30 minutes", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03", "2026-10-06", "10-03 02:15+10:30 10-04 02:30+11:00 10-05 02:15+11:00"},
		{"an overlap of 30 minutes", "Australia/Lord_Howe", "45 1 * * *", "2026-04-04", "2026-04-07", "04-04 01:45+11:00 04-05 01:45+11:00 04-06 01:45+10:30"},
		{"a gap at midnight", "Africa/Cairo", "30 0 * * *", "2026-04-23", "2026-04-26", "04-23 00:30+02:00 04-24 01:00+03:00 04-25 00:30+03:00"},
		{"midnight itself in a gap", "Africa/Cairo", "@daily", "2026-04-23", "2026-04-26", "04-23 00:00+02:00 04-24 01:00+03:00 04-25 00:00+03:00"},
		{"an overlap at midnight", "America/Havana", "30 0 * * *", "2026-10-31", "2026-11-03", "10-31 00:30-04:00 11-01 00:30-04:00 11-02 00:30-05:00"},
		{"an overlap over midnight", "America/Sao_Paulo", "30 23 * * *", "2018-02-16", "2018-02-19", "02-16 23:30-02:00 02-17 23:30-02:00 02-18 23:30-03:00"},
		{"a gap over midnight", "America/Toronto", "45 23 * * *", "1919-03-29", "1919-04-02", "03-29 23:45-05:00 03-31 00:30-04:00 03-31 23:45-04:00 04-01 23:45-04:00"},
		{"and what is after midnight in it", "America/Toronto", "15 0 * * *", "1919-03-30", "1919-04-01", "03-30 00:15-05:00 03-31 00:30-04:00"},
		{"a date that the zone leaves out", "Pacific/Apia", "0 12 * * *", "2011-12-28", "2012-01-02", "12-28 12:00-10:00 12-29 12:00-10:00 12-31 12:00+14:00 01-01 12:00+14:00"},
		{"midnight after such a date", "Pacific/Apia", "0 0 * * *", "2011-12-28", "2012-01-02", "12-28 00:00-10:00 12-29 00:00-10:00 12-31 00:00+14:00 01-01 00:00+14:00"},
		{"only that date", "Pacific/Apia", "0 0 30 12 *", "2011-01-01", "2012-02-01", ""},
		{"a date that comes twice", "Pacific/Kwajalein", "0 12 * * *", "1969-09-29", "1969-10-02", "09-29 12:00+11:00 09-30 12:00+11:00 10-01 12:00-12:00"},
		{"a zone that changes its base by a quarter", "Asia/Kathmandu", "5 0 * * *", "1985-12-31", "1986-01-03", "12-31 00:05+05:30 01-01 00:15+05:45 01-02 00:05+05:45"},
		{"two hours of summer", "Antarctica/Troll", "30 1,2 * * *", "2026-03-29", "2026-03-30", "03-29 03:00+02:00"},
		{"hours with * follow elapsed time in a gap", "America/New_York", "30 * * * *", "2026-03-08", "2026-03-09", "03-08 00:30-05:00 03-08 01:30-05:00 03-08 03:30-04:00 " + hours(4, 23, "03-08 %s:30-04:00")},
		{"and in an overlap", "America/New_York", "30 * * * *", "2026-11-01", "2026-11-02", "11-01 00:30-04:00 11-01 01:30-04:00 11-01 01:30-05:00 " + hours(2, 23, "11-01 %s:30-05:00")},
		{"0-23 names times of the day", "America/New_York", "30 0-23 * * *", "2026-11-01", "2026-11-02", "11-01 00:30-04:00 11-01 01:30-04:00 " + hours(2, 23, "11-01 %s:30-05:00")},
		{"*/2 follows elapsed time", "Europe/Berlin", "0 */2 * * *", "2026-10-25", "2026-10-26", "10-25 00:00+02:00 10-25 02:00+02:00 10-25 02:00+01:00 10-25 04:00+01:00 " + "10-25 06:00+01:00 10-25 08:00+01:00 10-25 10:00+01:00 10-25 12:00+01:00 10-25 14:00+01:00 10-25 16:00+01:00 10-25 18:00+01:00 10-25 20:00+01:00 10-25 22:00+01:00"},
		{"@every knows no zone", "America/New_York", "@every 12h", "2026-03-08", "2026-03-10", "03-08 08:00-04:00 03-08 20:00-04:00 03-09 08:00-04:00 03-09 20:00-04:00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := between(t, compile(t, tc.spec, tc.zone), tc.from, tc.to)
			if want := fieldsOf(tc.want); !slices.Equal(got, want) {
				t.Errorf("%s in %s:\n got %q\nwant %q", tc.spec, tc.zone, got, want)
			}
		})
	}
}

// TestInTheSecondPass asks while times come again: those of the first pass are
// over.
func TestInTheSecondPass(t *testing.T) {
	tt := compile(t, "30 1 * * *", "America/New_York")
	first := time.Date(2026, 11, 1, 5, 30, 0, 0, time.UTC).UnixNano()
	for m := range int64(120) {
		at := first + m*int64(time.Minute)
		if next, ok := tt.Next(at); !ok || next != first+25*int64(time.Hour) {
			t.Fatalf("%d minutes later: %s", m, time.Unix(0, next).UTC())
		}
		if last, ok := tt.Last(at); !ok || last != first {
			t.Fatalf("%d minutes later, the last is %s", m, time.Unix(0, last).UTC())
		}
	}
}

// TestTheTableOfTheDocs reads docs/reference/schedule-syntax.md and tries what it promises.
func TestTheTableOfTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/schedule-syntax.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([A-Z][a-zA-Z]+/[A-Za-z_]+) \\| (\\d{4}-\\d\\d-\\d\\d) \\| (.*)\\|$").FindAllStringSubmatch(string(doc), -1)
	if len(rows) != 11 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		date, err := time.Parse(time.DateOnly, row[3])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range between(t, compile(t, row[1], row[2]), row[3], date.AddDate(0, 0, 1).Format(time.DateOnly)) {
			if day, clock, _ := strings.Cut(at, " "); day == date.Format("01-02") { // not so when the zone lacks the date
				got = append(got, clock)
			}
		}
		if want := strings.Fields(row[4]); !slices.Equal(got, want) {
			t.Errorf("%s: got %q", row[0], got)
		}
	}
}

func hours(from, to int, format string) string {
	var out []string
	for h := from; h <= to; h++ {
		out = append(out, strings.Replace(format, "%s", time.Date(1, 1, 1, h, 0, 0, 0, time.UTC).Format("15"), 1))
	}
	return strings.Join(out, " ")
}

// fieldsOf joins dates with their times.
func fieldsOf(s string) (out []string) {
	words := strings.Fields(s)
	for i := 0; i+1 < len(words); i += 2 {
		out = append(out, words[i]+" "+words[i+1])
	}
	return out
}

func TestNotes(t *testing.T) {
	for _, tc := range []struct{ zone, spec, after, local, note string }{
		{"America/New_York", "30 2 * * *", "2026-03-08T04:00:00Z", "2026-03-08T03:00:00-04:00", "the offset was -05:00 before; the clock leaves out 02:30; this is the jump"},
		{"America/New_York", "30 1 * * *", "2026-11-01T04:00:00Z", "2026-11-01T01:30:00-04:00", "01:30 comes twice; this is the first"},
		{"America/New_York", "30 * * * *", "2026-11-01T06:00:00Z", "2026-11-01T01:30:00-05:00", "the offset was -04:00 before; 01:30 comes twice; this is the second"},
		{"Pacific/Apia", "0 0 * * *", "2011-12-30T00:00:00Z", "2011-12-31T00:00:00+14:00", "the zone has no 2011-12-30, so that date has no launch; the offset was -10:00 before"},
		{"Pacific/Apia", "0 12 * * *", "2011-12-30T00:00:00Z", "2011-12-31T12:00:00+14:00", "the zone has no 2011-12-30, so that date has no launch; the offset was -10:00 before"},
		{"America/New_York", "0 1 * * *", "2026-03-08T00:00:00Z", "2026-03-08T01:00:00-05:00", ""}, // an hour before the jump
		{"Europe/Berlin", "15 3 * * *", "2026-06-01T00:00:00Z", "2026-06-01T03:15:00+02:00", ""},
		{"Europe/Berlin", "@every 1h", "2026-06-01T00:00:00Z", "2026-06-01T03:00:00+02:00", ""},
	} {
		after, err := time.Parse(time.RFC3339, tc.after)
		if err != nil {
			t.Fatal(err)
		}
		tt := compile(t, tc.spec, tc.zone)
		at, ok := tt.Next(after.UnixNano())
		o := tt.Describe(at)
		if got := o.Time().Format(time.RFC3339); !ok || got != tc.local || o.Note() != tc.note {
			t.Errorf("%s in %s: %s %q, want %s %q", tc.spec, tc.zone, got, o.Note(), tc.local, tc.note)
		}
	}
}

// TestFirst: a date begins with its first second, also where the clock leaves midnight out,
// or shows it twice, on either side of Greenwich.
func TestFirst(t *testing.T) {
	for _, tc := range []struct{ zone, reading, want string }{
		{"America/Havana", "2026-03-08T00:00:00Z", "2026-03-08T01:00:00-04:00"},
		{"America/Santiago", "2026-09-06T00:00:00Z", "2026-09-06T01:00:00-03:00"},
		{"Africa/Cairo", "2026-04-24T00:00:00Z", "2026-04-24T01:00:00+03:00"},
		{"America/Havana", "2026-11-01T00:00:00Z", "2026-11-01T00:00:00-04:00"},
		{"Pacific/Apia", "2011-12-30T00:00:00Z", "2011-12-31T00:00:00+14:00"},
		{"America/New_York", "2026-03-08T02:30:00.5Z", "2026-03-08T03:00:00-04:00"},
		{"America/New_York", "2026-11-01T01:30:00Z", "2026-11-01T01:30:00-04:00"},
		{"Europe/Berlin", "2026-10-25T02:30:00Z", "2026-10-25T02:30:00+02:00"},
		{"Europe/Berlin", "2026-06-01T12:00:00.5+09:00", "2026-06-01T12:00:00.5+02:00"},
		{"UTC", "2026-06-01T12:00:00.5Z", "2026-06-01T12:00:00.5Z"},
	} {
		reading, err := time.Parse(time.RFC3339Nano, tc.reading)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := NewZones().Load(tc.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := First(reading, zone.Location()).Format(time.RFC3339Nano); got != tc.want {
			t.Errorf("%s in %s: %s, want %s", tc.reading, tc.zone, got, tc.want)
		}
	}
}
