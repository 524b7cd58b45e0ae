package metrics

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/peer"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what /metrics shows of a node. The core's counters are copied
// after each round and read from the copy.
type Metrics struct {
	Core        atomic.Pointer[core.Stats]
	Leading     atomic.Int64
	Syncs       atomic.Uint64
	Sent        atomic.Uint64 // messages to other nodes
	Connections prometheus.Gauge
	DiskFree    prometheus.Gauge
	Crowded     prometheus.Counter
	Stalls      prometheus.Counter
	Registry    *prometheus.Registry

	Snapshots, SnapshotFailures prometheus.Counter
	SnapshotTime                prometheus.Gauge

	clashed, aside time.Time // when a clash, and the quarantine, were told; the loop's alone
	votes          time.Time // when a vote that cannot be read was told; the loop's alone
	clockTold      time.Time // when something was said of the clock; the loop's alone
	clockSaid      ClockIs   // what was said
}

// Damaged has the frames counted that did not fit their sums.
func (m *Metrics) Damaged(on *peer.Network) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "norn_peer_frames_damaged_total", Help: "Frames on connections to other nodes that did not fit their CRC32C; nothing of them was taken, and their connections ended. Also first frames of what is no node, or one of another version."},
		func() float64 { return float64(on.Status().Damaged) }))
}

// New makes the metrics of a node that has done nothing yet.
func New() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.Core.Store(&core.Stats{})
	m.Connections = prometheus.NewGauge(prometheus.GaugeOpts{Name: "norn_connections", Help: "Open client connections."})
	m.DiskFree = prometheus.NewGauge(prometheus.GaugeOpts{Name: "norn_disk_free_bytes", Help: "Free bytes on the data disk."})
	m.Crowded = prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_peer_messages_dropped_total", Help: "Messages of other nodes for which there was no room; they are sent again."})
	m.Stalls = prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_disk_stalls_total", Help: "Times that the disk kept this node waiting for longer than disk-stall."})
	m.Snapshots = prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_register_snapshots_total", Help: "Snapshots of the register that this node has written to snapshot-to."})
	m.SnapshotFailures = prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_register_snapshots_failed_total", Help: "Snapshots of the register that could not be written."})
	m.SnapshotTime = prometheus.NewGauge(prometheus.GaugeOpts{Name: "norn_register_snapshot_timestamp_seconds", Help: "When the last snapshot that this node has written to snapshot-to was taken, Unix time; 0: none since it started."})
	m.Registry.MustRegister(m.Connections, m.DiskFree, m.Crowded, m.Stalls, m.Snapshots, m.SnapshotFailures, m.SnapshotTime, prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "norn_store_syncs_total", Help: "Rounds whose writes were made durable; some share one sync of the log."},
		func() float64 { return float64(m.Syncs.Load()) }))
	m.Registry.MustRegister(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "norn_peer_messages_sent_total", Help: "Frames with messages of the core that this node has sent to other nodes."},
		func() float64 { return float64(m.Sent.Load()) }))
	counter := func(name, help string, read func(*core.Stats) uint64) {
		m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(read(m.Core.Load())) }))
	}
	counter("norn_tasks_enqueued_total", "Tasks accepted.", func(s *core.Stats) uint64 { return s.Enqueued })
	counter("norn_tasks_duplicate_total", "Enqueues that repeated a known task.", func(s *core.Stats) uint64 { return s.Duplicates })
	counter("norn_claims_granted_total", "Claims handed out.", func(s *core.Stats) uint64 { return s.Claimed })
	counter("norn_claims_renewed_total", "Claims renewed.", func(s *core.Stats) uint64 { return s.Renewed })
	counter("norn_claims_released_total", "Claims given back.", func(s *core.Stats) uint64 { return s.Released })
	counter("norn_claims_undelivered_total", "Claims freed because their answer surely never left.", func(s *core.Stats) uint64 { return s.Undelivered })
	counter("norn_tasks_updated_total", "Updates stored.", func(s *core.Stats) uint64 { return s.Updated })
	counter("norn_tasks_completed_total", "Completions stored.", func(s *core.Stats) uint64 { return s.Completed })
	counter("norn_tasks_failed_total", "Failures recorded.", func(s *core.Stats) uint64 { return s.Failed })
	counter("norn_tasks_cancelled_total", "Cancellations stored.", func(s *core.Stats) uint64 { return s.Cancelled })
	counter("norn_tasks_retried_total", "Tasks given new attempts by hand.", func(s *core.Stats) uint64 { return s.Retried })
	counter("norn_tasks_collected_total", "Finished tasks deleted after their retention.", func(s *core.Stats) uint64 { return s.Collected })
	counter("norn_tasks_archived_total", "Finished tasks archived before they were deleted.", func(s *core.Stats) uint64 { return s.Archived })
	counter("norn_requests_refused_total", "Requests that this node refused, and tasks of enqueues that it did. Other items, such as one completion of several, are not counted, nor is what was refused before it was read.", func(s *core.Stats) uint64 { return s.Refused })
	counter("norn_fact_clashes_total", "Facts with another content under a key that was taken.", func(s *core.Stats) uint64 { return s.Clashes })
	counter("norn_votes_unread_total", "Votes, and claims for new leaders, of other nodes that could not be read and did not count.", func(s *core.Stats) uint64 { return s.Unread })
	counter("norn_quarantine_refused_total", "Times that facts were not kept aside because there are quarantine bytes of them already.", func(s *core.Stats) uint64 { return s.QuarantineFull })
	m.Registry.MustRegister(rankErrors{m, prometheus.NewDesc("norn_rank_error",
		"Grants by how many better tasks, as far as the granting node knew, were ready at other leaders.", nil, nil)})
	m.Registry.MustRegister(taskWaits{m, prometheus.NewDesc("norn_task_wait_seconds",
		"How long tasks waited for their first claim, from their enqueue or the time they were delayed to; without those that depend on others.", nil, nil)})
	gauge := func(name, help string, read func() float64) {
		m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("norn_requests_waiting", "Requests that wait for work or updates.", func() float64 { return float64(m.Core.Load().Waiting) })
	gauge("norn_quarantine_tasks", "Tasks of which this node keeps facts aside: older than gc-grace and unknown to the members of their cohort.", func() float64 { return float64(m.Core.Load().QuarantinedTasks) })
	gauge("norn_quarantine_bytes", "Those facts.", func() float64 { return float64(m.Core.Load().QuarantinedBytes) })
	gauge("norn_handovers_left", "Partitions of which this node has something that it still hands over to those who keep them.", func() float64 { return float64(m.Core.Load().HandoversLeft) })
	gauge("norn_claims_active", "Tasks under a claim in the partitions that this node has, led by it or not: each counts once per replica in the sum of all nodes.", func() float64 { return float64(m.Core.Load().Claims) })
	gauge("norn_partitions_claims_full", "Partitions led by this node that grant nothing because 250,000 of their tasks are under a claim, the limit; it goes on with the first that ends.", func() float64 { return float64(m.Core.Load().Full) })
	m.schedules(counter, gauge)
	counter("norn_session_heartbeats_total", "Heartbeats of workers that keep a session with this node.", func(s *core.Stats) uint64 { return s.SessionCounts.Heartbeats })
	counter("norn_session_renewals_total", "Claims renewed by heartbeats of those workers.", func(s *core.Stats) uint64 { return s.SessionCounts.Renewals })
	counter("norn_session_tasks_pushed_total", "Tasks sent to those workers.", func(s *core.Stats) uint64 { return s.SessionCounts.Pushes })
	counter("norn_session_tasks_refused_total", "Tasks that such a worker did not take.", func(s *core.Stats) uint64 { return s.SessionCounts.Refused })
	counter("norn_session_tasks_asked_total", "Claims of which a worker was asked whether it runs them.", func(s *core.Stats) uint64 { return s.SessionCounts.Asked })
	counter("norn_sessions_handed_over_total", "Sessions that went on with another node.", func(s *core.Stats) uint64 { return s.SessionCounts.HandedOver })
	counter("norn_sessions_lost_total", "Sessions of workers that were not heard in time.", func(s *core.Stats) uint64 { return s.SessionCounts.Lost })
	gauge("norn_sessions_open", "Sessions of workers with this node; lost workers count while they are remembered.", func() float64 { return float64(m.Core.Load().Sessions) })
	gauge("norn_partitions_led", "Partitions this node leads.", func() float64 { return float64(m.Leading.Load()) })
	return m
}

// rankErrors shows the core's classes as a histogram.
type rankErrors struct {
	m    *Metrics
	desc *prometheus.Desc
}

// Describe gives the one metric.
func (r rankErrors) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect gives what has been counted so far.
func (r rankErrors) Collect(to chan<- prometheus.Metric) {
	e := &r.m.Core.Load().RankErrors
	upTo, all := make(map[float64]uint64, len(dispatch.RankBounds)), uint64(0)
	for i, n := range e.Counts {
		if all += n; i < len(dispatch.RankBounds) {
			upTo[float64(dispatch.RankBounds[i])] = all
		}
	}
	to <- prometheus.MustNewConstHistogram(r.desc, all, float64(e.Sum), upTo)
}

// taskWaits shows the core's classes as a histogram.
type taskWaits struct {
	m    *Metrics
	desc *prometheus.Desc
}

// Describe gives the one metric.
func (w taskWaits) Describe(to chan<- *prometheus.Desc) { to <- w.desc }

// Collect gives what has been counted so far.
func (w taskWaits) Collect(to chan<- prometheus.Metric) {
	s := &w.m.Core.Load().Waits
	upTo, all := make(map[float64]uint64, len(decided.WaitBounds)), uint64(0)
	for i, n := range s.Counts {
		if all += n; i < len(decided.WaitBounds) {
			upTo[decided.WaitBounds[i].Seconds()] = all
		}
	}
	to <- prometheus.MustNewConstHistogram(w.desc, all, s.Sum.Seconds(), upTo)
}

// clashEvery is between two lines about clashes: clients can cause them.
const clashEvery = time.Second

// ClockEvery is between two lines about the clock: one that is set all the time is
// off and good in turns.
const ClockEvery = time.Second

// Clash tells that two sides had accepted different things, of which one stays.
// Only the loop calls it.
func (m *Metrics) Clash(log *slog.Logger, s *core.Stats) {
	if time.Since(m.clashed) < clashEvery {
		return
	}
	m.clashed = time.Now()
	log.Warn("task.clash", "task", s.Clashed.String(), "total", s.Clashes,
		"meaning", "two sides accepted different content for this task, a specification or an update: the same one stays everywhere, which `norn task get` shows; the other is gone")
}

// Unread tells that a vote did not count. Only the loop calls it.
func (m *Metrics) Unread(log *slog.Logger, s *core.Stats) {
	if time.Since(m.votes) < clashEvery {
		return
	}
	m.votes = time.Now()
	u := &s.UnreadLast
	log.Error("vote.unread", "peer", u.Peer, "partition", uint64(u.Partition), "total", s.Unread, "error", u.Why,
		"meaning", "what that node says of the partition's claims in an election cannot be read, so that its vote does not count: it runs another version, or its memory or the network is faulty; a partition that needs its vote has no leader until that is mended")
}

// Quarantined tells that facts were put aside, or that there is no room for more.
// Only the loop calls it.
func (m *Metrics) Quarantined(log *slog.Logger, was, s *core.Stats) {
	if time.Since(m.aside) < clashEvery {
		return
	}
	m.aside = time.Now()
	if s.QuarantineFull > was.QuarantineFull {
		log.Warn("quarantine.full", "bytes", s.QuarantinedBytes, "total", s.QuarantineFull,
			"meaning", "facts older than gc-grace of tasks that nobody else knows have no room here; who has them stays out of their cohorts until there is: raise `quarantine`")
		return
	}
	log.Warn("task.quarantined", "task", s.QuarantinedLast.String(), "tasks", s.QuarantinedTasks, "total", s.Quarantined,
		"meaning", "its facts are older than gc-grace and no member of its cohort knows it: it was collected long ago, or only one node had it; it is kept apart and comes back only if a member turns out to know it")
}

// Clock tells once that this node leads nothing because of its clock, and once that
// it may again. Only the loop calls it.
func (m *Metrics) Clock(log *slog.Logger, s *core.Stats) {
	is := ClockOf(s)
	if is == m.clockSaid || time.Since(m.clockTold) < ClockEvery {
		return
	}
	m.clockSaid, m.clockTold = is, time.Now()
	switch is {
	case clockGood:
		log.Warn("clock.good", "meaning", "this node's clock agrees with the others again: it may lead and vote")
		return
	case clockAlone:
		log.Warn("clock.alone", "reason", s.ClockFault, "partitions", s.ClockBad,
			"meaning", "too few of the other nodes answer to tell how good this node's clock is, and nothing is known against it: of so many partitions it leads none until they do; writes are taken. Start the nodes that are missing")
		return
	}
	log.Warn("clock.off", "reason", s.ClockFault, "partitions", s.ClockBad,
		"meaning", "this node's clock is off, or it cannot show that it is not: of so many partitions it leads none and votes for no claims, others do; writes are taken. See `norn cluster clock`; set the clock (NTP), or raise eta on all nodes")
}

// ClockIs is what is known of this node's clock.
type ClockIs uint8

const (
	clockGood ClockIs = iota
	clockAlone
	// ClockOff: it is off, or cannot show that it is not.
	ClockOff
)

// ClockOf is what counters say of this node's clock.
func ClockOf(s *core.Stats) ClockIs {
	switch {
	case s.ClockBad == 0:
		return clockGood
	case s.ClockAlone:
		return clockAlone
	}
	return ClockOff
}
