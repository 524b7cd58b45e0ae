package node

import (
	"context"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
)

// queueMetrics are those of each queue, in the partitions that this node leads. They
// are asked for when somebody reads them, in pages, so that the loop is never held up
// for long.
type queueMetrics struct {
	n                              *Node
	tasks, oldest, waiting, paused *prometheus.Desc
	untold, partitions             *prometheus.Desc
}

// Limits of one reading.
const (
	queuePage   = 100             // queues
	queueAnswer = 2 * time.Second // for all of it
)

func newQueueMetrics(n *Node) *queueMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &queueMetrics{
		n:          n,
		tasks:      desc("norn_queue_tasks", "Tasks of a queue by state, in the partitions that this node leads: the sum over all nodes is that of the cluster.", "queue", "state"),
		oldest:     desc("norn_queue_oldest_ready_seconds", "Age of the oldest task of a queue that is ready in the partitions that this node leads; 0: none is. It counts from the enqueue, also of a task that was delayed.", "queue"),
		waiting:    desc("norn_queue_claims_waiting", "Claim requests that wait for a queue on this node.", "queue"),
		paused:     desc("norn_queue_paused", "1: a queue is paused, as far as this node knows.", "queue"),
		partitions: desc("norn_partitions", "Partitions of the cluster. Where the sum of norn_partitions_led over all nodes is less, some have no leader: nothing of them is handed out, and nobody counts their tasks."),
		untold:     desc("norn_queue_metrics_cut", "1: there are more queues than metrics-queues, or they could not be read; some have no metrics here."),
	}
}

// Describe gives what there is to collect.
func (q *queueMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.tasks, q.oldest, q.waiting, q.paused, q.untold, q.partitions} {
		to <- d
	}
}

// Collect asks the loop. Without an answer in time there are no numbers, rather than
// old ones.
func (q *queueMetrics) Collect(to chan<- prometheus.Metric) {
	if !q.n.begun.Load() {
		return
	}
	to <- prometheus.MustNewConstMetric(q.partitions, prometheus.GaugeValue, float64(q.n.cluster.Partitions))
	if q.n.cfg.MetricsQueues == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(q.n.ctx, queueAnswer)
	defer cancel()
	m, told := &nornv1.QueuesRequest{}, 0
	for {
		m.Limit = uint32(min(queuePage, q.n.cfg.MetricsQueues-told))
		reply := q.n.calls.ledQueues(ctx, m)
		for _, queue := range reply.GetQueues() {
			q.tell(to, queue)
		}
		told += len(reply.GetQueues())
		all := reply != nil && len(reply.GetNextCursor()) == 0
		if all || reply == nil || told >= q.n.cfg.MetricsQueues {
			to <- prometheus.MustNewConstMetric(q.untold, prometheus.GaugeValue, oneIf(!all))
			return
		}
		m = &nornv1.QueuesRequest{Cursor: reply.GetNextCursor()}
	}
}

func (q *queueMetrics) tell(to chan<- prometheus.Metric, queue *nornv1.Queue) {
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
		gauge(q.tasks, float64(s.count), s.state)
	}
	gauge(q.oldest, queue.GetOldestReadySeconds())
	gauge(q.waiting, float64(queue.GetWaitingClaims()))
	gauge(q.paused, oneIf(queue.GetEffective().GetPaused()))
}

func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// ledQueues is a page of queues as they are in the partitions that this node leads;
// nil: there was no answer.
func (c *calls) ledQueues(ctx context.Context, m *nornv1.QueuesRequest) *nornv1.QueuesReply {
	conn, err := c.enter()
	if err != nil {
		return nil
	}
	defer c.leave()
	weight, err := c.admit(nornv1.Method_METHOD_QUEUES, m, false)
	if err != nil {
		return nil
	}
	from := message.Origin{Conn: conn, Request: 1, Method: uint16(nornv1.Method_METHOD_QUEUES)}
	reply, _ := c.wait(ctx, access.Self(), message.LedQueues(from, m, c.n.clock.mono()), weight, false).Message.(*nornv1.QueuesReply)
	return reply
}
