package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func randomUUID(r *rand.Rand) (u [16]byte) {
	binary.BigEndian.PutUint64(u[:], r.Uint64())
	binary.BigEndian.PutUint64(u[8:], r.Uint64())
	return u
}

// TestPicksStay has values that were picked once: another release that picks
// others would move every launch.
func TestPicksStay(t *testing.T) {
	uuid := [16]byte{0x0f, 0x9e, 0x8d, 0x7c, 0x6b, 0x5a, 0x49, 0x38, 0x87, 0x76, 0x65, 0x54, 0x43, 0x32, 0x21, 0x10}
	for text, want := range map[string]string{
		"? ? ? ? ?":                   "31 9 20 7 2",
		"? ? ? ? ? ?":                 "17 31 9 20 7 2",
		"TZ=UTC ? ?(0-7) * * *":       "CRON_TZ=UTC 31 3 * * *",
		"?/15 9-17/2 ?(1-31) JAN */2": "7-59/15 9-17/2 22 1 */2",
		"1,?(10-19),5/20 0 * * *":     "1,15,5-59/20 0 * * *",
		"0 0 * * FRI-SUN":             "0 0 * * FRI-SUN",
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Resolve(uuid); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestPicksSpread is the bar for `?`: of 10,000 daily schedules the fullest
// minute has at most three times the mean (G30).
func TestPicksSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s, err := Parse("? ? * * *")
	if err != nil {
		t.Fatal(err)
	}
	zone, err := zones(t).Load("")
	if err != nil {
		t.Fatal(err)
	}
	const schedules, slots = 10_000, 24 * 60
	var count [slots]int
	begin := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for range schedules {
		tt, err := s.Compile(randomUUID(r), zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := tt.Next(begin - 1)
		count[(at-begin)/int64(time.Minute)]++
	}
	fullest, empty := 0, 0
	for _, n := range count {
		fullest = max(fullest, n)
		if n == 0 {
			empty++
		}
	}
	mean := float64(schedules) / slots
	if float64(fullest) > 3*mean || empty > slots/100 {
		t.Errorf("the fullest minute has %d, the mean is %.1f; %d minutes are empty", fullest, mean, empty)
	}
	t.Logf("the fullest minute has %d, the mean is %.1f", fullest, mean)
}

// TestPicksStayInTheirRange tries each field and range.
func TestPicksStayInTheirRange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, tc := range []struct {
		text   string
		field  int
		lo, hi int
	}{
		{"? * * * *", minute, 0, 59}, {"* ?(0-7) * * *", hour, 0, 7}, {"0 0 ? * *", dayOfMonth, 1, 28}, {"0 0 ?(1-31) * *", dayOfMonth, 1, 31},
		{"0 0 1 ? *", month, 1, 12}, {"0 0 * * ?", dayOfWeek, 0, 6}, {"0 0 * * ?(SAT-SUN)", dayOfWeek, 6, 7}, {"? 0 0 * * *", second, 0, 59},
	} {
		s, err := Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for range 2000 {
			it := s.fields[tc.field].items[0].picked(randomUUID(r), kinds()[tc.field].name)
			if it.lo < tc.lo || it.lo > tc.hi || it.lo != it.hi {
				t.Fatalf("%s picks %d to %d", tc.text, it.lo, it.hi)
			}
			seen[it.lo] = true
		}
		if len(seen) != tc.hi-tc.lo+1 {
			t.Errorf("%s picks %d values of %d to %d", tc.text, len(seen), tc.lo, tc.hi)
		}
	}
}

// TestSearchEnds finds what is 40 years away or nowhere, soon.
func TestSearchEnds(t *testing.T) {
	at := func(s string) int64 {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixNano()
	}
	leap := compile(t, "0 0 29 2 *", "")
	if got, ok := leap.Next(at("2096-02-29T00:00:00Z")); !ok || got != at("2104-02-29T00:00:00Z") {
		t.Errorf("after 2096: %d, %t", got, ok)
	}
	if got, ok := leap.Last(at("1904-02-28T00:00:00Z")); !ok || got != at("1896-02-29T00:00:00Z") {
		t.Errorf("before 1904: %d, %t", got, ok)
	}
	for _, end := range []int64{-1 << 63, 1<<63 - 1} { // the ends of wall ns
		for _, spec := range []string{"* * * * *", "30 2 * * *", "@every 1h", "0 0 29 2 *"} {
			tt := compile(t, spec, "America/New_York")
			if got, ok := tt.Next(end); ok && got <= end {
				t.Errorf("%s: Next(%d) is %d", spec, end, got)
			}
			if got, ok := tt.Last(end); ok && got > end {
				t.Errorf("%s: Last(%d) is %d", spec, end, got)
			}
		}
	}
	seconds := compile(t, "* * * * * *", "Europe/Berlin")
	if n := seconds.Count(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"), 500); n != 500 {
		t.Errorf("a year of seconds, counted up to 500: %d", n)
	}
	if n := seconds.Count(at("2026-03-29T00:59:50Z"), at("2026-03-29T01:00:10Z"), 500); n != 20 {
		t.Errorf("20 seconds over a jump: %d", n)
	}
	if got, ok := seconds.Last(at("2027-01-01T00:00:00Z")); !ok || got != at("2027-01-01T00:00:00Z") {
		t.Errorf("the last second of a year: %d, %t", got, ok)
	}
}

func TestNextUnshown(t *testing.T) {
	tt := compile(t, "0 2 * * *", "America/Chicago")
	begin := time.Date(2026, 6, 2, 6, 0, 0, 0, time.UTC) // 01:00 in Chicago
	for _, tc := range []struct {
		shown string
		want  time.Duration
	}{{"01:59:59", time.Hour}, {"02:00:00", 25 * time.Hour}, {"23:00:00", 25 * time.Hour}} {
		shown, err := time.Parse(time.DateTime, "2026-06-02 "+tc.shown)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tt.NextUnshown(begin.UnixNano(), shown.Unix()); !ok || got != begin.Add(tc.want).UnixNano() {
			t.Errorf("shown %s: %s", tc.shown, time.Duration(got-begin.UnixNano()))
		}
	}
	hourly := compile(t, "0 * * * *", "America/Chicago")
	if got, _ := hourly.NextUnshown(begin.UnixNano(), 1<<40); got != begin.Add(time.Hour).UnixNano() {
		t.Error("what follows elapsed time looks at local times")
	}
}

// TestZonesVersion fails when the tz database is changed and its version is not.
func TestZonesVersion(t *testing.T) {
	const want = "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"
	if got := sha(zoneinfo); got != want || ZonesVersion != "2025c" {
		t.Errorf("release %s is %s; put both here when the file is a newer one", ZonesVersion, got)
	}
	if strings.Contains(strings.Join(zones(t).Names(), " "), "\\") {
		t.Error("names have other slashes")
	}
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
