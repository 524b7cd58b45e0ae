package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestLaunchesAreJudged: an instant without a task and without a reason is found,
// also around a fault; one that is skipped for a reason only when nothing was
// wrong and nobody had paused its schedule; a launch is in time but around a
// fault.
func TestLaunchesAreJudged(t *testing.T) {
	const fault, pause, calm = 60, 120, 180 // seconds
	second := int64(time.Second)
	for _, tc := range []struct {
		what    string
		missing int64 // s, 0: none
		told    bool
		late    int64 // s: of the launch at lateAt
		lateAt  int64
		want    string // "" is nothing
	}{
		{what: "all is well"},
		{what: "a fault, and no reason", missing: fault, want: check.CronMissed},
		{what: "a fault, and a reason", missing: fault, told: true},
		{what: "a pause, and a reason", missing: pause, told: true},
		{what: "a reason, and nothing was wrong", missing: calm, told: true, want: check.CronMissed},
		{what: "late, and nothing was wrong", late: 6, lateAt: calm, want: check.CronLate},
		{what: "late, and there was a fault", late: 6, lateAt: fault},
		{what: "over its window", late: 3601, lateAt: fault, want: check.CronLate},
	} {
		l := &cluster.Lab{Rec: record.NewRecorder(), Windows: []cluster.Window{{Fault: "kill", From: (fault - 1) * time.Second, To: (fault + 1) * time.Second, Whole: (fault + 2) * time.Second}}}
		begin := l.Rec.Began.Truncate(time.Second).UnixNano()
		s := check.CronSchedule{Name: "s", Spec: "* * * * * *", Asked: begin, Created: begin + second/2, Ended: begin + 240*second}
		for n := int64(1); n <= 240; n++ {
			at := begin + n*second
			switch {
			case n == tc.missing && tc.told:
				s.Skips = append(s.Skips, check.CronSkip{From: at, To: at, Reason: "paused"})
			case n == tc.missing:
			case n == tc.lateAt:
				s.Launches = append(s.Launches, check.CronLaunch{Instant: at, Task: "t", Begun: at + tc.late*second})
			default:
				s.Launches = append(s.Launches, check.CronLaunch{Instant: at, Task: "t", Begun: at + 1})
			}
		}
		c := &workloads.Crew{Lab: l, Crons: &workloads.Crons{All: []check.CronSchedule{s}, Before: make([][]check.CronSchedule, 1), Paused: [][]check.CronSkip{{{From: begin + (pause-1)*second, To: begin + (pause+1)*second}}}}}
		c.JudgeLaunches()
		switch {
		case tc.want == "" && len(l.Findings) > 0:
			t.Errorf("%s: %v", tc.what, l.Findings)
		case tc.want != "" && (len(l.Findings) != 1 || !strings.Contains(l.Findings[0].Text, tc.want)):
			t.Errorf("%s: %v", tc.what, l.Findings)
		}
	}
}

// TestOverlapsAreJudgedByWhatWorkersDid: of a schedule that skips what overlaps two
// tasks are worked on at once, or one is begun before the end of the other one was
// asked for; a worker that meets a launched task writes its enqueue down, once.
func TestOverlapsAreJudgedByWhatWorkersDid(t *testing.T) {
	for _, beside := range []bool{false, true} {
		l := &cluster.Lab{Rec: record.NewRecorder()}
		c := &workloads.Crew{Lab: l, Crons: &workloads.Crons{Before: make([][]check.CronSchedule, 1), Paused: make([][]check.CronSkip, 1)}}
		spec, began := history.Spec{Queue: workloads.RunQueue}, l.Rec.Began.Truncate(time.Second).UnixNano()
		s := &tale{now: began - l.Rec.Began.UnixNano()} // each call takes two seconds
		s.grants(1, 1, token(1, 1), time.Minute, spec)
		if beside {
			s.grants(2, 2, token(1, 2), time.Minute, spec)
		}
		s.completes(1, 1, token(1, 1))
		if !beside {
			s.grants(2, 2, token(1, 2), time.Minute, spec)
		}
		l.Rec.Events = s.events
		at := func(n int, second int64) check.CronLaunch {
			instant := began + second*int64(time.Second)
			return check.CronLaunch{Instant: instant, Task: task(n).String(), Begun: instant}
		}
		c.Crons.All = []check.CronSchedule{{
			Name: "s", Spec: "* * * * * *", Asked: began - 1, Created: began, Ended: began + int64(5*time.Second), Overlap: nornv1.Overlap_OVERLAP_SKIP,
			Launches: []check.CronLaunch{at(1, 1), at(2, 4)},
			Skips:    []check.CronSkip{{From: began, To: began + int64(time.Minute), Reason: nornv1.SkipReason_SKIP_REASON_OVERLAP.String()}},
		}}
		c.Worked()
		c.JudgeLaunches()
		if found := len(l.Findings) > 0 && strings.Contains(l.Findings[0].Text, check.CronBeside); found != beside || !beside && len(l.Findings) > 0 {
			t.Errorf("beside %v: %v", beside, l.Findings)
		}
		h, met := &workloads.Hand{Crew: c}, &client.Claim{ID: task(1), Grant: &nornv1.Grant{Task: &nornv1.Task{Queue: workloads.RunQueue}}}
		before := len(l.Rec.Events)
		h.Launched([]*client.Claim{met})
		h.Launched([]*client.Claim{met})
		if n := len(l.Rec.Events); n != before+1 || l.Rec.Events[n-1].Func != history.Enqueue {
			t.Errorf("%d events for a task that was met twice", n-before)
		}
	}
}
