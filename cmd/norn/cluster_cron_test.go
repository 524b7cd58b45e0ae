package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
	c       *client.Client   // of all nodes
	clients []*client.Client // of one each
	t       *testing.T
	all     []check.CronSchedule
	faulty  []check.CronSkip // when something was wrong, with the time to recover
	gaps    []time.Duration  // from each attack to the next launch
	// lateness is how late the latest launch was enqueued that was due around each
	// attack.
	lateness []time.Duration
}

// newCronRun makes schedules of each second and of each minute.
func newCronRun(c *company, seconds, minutes int) *cronRun {
	r := &cronRun{company: c, t: c.t}
	t := c.t
	dial := func(addrs ...string) *client.Client {
		made, err := client.Dial(t.Context(), addrs, client.WithTimeout(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = made.Close() })
		return made
	}
	for _, addr := range c.addresses() {
		r.clients = append(r.clients, dial(addr))
	}
	r.c = dial(c.addresses()...)
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
	for part := range slices.Chunk(named, 1000) { // as many as a request may have
		results, err := r.c.Schedules().PutMany(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range results {
			if res.GetError() != nil {
				t.Fatal(res.GetError())
			}
		}
	}
	for i := range r.all {
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
// a time. It asks the nodes but the one that is attacked; nil is none.
func (r *cronRun) launches(after time.Time, attacked *process) (gap time.Duration) {
	r.t.Helper()
	turn := 0
	r.until("launches go on", func() bool {
		if turn++; r.company.all[turn%len(r.clients)] == attacked {
			turn++
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
		defer cancel()
		s, err := r.clients[turn%len(r.clients)].Schedules().Get(ctx, r.all[0].Name)
		for _, l := range s.GetHistory() { // the newest first
			if begun := l.GetBegun(); begun != nil && begun.AsTime().After(after) {
				gap = begun.AsTime().Sub(after)
			}
		}
		return err == nil && gap > 0
	})
	return gap
}

// cronFault is something that is done to the master.
type cronFault struct {
	name       string
	begin, end func(*process)
	bar        time.Duration // how late the next launches may be
}

// attack does something to the master, waits until launches go on, ends it, and
// waits until the cluster is whole again.
func (r *cronRun) attack(f *cronFault) {
	r.t.Helper()
	m := r.master()
	from := time.Now()
	f.begin(m)
	gap := r.launches(from.Add(10*time.Millisecond), m)
	f.end(m)
	r.launches(time.Now(), nil)
	r.settled(3)
	r.launches(time.Now(), nil)
	r.faulty = append(r.faulty, check.CronSkip{From: from.Add(-2 * time.Second).UnixNano(), To: time.Now().Add(5 * time.Second).UnixNano()})
	r.gaps = append(r.gaps, gap)
	r.t.Logf("%s %s: the next launch was begun %v later", f.name, m.name, gap.Round(time.Millisecond))
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
			r.late(l)
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
	n, skipped := 0, 0
	for i := range r.all {
		n += len(r.all[i].Launches)
		skipped += len(r.all[i].Skips)
	}
	r.t.Logf("%d schedules, %d launches, %d ranges of instants skipped", len(r.all), n, skipped)
	if skipped > 0 && !r.outlasts(time.Minute) { // what is a minute late is on time, whatever the policy
		r.t.Errorf("%d ranges of instants were skipped", skipped)
	}
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

// outlasts tells whether an attack kept everything from being launched for so
// long.
func (r *cronRun) outlasts(d time.Duration) bool {
	return slices.Max(r.gaps) > d-2*time.Second
}

// late takes in how late a launch was enqueued, if it was due around an attack.
func (r *cronRun) late(l *nornv1.Launch) {
	at, done := l.GetInstant().AsTime(), l.GetEnqueued().AsTime()
	if l.GetKind() != nornv1.LaunchKind_LAUNCH_KIND_LAUNCH || l.GetEnqueued() == nil {
		return
	}
	for i := range r.faulty {
		from := time.Unix(0, r.faulty[i].From).Add(time.Second) // a second before the attack
		if until := from.Add(time.Second + r.gaps[i] + time.Second); !at.Before(from) && at.Before(until) {
			for len(r.lateness) <= i {
				r.lateness = append(r.lateness, 0)
			}
			r.lateness[i] = max(r.lateness[i], done.Sub(at))
		}
	}
}

// summary is the median and the most of some times, and all of them.
func summary(all []time.Duration) (most time.Duration, text string) {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0, "none"
	}
	most = sorted[len(sorted)-1]
	text = fmt.Sprintf("median %v, max %v of %d:", sorted[len(sorted)/2].Round(time.Millisecond), most.Round(time.Millisecond), len(sorted))
	for _, d := range all {
		text += " " + d.Round(time.Millisecond).String()
	}
	return most, text
}

// suffer has the master attacked again and again; NORN_TEST_ATTACKS says how
// often. With NORN_TEST_BARS how late launches are is judged as well.
func (r *cronRun) suffer(f *cronFault) {
	r.t.Helper()
	r.launches(time.Now(), nil)
	attacks := number("NORN_TEST_ATTACKS", 3)
	for i := range attacks {
		if i == attacks-1 { // right when the schedules of each minute are due
			due := time.Now().Truncate(time.Minute).Add(time.Minute)
			<-time.After(time.Until(due.Add(-200 * time.Millisecond)))
		} else { // somewhere in a second
			<-time.After(rand.N(time.Second))
		}
		r.attack(f)
	}
	<-time.After(5 * time.Second) // those of the minute, too
	r.judge()
	_, gaps := summary(r.gaps)
	worst, late := summary(r.lateness)
	r.t.Logf("%s: from the attack to the next launch: %s", f.name, gaps)
	r.t.Logf("%s: the latest launch of each attack was enqueued late by: %s", f.name, late)
	if worst > f.bar && number("NORN_TEST_BARS", 0) > 0 {
		r.t.Errorf("%s: a launch was enqueued %v late, over %v", f.name, worst, f.bar)
	}
}

// cronSizes are how many schedules there are of each second and of each minute.
func cronSizes() (seconds, minutes int) {
	return number("NORN_TEST_SECONDS", 50), number("NORN_TEST_MINUTES", 1000)
}

// TestClusterCronKilled: the master is killed again and again; no launch is
// doubled, none is missed.
func TestClusterCronKilled(t *testing.T) {
	thorough(t)
	seconds, minutes := cronSizes()
	r := newCronRun(startCompany(t, 3), seconds, minutes)
	r.suffer(&cronFault{"killed", func(p *process) { p.kill(t) }, func(p *process) { p.start(t) }, 2 * time.Second})
}

// TestClusterCronFrozen: the master does not answer for a while, and goes on then
// as if nothing had been.
func TestClusterCronFrozen(t *testing.T) {
	thorough(t)
	seconds, minutes := cronSizes()
	r := newCronRun(startCompany(t, 3), seconds, minutes)
	r.suffer(&cronFault{"frozen", func(p *process) { p.signal(t, syscall.SIGSTOP) }, func(p *process) { p.signal(t, syscall.SIGCONT) }, 5 * time.Second})
}

// TestClusterCronPartitioned: the other nodes and the master do not reach each
// other for a while; clients reach all of them.
func TestClusterCronPartitioned(t *testing.T) {
	thorough(t)
	c := wired(t)
	for range 3 {
		c.add().start(t)
	}
	c.settled(3)
	seconds, minutes := cronSizes()
	r := newCronRun(c, seconds, minutes)
	r.suffer(&cronFault{"partitioned", c.isolate, func(*process) { c.heal() }, 5 * time.Second})
}
