package scope

import (
	"slices"

	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
)

// Sees tells whether somebody may see a schedule: of a tenant, one with its prefix, and with its queue.
func Sees(s *guard.Scope, name, queue string) bool { return s.Within(name) && s.May(guard.See, queue) }

// Hides names the first schedule of a request whose queue its sender has no right to; empty:
// there is none.
func Hides(s *guard.Scope, state *register.State, m *nornv1.ChangeSchedulesRequest, zones *schedule.Zones, cluster [16]byte) string {
	for _, x := range m.GetChanges() {
		was := cron.Show(zones, cluster, state.Schedules.Get(x.GetName()), 0, false)
		if was != nil && !s.May(guard.Schedule, was.GetSpec().GetTask().GetQueue()) {
			return x.GetName()
		}
	}
	return ""
}

// First are the first n names after one that may be seen, sorted, and how many schedules
// there are in all. It holds no more than twice as many as it gives: a list of
// all schedules asks for page after page.
func First(all register.Schedules, after string, n int, seen func(*register.Schedule) bool) (names []string, count uint64) {
	for x := range all.All() {
		if len(x.Definition) == 0 {
			continue
		}
		if count++; x.Name <= after || !seen(x) {
			continue
		}
		if names = append(names, x.Name); len(names) >= 2*n {
			slices.Sort(names)
			names = names[:n]
		}
	}
	slices.Sort(names)
	return names[:min(n, len(names))], count
}

// Shows tells whether somebody may see a worker: of a tenant, one with its prefix, and all of whose queues
// it may see.
func Shows(s *guard.Scope, w *nornv1.Worker) bool {
	if len(w.GetQueues()) == 0 && s.Tenant() == "" { // it takes none now
		return s.May(guard.See, guard.Everything)
	}
	return s.Within(w.GetName()) && !slices.ContainsFunc(w.GetQueues(), func(q *nornv1.SessionQueue) bool { return !s.May(guard.See, q.GetQueue()) })
}
