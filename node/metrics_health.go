package node

import (
	"github.com/norn-dev/norn/node/core"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/norn-dev/norn/node/metrics"
)

// health adds to the metrics what an operator has to hear of: what is out of reach, as this node sees
// it. Alarms on them are in examples/prometheus.
func health(n *Node) {
	n.metrics.Registry.MustRegister(newOutlook(n))
	gauge := func(name, help string, read func(*core.Available) float64) {
		n.metrics.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(n.available.Load()) }))
	}
	gauge("norn_register_majority", "1: the register has a leader, so that members, partitions, queues and schedules can be changed; 0: as far as this node knows it has none.",
		func(a *core.Available) float64 { return oneIf(a.Majority) })
	gauge("norn_ready", "1: this node takes enqueues, hands out claims and has had every copy that was planned for it when it started, as /readyz says.", func(*core.Available) float64 {
		enqueue, claim := n.Ready()
		return oneIf(enqueue && claim && Filled(n))
	})
	stat := func(name, help string, read func(*core.Stats) float64) {
		n.metrics.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(n.metrics.Core.Load()) }))
	}
	stat("norn_clock_off", "1: this node's clock is too far from the others', or it cannot show that it is not though they answer: of some partitions it leads none and votes for no claims.",
		func(s *core.Stats) float64 { return oneIf(metrics.ClockOf(s) == metrics.ClockOff) })
	stat("norn_clock_correction_seconds", "By how much this node's wall clock is to be put right, as far as the others have told.",
		func(s *core.Stats) float64 { return float64(s.ClockRight) / 1e9 })
	stat("norn_forgot", "1: this node's disk has lost what it had acknowledged: it neither votes nor leads, and stays for what it has until the others can spare it.",
		func(s *core.Stats) float64 { return oneIf(s.Forgot) })
	stat("norn_register_back", "1: the register was read in an earlier state than this node has known, since it was started: what was decided in between is lost.",
		func(s *core.Stats) float64 { return oneIf(s.RegisterBack != "") })
	n.metrics.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "norn_build_info", Help: "1, with the build of this node.", ConstLabels: prometheus.Labels{"version": n.opts.Version},
	}, func() float64 { return 1 }))
	n.metrics.Registry.MustRegister(n.opts.Collectors...)
}

// outlook tells what a member sees of its cluster. A node that waits to be let in sees
// nothing of it, and one that was removed nothing new: of them there are no numbers, for
// zeros would switch off the alarms of all others, which take the least of what is told.
type outlook struct {
	n                         *Node
	unled, short, nodes, down *prometheus.Desc
}

func newOutlook(n *Node) *outlook {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &outlook{
		n:     n,
		unled: desc("norn_partitions_unled", "Partitions without a leader in reach of this node: nothing of them is handed out."),
		short: desc("norn_partitions_short", "Partitions of which fewer copies are in reach of this node than there are to be, as far as there are nodes for them."),
		nodes: desc("norn_nodes", "Members of the cluster."),
		down:  desc("norn_nodes_down", "Members of the cluster that are out of reach of this node."),
	}
}

// Describe gives what there is to collect.
func (o *outlook) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.unled, o.short, o.nodes, o.down} {
		to <- d
	}
}

// Collect gives what the node knew last.
func (o *outlook) Collect(to chan<- prometheus.Metric) {
	a := o.n.available.Load()
	if !o.n.begun.Load() || a.Removed || a.Nodes == 0 {
		return
	}
	gauge := func(d *prometheus.Desc, value int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	gauge(o.unled, a.Unled)
	gauge(o.short, a.Short)
	gauge(o.nodes, a.Nodes)
	gauge(o.down, a.Down)
}

func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}
