package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// depending is what this node knows of others, for who holds tasks back.
type depending struct{ *Core }

// newDependencies holds back the tasks of a node.
func newDependencies(c *Core, boot uint64) *dependency.Machine {
	d := depending{c}
	return dependency.New(dependency.Env{
		Policy: c.cfg.Policy.Dependency,
		Self:   c.cfg.Self, Eta: c.cfg.Eta, GCGrace: c.cfg.GCGrace, WatchFor: c.cfg.WatchFor,
		Hold: func() time.Duration { return c.retention.Tombstones.Hold() },
		View: c.view, Round: c.round, Partitions: c.vnodes,
		Routes: d, Reads: d, Leases: d, Times: d, Others: d,
	}, boot)
}

// Leader leads a partition, as far as is known.
func (c depending) Leader(p ring.Partition) (register.Member, bool) { return c.routes.Leader(p) }

// Reader keeps a partition and is in reach.
func (c depending) Reader(p ring.Partition) (register.Member, bool) { return c.routes.Reader(p) }

// Find asks a majority of those who keep a task for it, or all of them.
func (c depending) Find(now clock.Time, task id.ID, all bool, then func(clock.Time, *proto.Error)) {
	level := nornv1.ReadLevel_READ_LEVEL_QUORUM
	if all {
		level = nornv1.ReadLevel_READ_LEVEL_ALL
	}
	c.schedules.Find(now, task, level, then)
}

// Room tells whether one more read may be under way.
func (c depending) Room() bool { return c.replication.Reads.Room() }

// Majority merges what a majority knows of a task.
func (c depending) Majority(now clock.Time, task id.ID, then func(now clock.Time, enough bool)) {
	c.replication.Reads.Majority(now, task, then)
}

// Confirm has a majority asked whether somebody else leads a partition.
func (c depending) Confirm(p ring.Partition) { c.leases.Confirm(p) }

// ConfirmedSince tells whether they have said no at some time or later.
func (c depending) ConfirmedSince(p ring.Partition, since int64) bool {
	return c.leases.ConfirmedSince(p, since)
}

// Shared tells whether others keep a partition too.
func (c depending) Shared(p ring.Partition) bool { return c.leases.Shared(p) }

// Stamp is the time of a fact of a task.
func (c depending) Stamp(now clock.Time, task id.ID) int64 {
	return c.standing.Clocks.Stamp(now, task)
}

// Wall is the time that the members agree on.
func (c depending) Wall(now clock.Time) int64 { return c.standing.Clocks.Wall(now) }

// Ended tells the master of schedules of a task that is finished here.
func (c depending) Ended(task id.ID) { c.schedules.Ended(task) }

// Heard tells it of one that is elsewhere.
func (c depending) Heard(task id.ID, outcome crdt.State) {
	c.schedules.Heard(c.round.Now, task, outcome)
}

// Cancelled counts a task that is cancelled because of a dependency.
func (c depending) Cancelled(now clock.Time, t *crdt.Task) {
	decided.Tell(c.round, message.DecidedCancelled, decided.WithoutClaim(now, t))
}

// Kept is for how much longer a node keeps finished tasks that others have needed and have
// not named for a while; 0: it keeps none for that.
func Kept(c *Core, now clock.Time) time.Duration { return c.dependency.Watches.Needs.Lasting(now) }
