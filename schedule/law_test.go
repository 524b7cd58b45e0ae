package schedule

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// daysOf is the law of the day fields, read anew from their text and by package time alone.
func daysOf(dom, dow string, day time.Time) bool {
	any := func(list string, is func(string) bool) bool { return slices.ContainsFunc(strings.Split(list, ","), is) }
	byMonth := any(dom, func(s string) bool { return dayOfMonthLaw(s, day) })
	byWeek := any(dow, func(s string) bool { return dayOfWeekLaw(s, day) })
	if dom[0] == '*' || dow[0] == '*' {
		return byMonth && byWeek
	}
	return byMonth || byWeek
}

func dayOfMonthLaw(s string, day time.Time) bool {
	ends := func(t time.Time) bool { return t.AddDate(0, 0, 1).Day() == 1 }
	works := func(t time.Time) bool { return t.Weekday() != time.Saturday && t.Weekday() != time.Sunday }
	switch {
	case s == "L":
		return ends(day)
	case s == "LW": // a workday after which the month has none
		for later := day; !ends(later); {
			if later = later.AddDate(0, 0, 1); works(later) {
				return false
			}
		}
		return works(day)
	case strings.HasSuffix(s, "W"):
		want := atoi(s[:len(s)-1])
		if !works(day) || time.Date(day.Year(), day.Month(), want, 0, 0, 0, 0, time.UTC).Month() != day.Month() {
			return false
		}
		far := func(d int) int { return max(d-want, want-d) }
		for other := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC); other.Month() == day.Month(); other = other.AddDate(0, 0, 1) {
			if works(other) && far(other.Day()) < far(day.Day()) {
				return false
			}
		}
		return true
	}
	return plainLaw(s, day.Day(), 1, 31)
}

func dayOfWeekLaw(s string, day time.Time) bool {
	name, which, ok := strings.Cut(s, "#")
	if !ok {
		return plainLaw(s, int(day.Weekday()), 0, 6) || day.Weekday() == time.Sunday && plainLaw(s, 7, 0, 7) && s[0] != '*'
	}
	if want := slices.Index(dayNames(), name); want >= 0 && int(day.Weekday()) != want || want < 0 && int(day.Weekday()) != atoi(name)%7 {
		return false
	}
	if which == "L" {
		return day.AddDate(0, 0, 7).Month() != day.Month()
	}
	n := 0 // how often the month has had the weekday by then
	for t := day; t.Month() == day.Month(); t = t.AddDate(0, 0, -7) {
		n++
	}
	return n == atoi(which)
}

// plainLaw reads *, *, a, a-b, each with a step.
func plainLaw(s string, v, lo, hi int) bool {
	base, step, stepped := strings.Cut(s, "/")
	every := 1
	if stepped {
		every = atoi(step)
	}
	if base != "*" {
		a, b, ranged := strings.Cut(base, "-")
		if lo = nameOr(a); ranged {
			hi = nameOr(b)
		} else if !stepped {
			hi = lo
		}
	}
	return v >= lo && v <= hi && (v-lo)%every == 0
}

func nameOr(s string) int {
	if i := slices.Index(dayNames(), s); i >= 0 {
		return i
	}
	return atoi(s)
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// TestDayLaws compares each form with its law on every day of the 400 years after which dates
// and weekdays come again, and pairs of forms on some years.
func TestDayLaws(t *testing.T) {
	dom := []string{"*", "*/2", "*/5,L", "L", "LW", "L,LW", "1W", "15W", "29W", "30W", "31W", "1W,15W,L", "13", "1-7", "8-14,LW", "25-31/2", "1,*"}
	dow := []string{"*", "*/2", "*/3,FRI#2", "FRI#1", "FRI#2", "MON#5", "SUN#L", "7#1", "0#L", "MON-FRI", "6,7", "FRI#L,MON#1", "WED#3,2", "1,*"}
	r := rand.New(rand.NewPCG(5, 8))
	for _, m := range dom {
		for _, w := range dow {
			from, to := 2000, 2400
			if m != "*" && w != "*" {
				from = 2000 + r.IntN(390)
				to = from + 8
			}
			tt := compile(t, "0 0 "+m+" * "+w, "")
			at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
			for y := from; y < to; y++ {
				for mon := 1; mon <= 12; mon++ {
					set := tt.calendar.days(int64(y), mon)
					for ; at.Month() == time.Month(mon); at = at.AddDate(0, 0, 1) {
						if want := daysOf(m, w, at); want != (set>>at.Day()&1 != 0) {
							t.Fatalf("0 0 %s * %s on %s: %t, by its law %t", m, w, at.Format("Mon 2006-01-02"), !want, want)
						}
					}
				}
			}
		}
	}
}

// TestStarsOfCron: a field that begins with * is a star, so that both must match; days of
// 2026 that a crontab has.
func TestStarsOfCron(t *testing.T) {
	days := func(by Reading, text string) (out []string) {
		s, err := by.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		tt, err := s.Compile(noUUID, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano() - 1
		for range 5 {
			at, _ = tt.Next(at)
			out = append(out, time.Unix(0, at).UTC().Format("Mon 02"))
		}
		return out
	}
	for text, want := range map[string]string{
		"0 9 */2 * 1-5":    "Mon 01 Wed 03 Fri 05 Tue 09 Thu 11", // odd days that are weekdays
		"0 9 1-31/2 * */6": "Sun 07 Sat 13 Sun 21 Sat 27 Sun 05",
		"0 9 *,3 * MON":    "Mon 01 Mon 08 Mon 15 Mon 22 Mon 29",
		"0 9 30 * SAT":     "Sat 06 Sat 13 Sat 20 Sat 27 Tue 30",
		"0 9 L * SAT#1":    "Sat 06 Tue 30 Sat 04 Fri 31 Sat 01",
	} {
		if got := strings.Join(days(Current, text), " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := strings.Join(days(FirstReading, "0 9 */2 * 1-5"), " "); got != "Mon 01 Tue 02 Wed 03 Thu 04 Fri 05" {
		t.Errorf("one that was set before has other days now: %s", got)
	}
	if _, err := (Current + 1).Parse("* * * * *"); !errors.Is(err, ErrReading) {
		t.Errorf("by rules that nobody knows: %v", err)
	}
}

// TestLetterCase: only ASCII letters are alike; ſ and K (Kelvin) fold to s and k by Unicode.
func TestLetterCase(t *testing.T) {
	for _, text := range []string{"0 0 * * ſUN", "0 0 * * ſat", "0 0 * ſEP *", "0 0 * auguſ *", "0 0 * * ſUN#2", "0 0 * * MON-ſAT", "0 0 * ſUN *"} {
		if _, err := Parse(text); !errors.Is(err, ErrSpec) || strings.Contains(err.Error(), "is a day of the week") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"0 0 * * sUn", "0 0 l * *", "0 0 lw * *", "0 0 15w * *", "0 0 * * fri#l"} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAStepThatSaysNothing: wherever one value is left, however it is written.
func TestAStepThatSaysNothing(t *testing.T) {
	for _, text := range []string{"*/60", "*/99", "0-59/60", "51-51/9", "59/5", "50/15", "7-7/2", "?/60", "?(5-5)/9", "?(5-7)/3", "1,51-51/9"} {
		if _, err := Parse(text + " * * * *"); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "a step of") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"*/59", "51-52/1", "51-51/1", "*/1", "?(5-7)/2", "58/1"} {
		if _, err := Parse(text + " * * * *"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWarnings: what was written for another program, and what has two meanings.
func TestWarnings(t *testing.T) {
	for text, want := range map[string][]string{
		"0 10 * * ? *":         {"EventBridge: minute hour day-of-month month day-of-week year, where ? is any value; if that is meant, write 0 10 * * *", "month: ? picks one value"},
		"0 8 ? * 2-6 *":        {"write 0 8 * * 2-6 with names for days of the week", "hour: ?"},
		"0 0 12 ? * MON":       {"Quartz: second minute hour day-of-month month day-of-week, where ? is any value; if that is meant, write 0 0 12 * * MON", "one day is picked", "either"},
		"TZ=UTC 0 0 12 1 * ?":  {"Quartz", "one day is picked", "either"},
		"? ?(0-7) * * *":       {"minute: ?"},
		"? ? ? ? ?":            {"minute, hour, month: ?", "one day is picked", "either"},
		"0 0 30 * SAT":         {"either"},
		"0 0 L * FRI#2":        {"either"},
		"0 0 1,* * 5":          {"either"},
		"0 0 */2 * 1-5":        nil,
		"?/15 9 * * MON-FRI":   nil,
		"@daily":               nil,
		"@every 5m":            nil,
		"CRON_TZ=UTC @monthly": nil,
		"0 0 12 * * MON":       nil,
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := s.Warnings()
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", text, got, want)
				break
			}
		}
	}
	for text, want := range map[string]string{
		"0 18 ? * MON-FRI *":      "looks like a line of EventBridge",
		"0 0 12 ? * MON 2030":     "looks like a line of Quartz",
		"15 10 ? * 6L 2022-2023":  "looks like a line of EventBridge",
		"cron(0 10 * * ? *)":      "is EventBridge's",
		"0 9 * * * Europe/Berlin": "CRON_TZ=Europe/Berlin 0 9 * * *",
		"0 9 * * * UTC":           "CRON_TZ=UTC 0 9 * * *",
		"0 0 1 1 * 2030":          "years are not known",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	s, err := FirstReading.Parse("0 9 */2 * 1-5")
	if err != nil || len(s.Warnings()) != 2 || !strings.Contains(s.Warnings()[1], "set it again") {
		t.Errorf("%q, %v", s.Warnings(), err)
	}
	if s, _ := FirstReading.Parse("0 9 1 * *"); s.Warnings() != nil {
		t.Errorf("%q", s.Warnings())
	}
}
