package check

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// launched is a launch of a second, begun and worked on up to others.
func launched(instant, begun, done float64) CronLaunch {
	l := CronLaunch{Instant: ns(instant), Task: fmt.Sprint(instant), Begun: ns(begun), Work: Work{Runs: []Window{{ns(begun + 0.1), ns(begun + 9)}}}}
	if done != 0 {
		l.Work = Work{Runs: []Window{{ns(begun + 0.1), ns(done - 0.1)}}, Asked: ns(done - 0.1), Done: ns(done)}
	}
	return l
}

func over(from, to float64) CronSkip { return CronSkip{From: ns(from), To: ns(to), Reason: overlapped} }

// notEnqueued is what the history says of a launch that was begun and came to nothing.
func (s *CronSchedule) notEnqueued(instant, begun float64) {
	s.Told(&nornv1.Launch{
		Kind: nornv1.LaunchKind_LAUNCH_KIND_LAUNCH, Status: nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED,
		Instant: timestamppb.New(time.Unix(0, ns(instant))), Begun: timestamppb.New(time.Unix(0, ns(begun))),
	})
}

// TestOverlapsAreJudged: where tasks are not to run beside each other, one that
// does is found; so is an instant that was left out for a task that did not run,
// and one that waited and was not launched, or too late.
//
// Long because: a table of schedules.
func TestOverlapsAreJudged(t *testing.T) {
	const allow, skip, wait = nornv1.Overlap_OVERLAP_ALLOW, nornv1.Overlap_OVERLAP_SKIP, nornv1.Overlap_OVERLAP_QUEUE_ONE
	for _, tc := range []struct {
		name, finds string
		overlap     nornv1.Overlap
		change      func(s *CronSchedule)
	}{
		{"skipped", "", skip, func(*CronSchedule) {}},
		{"waited", "", wait, func(*CronSchedule) {}},
		{"beside", "", allow, func(s *CronSchedule) { s.Launches[0] = launched(1001, 1001, 1009) }},
		{"begun before anybody has ended the one before", CronBeside, skip, func(s *CronSchedule) { s.Launches[1].Begun = ns(1003.3) }},
		{"begun after one that nobody has ended", CronBeside, skip, func(s *CronSchedule) { s.Launches[0].Work = Work{} }},
		{"begun while an older one runs", CronBeside, wait, func(s *CronSchedule) { s.Launches[0] = launched(1001, 1001, 1008) }},
		{"two at work, begun nobody knows when", CronBeside, wait, func(s *CronSchedule) {
			s.Launches[0], s.Launches[1].Begun = launched(1001, 1001, 1004), 0
		}},
		{"somebody goes on with what another one has ended", "", skip, func(s *CronSchedule) {
			s.Launches[0].Work.Runs[0].To = ns(1004.2)
			s.Launches[0].Work.Runs = append(s.Launches[0].Work.Runs, Window{ns(1004.2), ns(1004.3)})
		}},
		{"beside one that is said not to have been enqueued", "", skip, func(s *CronSchedule) {
			s.Launches[0].Work = Work{Runs: []Window{{ns(1003), ns(1008)}}}
			s.notEnqueued(1001, 1001)
		}},
		{"nothing is told of what was skipped", CronMissed, skip, func(s *CronSchedule) { s.Skips = s.Skips[:1] }},
		{"skipped for one that had ended", CronMissed, skip, func(s *CronSchedule) { s.Launches[2] = launched(1005, 1005, 1005.3) }},
		{"skipped for another reason", CronMissed, skip, func(s *CronSchedule) { s.Skips[1].Reason = "SKIP_REASON_EDITED" }},
		{"skipped where all are launched", CronMissed, allow, func(s *CronSchedule) {
			s.Launches = slices.Delete(s.Launches, 4, 5)
			s.Skips = []CronSkip{over(1005, 1005)}
		}},
		{"skipped and not waited for", CronMissed, wait, func(s *CronSchedule) {
			s.Launches[1], s.Launches[2] = launched(1004, 1004, 1004.8), launched(1005, 1005, 1005.8)
			s.Skips = []CronSkip{over(1002, 1003)}
		}},
		{"launched long after its turn", CronLate, wait, func(s *CronSchedule) {
			s.Launches[3] = launched(1006, 1007.3, 1009.8)
			s.Skips = append(s.Skips, over(1007, 1007))
		}},
		{"waits in the end", "", wait, func(s *CronSchedule) {
			s.Launches[3] = launched(1006, 1006, 0)
			s.Launches = s.Launches[:4]
			s.Skips = append(s.Skips, CronSkip{From: ns(1007), To: ns(1007), Reason: CronQueued}, over(1008, 1010))
		}},
		{"waits in the end for nothing", CronMissed, wait, func(s *CronSchedule) {
			s.Launches = s.Launches[:4]
			s.Skips = append(s.Skips, CronSkip{From: ns(1007), To: ns(1007), Reason: CronQueued}, over(1008, 1010))
		}},
		{"its turn came as all was paused", "", wait, func(s *CronSchedule) {
			s.Launches[3] = launched(1006, 1006, 1011.2)
			s.Launches = s.Launches[:4]
			s.notEnqueued(1007, 1011.3)
			s.Skips = append(s.Skips, over(1008, 1010))
		}},
		{"its turn came, and it was not enqueued", CronMissed, wait, func(s *CronSchedule) {
			s.Launches = slices.Delete(s.Launches, 4, 5)
			s.notEnqueued(1007, 1007.1)
		}},
	} {
		all, o := kept()
		s := &all[0]
		s.Overlap = tc.overlap
		o.Healthy, o.Knows, o.Skew = []CronSkip{{From: ns(1001), To: ns(1011)}}, 1500*time.Millisecond, 10*time.Millisecond
		switch tc.overlap {
		case skip:
			s.Launches = []CronLaunch{launched(1001, 1001, 1003.5), launched(1004, 1004, 1004.4), launched(1005, 1005, 1009.2), launched(1010, 1010, 1010.5)}
			s.Skips = []CronSkip{over(1002, 1003), over(1006, 1009)}
		case wait:
			s.Launches = []CronLaunch{launched(1001, 1001, 1003.5), launched(1002, 1003.6, 1005.2), launched(1004, 1005.3, 1005.8), launched(1006, 1006, 1006.8)}
			s.Skips = []CronSkip{over(1003, 1003), over(1005, 1005)}
			for n := range 4 {
				at := float64(1007 + n)
				s.Launches = append(s.Launches, launched(at, at, at+0.5))
			}
		}
		tc.change(s)
		found := Cron(all, o)
		if tc.finds == "" && len(found) > 0 || tc.finds != "" && (len(found) == 0 || found[0].Invariant != tc.finds) {
			t.Errorf("%s: found %v, want %q", tc.name, found, tc.finds)
		}
	}
}

// TestWorks: the work on a task lasts from a grant to the call that ends it, and
// its end is known from the first answer of a majority.
func TestWorks(t *testing.T) {
	f := newForged(t, LedgerOptions{})
	a, b := f.enqueue(0, history.Spec{}), f.enqueue(0, history.Spec{})
	f.claim(1, 2, 1, 10, 12, a)
	f.write(5, 6, 1, history.Release, a, 10, 0)
	f.claim(7, 8, 1, 11, 20, a)
	f.write(9, 10, 1, history.Complete, a, 11, 0)
	f.write(11, 12, 1, history.Complete, a, 11, 0)
	f.claim(7, 8, 2, 12, 20, b)
	f.do(9, 10, 2, history.Event{Func: history.Complete, Weak: true, Items: []history.Item{{Task: b, Token: 12}}}, history.OK, history.Event{Items: []history.Item{{Task: b}}})
	sortByTime(f.events)
	got := Works(f.events)
	for task, want := range map[string]Work{
		a.String(): {Runs: []Window{{ns(2), ns(5)}, {ns(8), ns(9)}}, Asked: ns(9), Done: ns(10)},
		b.String(): {Runs: []Window{{ns(8), ns(9)}}, Asked: ns(9)},
	} {
		w := got[a]
		if task == b.String() {
			w = got[b]
		}
		if !slices.Equal(w.Runs, want.Runs) || w.Asked != want.Asked || w.Done != want.Done {
			t.Errorf("work on %s: %+v, want %+v", task, w, want)
		}
	}
}

// TestOverlapsAreCounted: a run in which no policy had anything to decide proves
// nothing.
func TestOverlapsAreCounted(t *testing.T) {
	all := []CronSchedule{
		{Launches: []CronLaunch{launched(1, 1, 5), launched(2, 2, 3), launched(6, 6, 7)}},
		{Overlap: nornv1.Overlap_OVERLAP_QUEUE_ONE, Launches: []CronLaunch{launched(1, 1, 5), launched(2, 5, 6)}, Skips: []CronSkip{over(3, 5)}},
	}
	if got := CronOverlaps(all); got != (Overlaps{Beside: 1, Skipped: 1, Waited: 1}) {
		t.Errorf("%+v", got)
	}
}
