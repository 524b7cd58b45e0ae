package check

import (
	"fmt"
	"testing"
	"time"
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
