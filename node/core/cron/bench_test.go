package cron

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// many is how many schedules a machine of a benchmark has.
const many = 100_000

// BenchmarkIdle is a look at 100,000 schedules of which none is due: once a
// second, whatever happens.
func BenchmarkIdle(b *testing.B) {
	w := newWorld(b)
	w.fill(many, "0 0 1 1 *")
	w.turn()
	b.ReportAllocs()
	for b.Loop() {
		w.now = w.now.Add(time.Second)
		out := w.machine.Work(w.now)
		if _, mono := w.machine.Next(w.now); len(out.Commits) > 0 || mono < w.now.Mono {
			b.Fatal("it does something")
		}
	}
}

// BenchmarkLaunch is one launch among 100,000 schedules from begin to the end of
// its task, with the changes of the register's state, without disk and network.
func BenchmarkLaunch(b *testing.B) {
	const due = 1000 // in each second
	w := newWorld(b)
	w.fill(many-due, "0 0 1 1 *")
	e, req := w.editor(), &register.Request{}
	for i := range due {
		s := spec("* * * * * *")
		edit, err := e.Put(fmt.Sprintf("second-%04d", i), nil, 0, &nornv1.PutSchedule{Spec: s})
		if err != nil {
			b.Fatal(err)
		}
		req.Schedules = append(req.Schedules, *edit.Change)
	}
	w.apply(req)
	w.turn()
	b.ReportAllocs()
	launches := 0
	for b.Loop() {
		w.now = w.now.Add(time.Second)
		w.turn()
		for task := range w.tasks { // Any order: all are finished.
			w.machine.Finished(w.now, task, crdt.StateCompleted)
		}
		w.turn()
		if launches += len(w.tasks); len(w.tasks) != due {
			b.Fatalf("%d launches in a second", len(w.tasks))
		}
		clear(w.tasks)
		clear(w.begun)
		clear(w.asked)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(launches), "ns/launch")
}

// BenchmarkTakeOver is what a follower of 100,000 schedules does from the word
// that it leads to its first commit as master: nothing is loaded.
func BenchmarkTakeOver(b *testing.B) {
	w := newWorld(b)
	w.fill(many, "0 0 1 1 *")
	w.turn()
	for b.Loop() {
		w.machine.Lead(w.now, false)
		w.machine.Lead(w.now, true)
		out := w.machine.Work(w.now)
		if len(out.Commits) != 1 || out.Commits[0].Request.Master == nil {
			b.Fatal("it does not take the mastership")
		}
		w.machine.Committed(w.now, &out.Commits[0], w.apply(&out.Commits[0].Request))
		if out = w.machine.Work(w.now); len(out.Commits) > 0 || !w.machine.Stats(w.now).Master {
			b.Fatal("it is not master")
		}
	}
}

// BenchmarkRead is what each node spends on one of many schedules that have
// changed: a node that starts reads all of them.
func BenchmarkRead(b *testing.B) {
	w := newWorld(b)
	w.fill(10_000, "30 2 * * *")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		m := New(w.machine.cfg)
		m.Observe(w.now, &w.state)
		for _, mono := m.Next(w.now); mono != clock.Never; _, mono = m.Next(w.now) {
			m.Work(w.now)
		}
		n += 10_000
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/schedule")
}
