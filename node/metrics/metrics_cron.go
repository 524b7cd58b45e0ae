package metrics

import (
	"strings"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/schedule/policy"

	"github.com/prometheus/client_golang/prometheus"
)

// schedules are the metrics of the cron master. Counters are those of the node
// that was master when it happened: sum them over the nodes.
func (m *Metrics) schedules(counter func(name, help string, read func(*core.Stats) uint64), gauge func(name, help string, read func() float64)) {
	cron := func() *core.Stats { return m.Core.Load() }
	gauge("norn_cron_master", "1 on the node that launches schedules.", func() float64 {
		if cron().Cron.Master {
			return 1
		}
		return 0
	})
	gauge("norn_cron_schedules", "Schedules that this node knows of.", func() float64 { return float64(cron().Cron.Schedules) })
	gauge("norn_cron_running", "Launches whose task is not known to be finished.", func() float64 { return float64(cron().Cron.Running) })
	gauge("norn_cron_overdue_seconds", "How late the launch is that is due first; 0 unless this node is master.", func() float64 { return cron().Cron.Overdue.Seconds() })
	counter("norn_cron_launches_total", "Launches begun.", func(s *core.Stats) uint64 { return s.Cron.Launched })
	counter("norn_cron_replaced_total", "Launches that had the task before cancelled.", func(s *core.Stats) uint64 { return s.Cron.Replaced })
	counter("norn_cron_not_enqueued_total", "Launches whose task could not be enqueued.", func(s *core.Stats) uint64 { return s.Cron.NotEnqueued })
	counter("norn_cron_tasks_failed_total", "Launches whose task is dead.", func(s *core.Stats) uint64 { return s.Cron.Failed })
	counter("norn_cron_takeovers_total", "Times that this node became master.", func(s *core.Stats) uint64 { return s.Cron.Takeovers })
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "norn_cron_late_seconds_total", Help: "By how much launches were begun late, summed up."},
		func() float64 { return cron().Cron.LateSeconds }))
	for r := policy.Missed; r <= policy.Limit; r++ {
		m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "norn_cron_skipped_total", Help: "Decisions to skip instants, by reason.", ConstLabels: prometheus.Labels{"reason": strings.ReplaceAll(r.String(), " ", "_")},
		}, func() float64 { return float64(cron().Cron.Skipped[r]) }))
	}
}
