package queuestats

import (
	"context"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
)

// Source is what a node says of its queues when somebody reads the metrics.
type Source interface {
	// Partitions is their number in the cluster; false: the node is in none yet.
	Partitions() (int, bool)
	// LedQueues is a page of queues as they are in the partitions that the node leads; nil: there
	// was no answer.
	LedQueues(ctx context.Context, m *nornv1.QueuesRequest) *nornv1.QueuesReply
	// OwnWorkers is a page of the workers that keep a session with the node; nil: there was no
	// answer.
	OwnWorkers(ctx context.Context, m *nornv1.WorkersRequest) *nornv1.WorkersReply
}

// Limits of one reading.
const (
	queuePage   = 100             // queues
	workerPages = 100             // of workers, of which each has as many as fit it
	answerTime  = 2 * time.Second // for all of it
	copied      = 64              // series that are copied at a time
)

// Collector shows a table as metrics, with the gauges of the queues that it has series of.
// Those are asked for when somebody reads them, in pages, so that the loop is never held up
// for long.
type Collector struct {
	table *Table
	from  Source
	under context.Context // ends when the node stops

	totals         [message.Decisions]*prometheus.Desc
	wait, run, age *prometheus.Desc

	tasks, oldest, waiting, paused *prometheus.Desc
	workers, slots, busy           *prometheus.Desc
	untold, partitions             *prometheus.Desc
}

// NewCollector makes the metrics of a table.
func NewCollector(ctx context.Context, table *Table, from Source) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	c := &Collector{
		table: table, from: from, under: ctx,
		wait:       desc("norn_queue_wait_seconds", "How long tasks were ready before they were claimed, by this node. Not counted: claims after one that was given back, of which it is not known since when the task was ready.", "queue", "kind"),
		run:        desc("norn_queue_run_seconds", "How long claims were held that ended with a completion, a failure or an expiry.", "queue", "kind"),
		age:        desc("norn_queue_finish_seconds", "From the enqueue to the end, of tasks that were completed or died.", "queue", "kind"),
		tasks:      desc("norn_queue_tasks", "Tasks of a queue by state, in the partitions that this node leads: the sum over all nodes is that of the cluster.", "queue", "state"),
		oldest:     desc("norn_queue_oldest_ready_seconds", "Age of the oldest task of a queue that is ready in the partitions that this node leads; 0: none is. It counts from the enqueue, also of a task that was delayed.", "queue"),
		waiting:    desc("norn_queue_claims_waiting", "Claim requests that wait for a queue on this node.", "queue"),
		paused:     desc("norn_queue_paused", "1: a queue is paused, as far as this node knows.", "queue"),
		workers:    desc("norn_queue_workers", "Workers with a session with this node that take a queue.", "queue"),
		slots:      desc("norn_queue_worker_slots", "Slots of those workers, as many as the queue may have.", "queue"),
		busy:       desc("norn_queue_worker_slots_busy", "Slots of those workers that are busy, with tasks of whatever queue.", "queue"),
		partitions: desc("norn_partitions", "Partitions of the cluster. Where the sum of norn_partitions_led over all nodes is less, some have no leader: nothing of them is handed out, and nobody counts their tasks."),
		untold:     desc("norn_queue_metrics_cut", "1: there are more queues than metrics-queues, or they could not be read; some have no metrics here, and their totals are those of the queue _other."),
	}
	for what, help := range [message.Decisions]struct{ name, says string }{
		message.DecidedEnqueued:  {"norn_queue_enqueued_total", "Tasks accepted by this node."},
		message.DecidedClaimed:   {"norn_queue_claimed_total", "Claims handed out by this node."},
		message.DecidedCompleted: {"norn_queue_completed_total", "Completions that this node has stored first."},
		message.DecidedFailed:    {"norn_queue_failed_total", "Failures recorded by this node, also of tasks that are tried again."},
		message.DecidedDead:      {"norn_queue_dead_total", "Tasks that ran out of attempts, or were given up by their worker."},
		message.DecidedExpired:   {"norn_queue_expired_total", "Claims whose lease ran out."},
		message.DecidedCancelled: {"norn_queue_cancelled_total", "Tasks that were cancelled, by somebody or because of a dependency."},
		message.DecidedRetried:   {"norn_queue_retried_total", "Tasks given a new run of attempts by hand."},
	} {
		c.totals[what] = desc(help.name, help.says, "queue", "kind")
	}
	return c
}

// Describe gives what there is to collect.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.wait, c.run, c.age, c.tasks, c.oldest, c.waiting, c.paused, c.workers, c.slots, c.busy, c.untold, c.partitions,
	} {
		to <- d
	}
	for _, d := range c.totals {
		to <- d
	}
}

// Collect gives the gauges, for which it asks the loop, and what was counted. Without an
// answer in time there are no gauges, rather than old ones.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	n, begun := c.from.Partitions()
	if !begun {
		return
	}
	to <- prometheus.MustNewConstMetric(c.partitions, prometheus.GaugeValue, float64(n))
	if c.table.o.Named == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.under, answerTime)
	defer cancel()
	to <- prometheus.MustNewConstMetric(c.untold, prometheus.GaugeValue, oneIf(c.gauges(ctx, to)))
	c.table.copies(func(queue, kind string, s *series) { c.tell(to, queue, kind, s) })
}

// tell gives one series.
func (c *Collector) tell(to chan<- prometheus.Metric, queue, kind string, s *series) {
	for what, n := range s.totals {
		to <- prometheus.MustNewConstMetric(c.totals[what], prometheus.CounterValue, float64(n), queue, kind)
	}
	for d, h := range map[*prometheus.Desc]*histogram{c.wait: &s.wait, c.run: &s.run, c.age: &s.age} {
		upTo, all := make(map[float64]uint64, len(bounds)), uint64(0)
		for i, n := range h.counts {
			if all += n; i < len(bounds) {
				upTo[bounds[i].Seconds()] = all
			}
		}
		to <- prometheus.MustNewConstHistogram(d, all, h.sum.Seconds(), upTo, queue, kind)
	}
}

// gauges gives those of the queues that have series, and tells whether some have none.
func (c *Collector) gauges(ctx context.Context, to chan<- prometheus.Metric) (cut bool) {
	named, cut := c.names(ctx)
	serving := c.serving(ctx)
	var gone []string
	for len(named) > 0 {
		page := named[:min(queuePage, len(named))]
		named = named[len(page):]
		reply := c.from.LedQueues(ctx, &nornv1.QueuesRequest{Names: page})
		if reply == nil {
			return true
		}
		there := make(map[string]bool, len(page))
		for _, queue := range reply.GetQueues() {
			there[queue.GetName()] = true
			c.gauge(to, queue)
			c.served(to, queue.GetName(), serving)
		}
		for _, name := range page {
			if !there[name] {
				gone = append(gone, name)
			}
		}
	}
	c.table.Names(nil, gone)
	return cut
}

// names has the first queues by name get series, as long as there is room, and gives those that
// have.
func (c *Collector) names(ctx context.Context) (named []string, cut bool) {
	m := &nornv1.QueuesRequest{Limit: queuePage}
	for told := 0; ; {
		reply := c.from.LedQueues(ctx, m)
		var known []string
		for _, queue := range reply.GetQueues() {
			known = append(known, queue.GetName())
		}
		named, lacking := c.table.Names(known, nil)
		told += len(known)
		cut = cut || lacking || reply == nil
		if reply == nil || len(reply.GetNextCursor()) == 0 || len(known) == 0 {
			return named, cut
		}
		if told >= c.table.o.Named {
			return named, true
		}
		m = &nornv1.QueuesRequest{Cursor: reply.GetNextCursor(), Limit: queuePage}
	}
}

// gauge gives what a node says of a queue.
func (c *Collector) gauge(to chan<- prometheus.Metric, queue *nornv1.Queue) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{queue.GetName()}, labels...)...)
	}
	n := queue.GetCount()
	for _, s := range []struct {
		state string
		count uint64
	}{
		{"waiting", n.GetWaiting()}, {"scheduled", n.GetScheduled()}, {"ready", n.GetReady()}, {"claimed", n.GetClaimed()},
		{"completed", n.GetCompleted()}, {"dead", n.GetDead()}, {"cancelled", n.GetCancelled()},
	} {
		gauge(c.tasks, float64(s.count), s.state)
	}
	gauge(c.oldest, queue.GetOldestReadySeconds())
	gauge(c.waiting, float64(queue.GetWaitingClaims()))
	gauge(c.paused, oneIf(queue.GetEffective().GetPaused()))
}

// servers are the workers of a queue.
type servers struct{ workers, slots, busy uint32 }

// serving gives the workers of each queue; nil: they could not be read.
func (c *Collector) serving(ctx context.Context) map[string]*servers {
	all := make(map[string]*servers)
	m := &nornv1.WorkersRequest{}
	for range workerPages {
		reply := c.from.OwnWorkers(ctx, m)
		if reply == nil {
			return nil
		}
		for _, w := range reply.GetWorkers() {
			for _, q := range w.GetQueues() {
				s := all[q.GetQueue()]
				if s == nil {
					s = &servers{}
					all[q.GetQueue()] = s
				}
				slots := w.GetSlots()
				if own := q.GetSlots(); own != 0 {
					slots = min(slots, own)
				}
				s.workers, s.slots, s.busy = s.workers+1, s.slots+slots, s.busy+min(slots, uint32(len(w.GetRunning())))
			}
		}
		if len(reply.GetNextCursor()) == 0 {
			return all
		}
		m = &nornv1.WorkersRequest{Cursor: reply.GetNextCursor()}
	}
	return nil
}

// served gives the workers of a queue.
func (c *Collector) served(to chan<- prometheus.Metric, queue string, by map[string]*servers) {
	if by == nil {
		return
	}
	s := by[queue]
	if s == nil {
		s = &servers{}
	}
	for d, n := range map[*prometheus.Desc]uint32{c.workers: s.workers, c.slots: s.slots, c.busy: s.busy} {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), queue)
	}
}

// oneIf is a flag as a metric.
func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// told is one series with its labels.
type told struct {
	queue, kind string
	series      *series
}

// copies calls tell for each series, which is a copy. It holds up who counts for a few of them
// at a time.
func (t *Table) copies(tell func(queue, kind string, s *series)) {
	var all []told
	t.mu.Lock()
	for _, q := range t.order {
		all = append(all, told{q.name, "", &q.named.plain})
		for kind, s := range q.named.kinds {
			all = append(all, told{q.name, kind, s})
		}
		if q.named.rest != nil {
			all = append(all, told{q.name, Other, q.named.rest})
		}
	}
	t.mu.Unlock()
	all = append(all, told{Other, "", &t.other})
	space := make([]series, copied)
	for len(all) > 0 {
		page := all[:min(copied, len(all))]
		all = all[len(page):]
		t.mu.Lock()
		for i := range page {
			space[i] = *page[i].series
		}
		t.mu.Unlock()
		for i := range page {
			tell(page[i].queue, page[i].kind, &space[i])
		}
	}
}
