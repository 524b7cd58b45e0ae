package scope

import (
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
