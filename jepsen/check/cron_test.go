package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/schedule"
)

// kept is a schedule of each second that launched all of its first ten.
func kept() ([]CronSchedule, CronOptions) {
	second := int64(time.Second)
	s := CronSchedule{Name: "s", Spec: "* * * * * *", Asked: 1000*second - 7, Created: 1000*second + 7, Ended: 1011*second - 1}
	for i := range int64(10) {
		at := (1001 + i) * second
		s.Launches = append(s.Launches, CronLaunch{Instant: at, Task: fmt.Sprint(i), Begun: at + 5e6})
	}
	return []CronSchedule{s}, CronOptions{Healthy: []CronSkip{{From: 1006 * second, To: 1010 * second}}, Deadline: time.Second, Limit: time.Minute}
}

// TestCron: what is as it should be passes, and each thing that is wrong is
// found, as what it is.
func TestCron(t *testing.T) {
	second := int64(time.Second)
	for _, tc := range []struct {
		name, finds string
		change      func(s *CronSchedule)
	}{
		{"nothing", "", func(*CronSchedule) {}},
		{"a skip in trouble", "", func(s *CronSchedule) {
			s.Launches = append(s.Launches[:1], s.Launches[3:]...)
			s.Skips = []CronSkip{{From: 1002 * second, To: 1003 * second, Reason: "missed"}}
		}},
		{"late in trouble", "", func(s *CronSchedule) { s.Launches[0].Begun += 30 * second }},
		{"a skip in health", CronMissed, func(s *CronSchedule) {
			s.Launches = s.Launches[:9]
			s.Skips = []CronSkip{{From: 1010 * second, To: 1010 * second}}
		}},
		{"forgotten", "", func(s *CronSchedule) { s.Launches, s.Forgotten = s.Launches[1:], 1001*second }},
		{"silently missed", CronMissed, func(s *CronSchedule) { s.Launches = s.Launches[1:] }},
		{"doubled", CronDoubled, func(s *CronSchedule) { s.Launches = append(s.Launches, CronLaunch{Instant: 1003 * second, Task: "x"}) }},
		{"no instant", CronStray, func(s *CronSchedule) { s.Launches[0].Instant++ }},
		{"before it was", CronStray, func(s *CronSchedule) {
			s.Launches = append(s.Launches, CronLaunch{Instant: 999 * second, Task: "x"})
		}},
		{"late in health", CronLate, func(s *CronSchedule) { s.Launches[8].Begun += 2 * second }},
		{"over the window", CronLate, func(s *CronSchedule) { s.Launches[0].Begun += 90 * second }},
		{"nonsense", CronStray, func(s *CronSchedule) { s.Spec = "x" }},
	} {
		all, o := kept()
		tc.change(&all[0])
		found := Cron(all, o)
		if tc.finds == "" && len(found) > 0 || tc.finds != "" && (len(found) == 0 || found[0].Invariant != tc.finds) {
			t.Errorf("%s: found %v, want %q", tc.name, found, tc.finds)
		}
	}
}

func TestOracleOfEvery(t *testing.T) {
	next, err := Oracle("@every 90s")
	if err != nil || next(0) != int64(90*time.Second) || next(int64(90*time.Second)) != int64(180*time.Second) {
		t.Errorf("%v", err)
	}
	if _, err := Oracle("@every x"); err == nil {
		t.Error("nonsense is read")
	}
}

// TestOracleOfPicks: what ? is by the book is what package schedule makes of it,
// and the oracle's zones are zones.
func TestOracleOfPicks(t *testing.T) {
	const uuid = "0f9e8d7c-6b5a-4938-8776-655443322110"
	raw := [16]byte{0x0f, 0x9e, 0x8d, 0x7c, 0x6b, 0x5a, 0x49, 0x38, 0x87, 0x76, 0x65, 0x54, 0x43, 0x32, 0x21, 0x10}
	zones := schedule.NewZones()
	for _, text := range []string{"? * * * *", "? ? ? ? ?", "?/5 * * * * *", "1,?,? ? * * * *", "?(10-40) ?(3-7) * * * *", "?(5-50)/7 * * * *", "CRON_TZ=Asia/Kathmandu ?/3 0-59/2 * * * *", "TZ=Asia/Kolkata 0 ?(0-7) ? * ?", "*/7 * * * * *"} {
		spec, err := schedule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := spec.LoadZone(zones, "")
		if err != nil {
			t.Fatal(err)
		}
		table, err := spec.Compile(raw, zone)
		if err != nil {
			t.Fatal(err)
		}
		picked, err := Picked(text, uuid)
		if err != nil {
			t.Fatal(err)
		}
		next, err := Oracle(picked)
		if err != nil {
			t.Fatalf("%s: %v", picked, err)
		}
		at := time.Date(2026, 6, 1, 12, 34, 56, 0, time.UTC).UnixNano()
		for range 50 {
			want, ok := table.Next(at)
			if got := next(at); !ok || got != want {
				t.Fatalf("%s is %s: after %d comes %d, the oracle says %d", text, picked, at, want, got)
			}
			at = want
		}
	}
	for _, bad := range []string{"?(x) * * * *", "?/x * * * *"} {
		if _, err := Picked(bad, uuid); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
	if _, err := Picked("? * * * *", "x"); err == nil {
		t.Error("a UUID that is none is read")
	}
}
