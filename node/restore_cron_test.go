package node

import (
	"path/filepath"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register/snapshots"
)

// scheduleOf gives a schedule with its history.
func scheduleOf(t *testing.T, n *Node, name string) *nornv1.Schedule {
	t.Helper()
	all := through(t, n, nornv1.Method_METHOD_SCHEDULES, &nornv1.SchedulesRequest{Names: []string{name}, History: true}, &nornv1.SchedulesReply{}).Schedules
	if len(all) != 1 {
		t.Fatalf("%d schedules", len(all))
	}
	return all[0]
}

// instants gives those that tasks of a queue were launched for, and how often.
func instants(t *testing.T, n *Node, queue string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, task := range through(t, n, nornv1.Method_METHOD_LIST, &nornv1.ListRequest{Queue: queue, Limit: 1000}, &nornv1.ListReply{}).Tasks {
		all[task.Headers["norn-instant"]]++
	}
	return all
}

// TestSchedulesComeBackWithTheSnapshot: a cluster with a schedule of a second that
// catches up whatever it misses is lost. Begun anew from a snapshot it launches
// again by itself, but nothing of the time between the snapshot and the restore:
// that was launched, or may have been, and is reported as in doubt. When the old
// disk is taken in, each instant still has at most one task.
func TestSchedulesComeBackWithTheSnapshot(t *testing.T) {
	t.Parallel() // it waits most of the time
	place := filepath.Join(t.TempDir(), "snapshots")
	c := backupConfig(t, "n1", place)
	lost := start(t, c, Options{})
	through(t, lost, nornv1.Method_METHOD_CHANGE_SCHEDULES, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{
		Name: "tick", Action: &nornv1.ScheduleChange_Put{Put: &nornv1.PutSchedule{Spec: &nornv1.ScheduleSpec{
			Cron: "* * * * * *", Task: &nornv1.TaskSpec{Queue: "ticks"}, Overlap: nornv1.Overlap_OVERLAP_ALLOW,
			CatchUp: nornv1.CatchUp_CATCH_UP_ALL, CatchUpCount: 1000, History: 500,
		}}}}}}, &nornv1.ChangeSchedulesReply{})
	eventually(t, "a launch", func() bool { return scheduleOf(t, lost, "tick").Launches > 0 })
	var snapshot string
	eventually(t, "a snapshot with a launch", func() bool {
		s, _, err := snapshots.Latest(t.Context(), openPlace(t, place), "")
		snapshot = s.Name()
		return err == nil && s.State.Schedules.Get("tick") != nil
	})
	known := len(instants(t, lost, "ticks"))
	eventually(t, "launches after it", func() bool { return len(instants(t, lost, "ticks")) >= known+2 })
	stop(t, lost)
	before := time.Now()

	anew := start(t, restoreConfig(t, "r1", filepath.Join(place, snapshot)), Options{})
	defer func() { stop(t, anew) }()
	eventually(t, "launches again", func() bool { return len(instants(t, anew, "ticks")) >= 2 })
	for instant := range instants(t, anew, "ticks") {
		at, err := time.Parse(time.RFC3339, instant)
		if err != nil || at.Before(before.Truncate(time.Second)) {
			t.Errorf("launched for %s, %v, restored at %s", instant, err, before)
		}
	}
	doubted := false
	for _, l := range scheduleOf(t, anew, "tick").History {
		if l.Reason == nornv1.SkipReason_SKIP_REASON_IN_DOUBT {
			// An open launch of the snapshot is in doubt too, and earlier.
			doubted = doubted || l.To.AsTime().After(before.Add(-2*time.Second))
		}
	}
	if !doubted {
		t.Errorf("nothing is in doubt: %v", scheduleOf(t, anew, "tick").History)
	}
	c.Join = []string{anew.PeerAddr().String()}
	leavesItsLife(t, c)
	back := start(t, c, Options{})
	defer func() { stop(t, back) }()
	eventually(t, "the tasks of before", func() bool {
		early := 0
		for instant, tasks := range instants(t, anew, "ticks") {
			if at, err := time.Parse(time.RFC3339, instant); err == nil && at.Before(before) {
				early++
			}
			if tasks != 1 {
				t.Fatalf("%d tasks for %s", tasks, instant)
			}
		}
		return early >= known+2
	})
}
