package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/check"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// cronRun is a cluster of processes that launches schedules while its master is
// attacked.
type cronRun struct {
	*company
	c      *client.Client
	t      *testing.T
	all    []check.CronSchedule
	faulty []check.CronSkip // when something was wrong, with the time to recover
}

// newCronRun makes schedules of each second and of each minute.
func newCronRun(t *testing.T, seconds, minutes int) *cronRun {
	r := &cronRun{company: startCompany(t, 3), t: t}
	var addrs []string
	for _, p := range r.company.all {
		addrs = append(addrs, p.listen)
	}
	var err error
	if r.c, err = client.Dial(t.Context(), addrs, client.WithTimeout(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.c.Close() })
	var named []client.NamedSpec
	asked := time.Now()
	add := func(n int, prefix, spec string) {
		for i := range n {
			name := fmt.Sprintf("%s-%04d", prefix, i)
			named = append(named, client.NamedSpec{Name: name, Spec: &nornv1.ScheduleSpec{Cron: spec, History: 500, Task: &nornv1.TaskSpec{Queue: "cron-" + prefix}}})
			r.all = append(r.all, check.CronSchedule{Name: name, Spec: spec, Asked: asked.UnixNano()})
		}
	}
	add(seconds, "second", "* * * * * *")
	add(minutes, "minute", "0 * * * * *")
	results, err := r.c.Schedules().PutMany(t.Context(), named)
	if err != nil {
		t.Fatal(err)
	}
	for i, res := range results {
		if res.GetError() != nil {
			t.Fatal(res.GetError())
		}
		r.all[i].Created = time.Now().UnixNano()
	}
	return r
}

// master is the process that launches.
func (r *cronRun) master() *process {
	r.t.Helper()
	var name string
	r.until("there is a master", func() bool {
		s, err := r.c.Schedules().Status(r.t.Context())
		name = s.GetMaster()
		return err == nil && name != ""
	})
	for _, p := range r.company.all {
		if p.name == name {
			return p
		}
	}
	r.t.Fatalf("%s is the master", name)
	return nil
}

// until waits until something is so.
func (r *cronRun) until(what string, is func() bool) {
	r.t.Helper()
	end := time.Now().Add(patience)
	for !is() {
		if time.Now().After(end) {
			r.t.Fatalf("it never comes to that: %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// launches waits until the second schedules go on: one of them has a launch after
// a time.
func (r *cronRun) launches(after time.Time) (gap time.Duration) {
	r.t.Helper()
	r.until("launches go on", func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
		defer cancel()
		s, err := r.c.Schedules().Get(ctx, r.all[0].Name)
		for _, l := range s.GetHistory() {
			if begun := l.GetBegun(); begun != nil && begun.AsTime().After(after) {
				gap = begun.AsTime().Sub(after)
			}
		}
		return err == nil && gap > 0
	})
	return gap
}

// attack does something to the master, waits until launches go on, and ends it.
func (r *cronRun) attack(what string, begin func(*process), end func(*process)) time.Duration {
	r.t.Helper()
	m := r.master()
	from := time.Now()
	begin(m)
	gap := r.launches(from.Add(10 * time.Millisecond))
	end(m)
	r.launches(time.Now())
	r.faulty = append(r.faulty, check.CronSkip{From: from.Add(-2 * time.Second).UnixNano(), To: time.Now().Add(5 * time.Second).UnixNano()})
	r.t.Logf("%s %s: the next launch was begun %v later", what, m.name, gap.Round(time.Millisecond))
	return gap
}

// judge pauses everything, reads it and judges it.
func (r *cronRun) judge() {
	r.t.Helper()
	ctx := r.t.Context()
	byName := map[string]*check.CronSchedule{}
	begun := map[string]int64{}
	for i := range r.all {
		s := &r.all[i]
		byName[s.Name] = s
		s.Ended = time.Now().Add(-3 * time.Second).UnixNano()
		if _, err := r.c.Schedules().Pause(ctx, s.Name, "the end"); err != nil {
			r.t.Fatal(err)
		}
	}
	for i := range r.all {
		s := &r.all[i]
		found, err := r.c.Schedules().Get(ctx, s.Name)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, l := range found.GetHistory() {
			s.Told(l)
			begun[l.GetTaskId()] = l.GetBegun().AsTime().UnixNano()
		}
		if n := len(found.GetHistory()); n == 500 {
			s.Forgotten = found.GetHistory()[n-1].GetInstant().AsTime().UnixNano()
		}
	}
	for _, queue := range []string{"cron-second", "cron-minute"} {
		for task, err := range r.c.List(ctx, client.Filter{Queue: queue}) {
			if err != nil {
				r.t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, task.GetHeaders()["norn-instant"])
			s := byName[task.GetHeaders()["norn-schedule"]]
			if err != nil || s == nil {
				r.t.Fatalf("task %s is of no schedule: %v", task.GetId(), task.GetHeaders())
			}
			s.Launches = append(s.Launches, check.CronLaunch{Instant: at.UnixNano(), Task: task.GetId(), Begun: begun[task.GetId()]})
		}
	}
	n := 0
	for i := range r.all {
		n += len(r.all[i].Launches)
	}
	r.t.Logf("%d schedules, %d launches", len(r.all), n)
	for _, v := range check.Cron(r.all, check.CronOptions{Healthy: r.healthy(), Deadline: 10 * time.Second, Limit: time.Hour}) {
		r.t.Errorf("%s: %s", v.Invariant, v.Text)
	}
}

// healthy is what lies between the attacks.
func (r *cronRun) healthy() (out []check.CronSkip) {
	from := r.all[len(r.all)-1].Created + int64(5*time.Second)
	for _, f := range append(slices.Clone(r.faulty), check.CronSkip{From: r.all[0].Ended}) {
		if f.From > from {
			out = append(out, check.CronSkip{From: from, To: f.From - 1})
		}
		from = f.To
	}
	return out
}

// cronAttack runs attacks on the master; NORN_TEST_ATTACKS says how many.
func cronAttack(t *testing.T, what string, begin func(*process), end func(*process)) {
	thorough(t)
	r := newCronRun(t, number("NORN_TEST_SECONDS", 50), number("NORN_TEST_MINUTES", 1000))
	r.launches(time.Now())
	var gaps []string
	attacks := number("NORN_TEST_ATTACKS", 3)
	for i := range attacks {
		if i == attacks-1 { // right when the schedules of each minute are due
			due := time.Now().Truncate(time.Minute).Add(time.Minute)
			<-time.After(time.Until(due.Add(-200 * time.Millisecond)))
		}
		gaps = append(gaps, r.attack(what, begin, end).Round(time.Millisecond).String())
	}
	t.Logf("%s: %s", what, strings.Join(gaps, " "))
	<-time.After(5 * time.Second) // those of the minute, too
	r.judge()
}

// TestClusterCronKilled: the master is killed again and again; no launch is
// doubled, none is missed.
func TestClusterCronKilled(t *testing.T) {
	cronAttack(t, "killed", func(p *process) { p.kill(t) }, func(p *process) { p.start(t) })
}

// TestClusterCronFrozen: the master does not answer for a while, and goes on then
// as if nothing had been.
func TestClusterCronFrozen(t *testing.T) {
	cronAttack(t, "frozen", func(p *process) { p.signal(t, syscall.SIGSTOP) }, func(p *process) { p.signal(t, syscall.SIGCONT) })
}
