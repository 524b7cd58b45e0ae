package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// timewarp is a cluster whose nodes' clocks are all set wrong at once, with a
// schedule of each second for every catch-up policy.
type timewarp struct {
	*cronRun
	file    clockFile
	off     time.Duration // what the file says
	elapsed time.Duration // from one change of the clock to the next
}

// cronStep is one change of the clock.
type cronStep struct {
	to        time.Duration // off the true time
	suspended bool          // the processes do not run meanwhile
}

// caught is how many instants catch-up all launches in this test.
const caught = 30

func newTimewarp(t *testing.T, nodes int) *timewarp {
	wrongBuild(t)
	w := &timewarp{file: newClockFile(t), elapsed: 4 * time.Second}
	c := newCompany(t, "--test-clock-file", string(w.file))
	for range nodes {
		c.add().start(t)
	}
	c.settled(nodes)
	w.cronRun = newCronRun(c, 0, 0)
	for name, policy := range map[string]nornv1.CatchUp{"latest": nornv1.CatchUp_CATCH_UP_LATEST, "none": nornv1.CatchUp_CATCH_UP_NONE, "all": nornv1.CatchUp_CATCH_UP_ALL} { // Any order: each is by itself.
		spec := &nornv1.ScheduleSpec{Cron: "* * * * * *", CatchUp: policy, CatchUpCount: caught, History: 500, Task: &nornv1.TaskSpec{Queue: "warp"}}
		if _, err := w.c.Schedules().Put(t.Context(), name, spec, client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range w.names() {
		w.until(name+" is launched", func() bool { return len(w.get(name).GetHistory()) > 2 })
	}
	return w
}

func (w *timewarp) names() []string { return []string{"all", "latest", "none"} }

func (w *timewarp) get(name string) *nornv1.Schedule {
	w.t.Helper()
	var found *nornv1.Schedule
	w.until("the schedule can be read", func() (ok bool) {
		var err error
		found, err = w.c.Schedules().Get(w.t.Context(), name)
		return err == nil
	})
	return found
}

// step changes the clock, waits until every schedule has been decided about, and
// holds what came of it to the policies.
func (w *timewarp) step(s cronStep) {
	w.t.Helper()
	before, spent := map[string]*nornv1.Schedule{}, 0.0
	for _, name := range w.names() {
		before[name] = w.get(name)
	}
	for _, p := range w.company.all {
		spent -= p.spent(w.t)
		if s.suspended {
			p.signal(w.t, syscall.SIGSTOP)
		}
	}
	jump := s.to - w.off
	w.file.set(w.t, s.to.String())
	if w.off = s.to; s.suspended {
		<-time.After(time.Second) // as long as a suspension takes for those inside
		for _, p := range w.company.all {
			p.signal(w.t, syscall.SIGCONT)
		}
	}
	at := time.Now().Add(s.to) // what the clocks show
	end := time.After(w.elapsed)
	var delays []time.Duration
	for _, name := range w.names() {
		if s.to < 0 {
			w.waits(name, -s.to)
			continue
		}
		delays = append(delays, w.decided(name, at))
	}
	<-end
	passed := int(time.Now().Add(w.off).Sub(at)/time.Second) + 3
	for _, name := range w.names() {
		w.bounded(name, before[name], jump, passed)
	}
	for _, p := range w.company.all {
		spent += p.spent(w.t)
	}
	most, _ := summary(delays)
	w.t.Logf("from %v to %v off, suspended %v: decided after %v, %.1f s of processor time in %d s", w.off-jump, w.off, s.suspended, most.Round(time.Millisecond), spent, passed-3)
	if most > time.Second && number("NORN_TEST_BARS", 0) > 0 {
		w.t.Errorf("it was decided after %v", most)
	}
	if limit := float64(10 * len(w.company.all)); spent > limit {
		w.t.Errorf("%.1f s of processor time, over %.0f", spent, limit)
	}
}

// waits wants a schedule to say that the clock is behind.
func (w *timewarp) waits(name string, behind time.Duration) {
	w.t.Helper()
	w.until(name+" says that the clock is behind", func() bool {
		ahead := time.Duration(w.get(name).GetAheadSeconds() * float64(time.Second))
		return ahead > behind-time.Minute && ahead < behind+time.Minute
	})
}

// decided waits for a launch that was begun after the change, and gives how long
// after it, or after its instant if that came later.
func (w *timewarp) decided(name string, at time.Time) (delay time.Duration) {
	w.t.Helper()
	w.until(name+" is launched after the clock was set", func() bool {
		found := false
		for _, l := range w.get(name).GetHistory() { // the newest first
			begun := l.GetBegun().AsTime()
			if l.GetKind() != nornv1.LaunchKind_LAUNCH_KIND_LAUNCH || begun.Before(at) || begun.After(at.Add(10*time.Minute)) {
				continue
			}
			since := at
			if due := l.GetInstant().AsTime(); due.After(at) {
				since = due
			}
			if d := begun.Sub(since); !found || d < delay {
				delay, found = d, true
			}
		}
		return found
	})
	return delay
}

// bounded holds how much was launched to the policy, passed being how many
// seconds may have come due since the change.
func (w *timewarp) bounded(name string, before *nornv1.Schedule, jump time.Duration, passed int) {
	w.t.Helper()
	after := w.get(name)
	got, most := int(after.GetLaunches()-before.GetLaunches()), passed
	switch {
	case jump > time.Minute && w.off > 0:
		if most += 61; name == "all" { // what is a minute late is on time
			most += caught
		}
		if got < most-passed-3 {
			w.t.Errorf("%s: %d launches after a jump by %v, at least %d were due", name, got, jump, most-passed-3)
		}
		w.told(name, before, after)
	case w.off < 0:
		most = 3 // what was under way
	default: // it is right again: what was not launched meanwhile is less than a minute late
		most += int(w.elapsed/time.Second) + int(patience/time.Second)
	}
	if got > most {
		w.t.Errorf("%s: %d launches after a jump by %v, over %d", name, got, jump, most)
	}
}

// told wants a reason for each instant between the launches before a jump ahead
// and those after it.
func (w *timewarp) told(name string, before, after *nornv1.Schedule) {
	w.t.Helper()
	from, to := before.GetLast().GetInstant().AsTime().Add(10*time.Second), time.Time{}
	for _, l := range after.GetHistory() {
		if at := l.GetInstant().AsTime(); l.GetKind() == nornv1.LaunchKind_LAUNCH_KIND_LAUNCH && at.After(from.Add(10*time.Minute)) && (to.IsZero() || at.Before(to)) {
			to = at
		}
	}
	covered := from
	for _, l := range slices.Backward(after.GetHistory()) { // the oldest first
		if l.GetKind() == nornv1.LaunchKind_LAUNCH_KIND_SKIP && !l.GetInstant().AsTime().After(covered) && l.GetTo().AsTime().After(covered) {
			covered = l.GetTo().AsTime().Add(time.Second)
		}
	}
	if to.IsZero() || covered.Before(to) {
		w.t.Errorf("%s: what came of the instants from %v to %v is told up to %v", name, from, to, covered)
	}
}

// once wants one task of each instant.
func (w *timewarp) once() {
	w.t.Helper()
	seen := map[string]bool{}
	for task, err := range w.c.List(w.t.Context(), client.Filter{Queue: "warp", PageSize: 1000}) {
		if err != nil {
			w.t.Fatal(err)
		}
		key := task.GetHeaders()["norn-schedule"] + " " + task.GetHeaders()["norn-instant"]
		if seen[key] {
			w.t.Errorf("%s was launched twice", key)
		}
		seen[key] = true
	}
	w.t.Logf("%d tasks, none of the same schedule and instant as another", len(seen))
}

// Of clocks.
const (
	oneDay  = 24 * time.Hour
	oneYear = 365 * oneDay
)

// TestClusterCronClocks: the wall clock jumps by an hour and by a year, ahead and
// back, and the machine is suspended for a day; policies are kept, nothing is
// launched twice, and it costs next to nothing.
func TestClusterCronClocks(t *testing.T) {
	thorough(t)
	w := newTimewarp(t, 1)
	for _, s := range []cronStep{
		{}, {to: time.Hour}, {}, {to: oneYear}, {}, {to: oneDay, suspended: true}, {}, {to: -time.Hour}, {}, {to: -oneYear}, {},
	} {
		w.step(s)
	}
	w.once()
}

// TestClusterCronClocksOfAll: the same of three nodes, whose clocks are set at
// about the same time.
func TestClusterCronClocksOfAll(t *testing.T) {
	thorough(t)
	w := newTimewarp(t, 3)
	for _, s := range []cronStep{{}, {to: time.Hour}, {}, {to: oneDay, suspended: true}, {}} {
		w.step(s)
	}
	w.once()
	if t.Failed() {
		for _, name := range w.names() {
			t.Log(fmt.Sprint(w.get(name)))
		}
	}
}
