package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/bootstrap"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/status"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// MarkOf is how far a core's disk is once what was last asked to be written is on
// it.
func MarkOf(c *Core) uint64 { return c.standing.Disk.Durable }

// Forgotten says what the disk of a node has lost while the others cannot do
// without what it still has; nil: nothing, or they can, and it ends.
func Forgotten(c *Core) error { return c.standing.Disk.LostButNeeded() }

// Attest gives the witness as it is now; nil: as it was. It is asked for with each round.
func Attest(c *Core, was *standing.Attestation) *standing.Attestation { return c.standing.Attest(was) }

// Stats gives the counters.
func (c *Core) Stats() Stats {
	in, settled := c.intake, c.settle
	s := Stats{
		Enqueued: in.Enqueued, Duplicates: in.Duplicates, Cancelled: in.Cancelled, Retried: in.Retried,
		Renewed: settled.Renewed, Updated: settled.Updated, Completed: settled.Completed, Failed: settled.Failed, Released: settled.Released,
		Clashes: c.arrivals.Clashes.N, Clashed: c.arrivals.Clashes.Last, Stale: c.arrivals.Stale,
	}
	s.Refused, s.Collected, s.Archived = c.round.Refused, c.retention.Collected, c.retention.Archived
	s.Claimed, s.RankErrors, s.Waits = c.dispatch.Claimed, c.dispatch.RankErrors, c.dispatch.Waits
	s.Waiting = c.dispatch.Waiting() + c.logs.Count()
	s.Claims, s.Full = c.vnodes.Claimed(), c.vnodes.Full()
	s.Cron = c.schedules.Stats(c.round.Now)
	s.Sessions, s.SessionCounts = c.sessions.Dispatcher.Open(), c.sessions.Dispatcher.Counts()
	s.QuarantinedTasks, s.QuarantinedBytes = c.vnodes.Aside()
	s.Quarantined, s.QuarantinedLast, s.QuarantineFull = c.transfer.Quarantine.Count, c.transfer.Quarantine.Last, c.transfer.Quarantine.Full
	s.HandoversLeft = c.transfer.HandoversLeft()
	s.Differs = c.sharedConfig.Diff
	s.ClockFault, s.ClockBad, s.ClockAlone = c.standing.Clocks.Why, len(c.standing.Clocks.Bad), c.standing.Clocks.Alone
	s.ClockRight = c.standing.Clocks.Wall(c.round.Now) - c.round.Now.Wall
	s.RegisterBack, s.Forgot = c.standing.Rollback.Why, c.standing.Disk.Lost != 0
	s.Scrubbed, s.Skewed, s.Undelivered = c.repairs.Mended(), c.leases.Skewed, c.leases.Undelivered
	s.Elected, s.Defeated, s.Passed = c.elector.Won, c.elector.Defeats, c.dispatch.Passed()
	s.Unread, s.UnreadLast = c.elector.Unread, c.elector.UnreadLast
	return s
}

// Leading is the number of partitions led.
func (c *Core) Leading() int { return c.vnodes.Led() }

// Handover tells what a node that was removed still has to hand over: of how many
// partitions, and what the first of them waits for.
func Handover(c *Core) (partitions int, why string) { return c.transfer.Former.Waits() }

// Leads tells whether a node hands out tasks of a partition. The leader that the register
// names does not while it stands again, as for another cohort.
func Leads(c *Core, p ring.Partition) bool { return c.vnodes.See(p).Leading() != 0 }

// Promised is the epoch below which a node accepts nothing any more of a partition.
func Promised(c *Core, p ring.Partition) uint64 { return c.acceptors.All[p].Promise }

// Left tells whether the node of a core is no member any more and has nothing
// here that others might lack.
func Left(c *Core) bool {
	return c.view.Dismissed && len(c.transfer.Outgoing)+len(c.view.Dropping) == 0
}

// PassedOver tells whether the claim requests of a client's connection are passed over now,
// because it is quiet.
func PassedOver(c *Core, conn uint64, now clock.Time) bool { return c.dispatch.PassedOver(conn, now) }

// Kept is for how much longer a node keeps finished tasks that others have needed and have
// not named for a while; 0: it keeps none for that.
func Kept(c *Core, now clock.Time) time.Duration { return c.dependency.Watches.Needs.Lasting(now) }

// Tenants is what each tenant uses on this node, for metrics.
func Tenants(c *Core) []quota.Use { return c.ground.Tenants.Used() }

// Growing is the first state of a cluster that takes no tasks before every partition has as many
// copies as nodes are to be there, or as there are replicas.
func Growing(s register.State, nodes int) register.State { return bootstrap.Growing(s, nodes) }

// Available is what a node can do for clients, see [status.Available].
type Available = status.Available

// Sight stands for what a node knew at a moment.
type Sight = status.Sight

// Available gives what this node can do now, nil when that is what it was at
// the given Seen.
func (c *Core) Available(seen Sight) *Available { return c.status.Available(seen, c.closed != nil) }
