package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// memory is what a process has in memory, in bytes: now, and at most so far.
func (p *process) memory(t *testing.T) (now, most int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.s.cmd.Process.Pid))
	if err != nil {
		t.Skip("needs /proc")
	}
	read := func(name string) int {
		_, rest, _ := strings.Cut(string(b), name+":")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		return n << 10
	}
	return read("VmRSS"), read("VmHWM")
}

// crowd are schedules of a company: many of each day, at any minute, and some
// that are all due in one second.
type crowd struct {
	*cronRun
	size int
	at   time.Time
}

// put makes so many more schedules.
func (r *crowd) put(n int, queue, spec string) {
	r.t.Helper()
	var named []client.NamedSpec
	for i := range n {
		named = append(named, client.NamedSpec{Name: fmt.Sprintf("team-%02d/%s-%06d", i%30, queue, i), Spec: &nornv1.ScheduleSpec{
			Cron: spec, Task: &nornv1.TaskSpec{Queue: queue, Payload: []byte(`{"report": "yesterday"}`)},
		}})
	}
	results, err := r.c.Schedules().PutMany(r.t.Context(), named)
	if err != nil || len(results) != n {
		r.t.Fatal(err)
	}
	for _, res := range results {
		if res.GetError() != nil {
			r.t.Fatal(res.GetError())
		}
	}
	r.size += n
}

// launched waits until so many schedules of a queue have had their launch, and
// gives how late each was begun and enqueued, sorted.
func (r *crowd) launched(queue string, n int) (begun, enqueued []time.Duration) {
	r.t.Helper()
	r.until("all are launched", func() bool {
		begun, enqueued = nil, nil
		for s, err := range r.c.Schedules().List(r.t.Context()) {
			if err != nil {
				return false
			}
			if l := s.GetLast(); s.GetSpec().GetTask().GetQueue() == queue && l.GetEnqueued() != nil {
				begun = append(begun, l.GetBegun().AsTime().Sub(r.at))
				enqueued = append(enqueued, l.GetEnqueued().AsTime().Sub(r.at))
			}
		}
		return len(enqueued) == n
	})
	slices.Sort(begun)
	slices.Sort(enqueued)
	return begun, enqueued
}

// TestClusterCronCrowd: a node keeps many schedules in little memory, and those
// that are due in one second are all enqueued soon after: each as one task.
func TestClusterCronCrowd(t *testing.T) {
	thorough(t)
	many, due := number("NORN_TEST_SCHEDULES", 20_000), number("NORN_TEST_DUE", 2000)
	c := startCompany(t, 3, "--memtable-size", "24MiB") // the default
	r := &crowd{cronRun: newCronRun(c, 0, 0)}
	began := time.Now()
	r.put(many-due, "daily", "? ? * * *")
	r.at = time.Now().Add(time.Minute).Truncate(time.Second)
	r.put(due, "crowd", r.at.UTC().Format("5 4 15 * * *"))
	t.Logf("%d schedules were made in %v", r.size, time.Since(began).Round(100*time.Millisecond))
	before := map[*process]int{}
	for _, p := range c.all {
		before[p], _ = p.memory(t)
	}
	if time.Now().After(r.at.Add(-time.Second)) {
		t.Fatalf("making them took too long: the crowd was due at %v", r.at)
	}
	master := r.master()
	<-time.After(time.Until(r.at.Add(2 * time.Second)))
	begun, enqueued := r.launched("crowd", due)
	t.Logf("%d launches of one second: the last was begun %v late, and enqueued %v late (median %v)", due,
		begun[due-1].Round(time.Millisecond), enqueued[due-1].Round(time.Millisecond), enqueued[due/2].Round(time.Millisecond))
	for _, p := range c.all {
		now, most := p.memory(t)
		t.Logf("%s, master %v: %d MiB before, %d MiB now, %d MiB at most", p.name, p == master, before[p]>>20, now>>20, most>>20)
		if limit := 200 << 20; p == master && most > limit && number("NORN_TEST_BARS", 0) > 0 {
			t.Errorf("the master of %d schedules has had %d MiB", r.size, most>>20)
		}
	}
	if late := enqueued[due-1]; late > 3*time.Second && number("NORN_TEST_BARS", 0) > 0 {
		t.Errorf("the last launch was enqueued %v late", late)
	}
	seen := map[string]bool{}
	for task, err := range r.c.List(t.Context(), client.Filter{Queue: "crowd", PageSize: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		seen[task.GetHeaders()["norn-schedule"]] = true
		if at := task.GetHeaders()["norn-instant"]; at != r.at.UTC().Format(time.RFC3339) {
			t.Fatalf("a task of %s", at)
		}
	}
	r.counted("crowd", due)
	if len(seen) != due {
		t.Errorf("%d of %d schedules have a task", len(seen), due)
	}
}

// counted wants a number of tasks in a queue.
func (r *crowd) counted(queue string, want int) {
	r.t.Helper()
	got, err := r.c.Count(r.t.Context(), queue)
	if err != nil || got.GetTotal().GetTotal() != uint64(want) {
		r.t.Errorf("%d tasks in %s, %v", got.GetTotal().GetTotal(), queue, err)
	}
}
