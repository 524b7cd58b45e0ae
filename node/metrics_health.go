package node

import (
	"github.com/norn-dev/norn/node/core"

	"github.com/prometheus/client_golang/prometheus"
)

// health adds to the metrics what an operator has to hear of: what is out of reach, as this node sees
// it. Alarms on them are in examples/prometheus.
func health(n *Node) {
	gauge := func(name, help string, read func(*core.Available) float64) {
		n.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(n.available.Load()) }))
	}
	gauge("norn_partitions_unled", "Partitions without a leader in reach of this node: nothing of them is handed out.",
		func(a *core.Available) float64 { return float64(a.Unled) })
	gauge("norn_partitions_short", "Partitions of which fewer copies are in reach of this node than there are to be, as far as there are nodes for them.",
		func(a *core.Available) float64 { return float64(a.Short) })
	gauge("norn_nodes", "Members of the cluster.", func(a *core.Available) float64 { return float64(a.Nodes) })
	gauge("norn_nodes_down", "Members of the cluster that are out of reach of this node.",
		func(a *core.Available) float64 { return float64(a.Down) })
	gauge("norn_register_majority", "1: the register has a leader, so that members, partitions, queues and schedules can be changed; 0: as far as this node knows it has none.",
		func(a *core.Available) float64 { return oneIf(a.Majority) })
	gauge("norn_ready", "1: this node takes enqueues and hands out claims, as /readyz says.", func(*core.Available) float64 {
		enqueue, claim := n.Ready()
		return oneIf(enqueue && claim)
	})
	stat := func(name, help string, read func(*core.Stats) float64) {
		n.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(n.metrics.core.Load()) }))
	}
	stat("norn_clock_off", "1: this node's clock is too far from the others', or cannot be shown not to be: of some partitions it leads none and votes for no claims.",
		func(s *core.Stats) float64 { return oneIf(s.ClockBad > 0) })
	stat("norn_clock_correction_seconds", "By how much this node's wall clock is to be put right, as far as the others have told.",
		func(s *core.Stats) float64 { return float64(s.ClockRight) / 1e9 })
	n.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "norn_build_info", Help: "1, with the build of this node.", ConstLabels: prometheus.Labels{"version": n.opts.Version},
	}, func() float64 { return 1 }))
	n.metrics.registry.MustRegister(n.opts.Collectors...)
}
