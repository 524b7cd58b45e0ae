package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestAMasterWithAFullDiskLaunches where there is room: clients go to another node, and a
// schedule must not depend on the disk of whoever happens to be its master. Where there is no
// room anywhere nothing is enqueued.
func TestAMasterWithAFullDiskLaunches(t *testing.T) {
	for _, tc := range []struct {
		nodes int
		full  []int
	}{{3, []int{0}}, {3, []int{0, 1}}, {3, []int{0, 2}}, {3, []int{0, 1, 2}}, {5, []int{0}}, {5, []int{0, 1, 3}}} {
		full := tc.full
		t.Run(fmt.Sprint(tc.nodes, full), func(t *testing.T) {
			r := newCluster(t, tc.nodes, 0)
			r.leads = 0
			r.tell()
			r.settle()
			for _, i := range full {
				c := r.peers[i].core
				c.intake.Disk.Least, c.intake.Disk.Free = 2, 1
			}
			for _, name := range []string{"a", "b", "c"} {
				s := everySecond(name)
				s.Overlap = nornv1.Overlap_OVERLAP_ALLOW
				r.send(0, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put(name, s)}})
			}
			for range 400 {
				r.tell()
				r.pass(100 * time.Millisecond)
				r.settle()
			}
			shown := ask[*nornv1.SchedulesReply](r, 0, &nornv1.SchedulesRequest{Names: []string{"a", "b", "c"}, History: true}).Schedules
			if len(shown) != 3 {
				t.Fatal(shown)
			}
			for _, s := range shown {
				tasks := ask[*nornv1.ListReply](r, 0, &nornv1.ListRequest{Queue: s.GetName(), Limit: 1000}).Tasks
				vain := slices.ContainsFunc(s.GetHistory(), func(l *nornv1.Launch) bool {
					return l.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED
				})
				switch n := len(instants(t, tasks)); {
				case len(full) == len(r.peers) && (n > 0 || !vain):
					t.Errorf("schedule %s: %d tasks though no disk has room, given up: %v", s.GetName(), n, vain)
				case len(full) < len(r.peers) && (n < 39 || vain):
					t.Errorf("schedule %s: %d tasks in 40 s, given up: %v", s.GetName(), n, vain)
				}
			}
			if s := r.peers[0].core.Stats().Cron; !s.Master {
				t.Errorf("another one is the master: %+v", s)
			}
		})
	}
}
