package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestAForgottenLaunchIsConcluded: a task that ended while nobody was master, and
// whose tombstone has gone since, is concluded, as unknown: its schedule goes on.
// One that is there and just takes long is not.
func TestAForgottenLaunchIsConcluded(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"gone", "long"} {
		s := spec("* * * * * *")
		s.Overlap, s.PauseOnFailure = nornv1.Overlap_OVERLAP_SKIP, true
		w.put(name, s)
	}
	w.pass(time.Second)
	first := w.show("gone").GetLast()
	gone, err := id.Parse(first.GetTaskId())
	if err != nil || len(w.tasks) != 2 {
		t.Fatal(err, w.tasks)
	}
	delete(w.tasks, gone)
	w.pass(grace - 10*time.Second)
	if s := w.show("gone"); s.GetLaunches() != 1 || s.GetRunning() != 1 || w.sought != 0 {
		t.Fatalf("before gc-grace, %d looks: %v", w.sought, s)
	}
	w.succeed() // the count of looks is not kept, and need not be
	w.pass(20 * time.Second)
	s := w.show("gone")
	if s.GetLaunches() != 2 || s.GetRunning() != 1 || s.GetFailed() != 0 || s.GetSpec().GetPaused() {
		t.Fatalf("after %d looks: %v", w.sought, s)
	}
	n := 0
	for _, l := range s.GetHistory() {
		if l.GetTaskId() != first.GetTaskId() {
			continue
		}
		if n++; l.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_UNKNOWN || l.GetNote() == "" || l.GetFinished() == nil {
			t.Errorf("it is shown as %v", l)
		}
	}
	if n != 1 {
		t.Errorf("the history has it %d times: %v", n, s.GetHistory())
	}
	if s := w.show("long"); s.GetLaunches() != 1 || s.GetRunning() != 1 {
		t.Errorf("the one that is there: %v", s)
	}
}

// TestLooksForForgottenTasksAreBounded: they come round in turn, and however many
// tasks run for long, a look asks about a few.
func TestLooksForForgottenTasksAreBounded(t *testing.T) {
	const n = 100
	w := newWorld(t)
	w.fill(n, "5 0 * * *")
	w.pass(10*time.Minute + grace)
	running := w.machine.Stats(w.now).Running
	seen := map[id.ID]bool{}
	for range n/maxSeek + 2 {
		w.now = w.now.Add(askEvery)
		out := w.machine.Work(w.now)
		if len(out.Seek) > maxSeek {
			t.Fatalf("%d in one look", len(out.Seek))
		}
		for _, task := range out.Seek {
			seen[task] = true
		}
	}
	if running != n || len(seen) != n {
		t.Errorf("of %d that run %d were looked for", running, len(seen))
	}
}

// TestAfterARebuildWhatRanIsSought: all nodes are lost, and the cluster begins anew from a
// snapshot in which a task runs that nobody has any more. Its schedule goes on at once, not
// after gc-grace. One that is there again keeps its schedule, and so does one that nobody
// finds after a forced restart: the tasks are those of before.
func TestAfterARebuildWhatRanIsSought(t *testing.T) {
	self := register.Node{Member: register.Member{Node: "n1", Incarnation: register.Incarnation{1}}}
	for _, tc := range []struct {
		what         string
		gone, forced bool
		want         uint64
		status       nornv1.LaunchStatus
	}{
		{"lost", true, false, 2, nornv1.LaunchStatus_LAUNCH_STATUS_UNKNOWN},
		{"there again", false, false, 1, nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING},
		{"forced", true, true, 1, nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING},
	} {
		w := newWorld(t)
		s := spec("* * * * * *")
		s.Overlap = nornv1.Overlap_OVERLAP_SKIP
		w.put("a", s)
		w.pass(time.Second)
		if tc.gone {
			clear(w.tasks)
		}
		if w.state = w.state.Rebuilt(self, w.state.Generation+1, w.now.Wall); tc.forced {
			w.state.Values = nil
		}
		w.succeed()
		w.pass(time.Minute)
		got := w.show("a")
		history := got.GetHistory()
		if first := history[len(history)-1]; got.GetLaunches() != tc.want || first.GetStatus() != tc.status || got.GetRunning() != 1 {
			t.Errorf("%s: %d launches, the first one is %v", tc.what, got.GetLaunches(), first)
		}
	}
}
