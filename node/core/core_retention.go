package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// retaining is what this node knows of queues and dependencies, for who collects them.
type retaining struct{ *Core }

// newRetention collects the finished tasks of a node.
func newRetention(c *Core, now clock.Time) *retention.Machine {
	return retention.New(retention.Env{
		Policy: c.cfg.Policy.Retention,
		Self:   c.cfg.Self, Eta: c.cfg.Eta, GCGrace: c.cfg.GCGrace, Interval: c.cfg.CollectInterval, HasArchive: c.cfg.Archive,
		View: c.view, Round: c.round, Partitions: c.vnodes, Queues: retaining{c}, References: c.dependency,
		Alone: c.replication.Writes.Alone, Taken: func() uint64 { return c.taken },
		Number: func() uint64 {
			c.asked.tag++
			return c.asked.tag
		},
		PassKey: func(now clock.Time, task id.ID, e *crdt.Enqueued) { keys{c}.pass(now, task, e) },
	}, now)
}

// Settings are those that were made of a queue.
func (c retaining) Settings(queue string) *nornv1.QueueSettings { return c.queues.of(queue) }

// DeletedAt is when a queue was deleted.
func (c retaining) DeletedAt(queue string) int64 { return c.queues.deletedAt(queue) }

// Retention is the default.
func (c retaining) Retention(longer bool) retention.Rule { return c.sharedConfig.retention(longer) }
