package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
)

// fromPeer takes what another node says.
func (c *Core) fromPeer(now clock.Time, m *message.FromPeer) {
	if mark := message.DurabilityIn(m.Message); mark != nil {
		c.standing.Disk.Saw(now, m.From, *mark)
	}
	switch b := m.Message.(type) {
	case *message.Facts:
		c.arrivals.Take(now, m.From, b)
	case *message.FactsTaken:
		if !c.transfer.Answered(now, m.From, b) && !c.transfer.Quarantine.Answered(now, m.From, b) {
			c.replication.Writes.Taken(m.From, b)
		}
	case *message.Repair:
		c.repairs.Step(now, m.From, b)
	case *message.Forward:
		c.routes.Asked(now, m.From, b)
	case *message.Forwarded:
		c.routes.Answered(b.Number, m.From, &message.Reply{Message: b.Message, Err: b.Err, Grants: b.Grants, Declined: b.Declined})
	case *message.Fetch:
		c.replication.Reads.Asked(m.From, b)
	case *message.Fetched:
		c.replication.Reads.Fetched(now, m.From, b)
	case *message.Watch:
		c.dependency.Watches.Watched(now, m.From, b)
	case *message.Outcomes:
		c.dependency.Watches.Heard(b)
	case *message.QueueHeads:
		c.dispatch.Heads(now, m.From, b)
	case *message.Roots:
		c.repairs.Roots.Asked(now, m.From, b)
	case *message.SameRoots:
		c.repairs.Roots.Answered(now, m.From, b)
	case *message.RootsCompleted:
		c.repairs.Roots.Completed(now, m.From, b)
	case *message.RepairCompleted:
		c.retention.Tombstones.Completed(now, m.From, b)
	case *message.Purge:
		c.retention.Tombstones.Take(now, m.From, b)
	case *message.Cells:
		c.transfer.Former.Take(now, m.From, b)
	case *message.QuarantineFacts:
		c.transfer.Quarantine.Told(now, m.From, b)
	case *message.Withdraw:
		c.ground.Pending.Cancel(message.Origin{Conn: c.routes.Conn(m.From), Request: b.Number})
	case *message.Dropped:
		c.dispatch.Undelivered(now, b.Grants)
	case *message.Claims:
		c.leases.Asked(now, m.From, b)
	case *message.ClaimsTaken:
		c.leases.Taken(now, m.From, b)
	case *message.AskOrphans:
		c.leases.AnswerOrphans(m.From, b)
	case *message.NotHeld:
		c.leases.DropNotHeld(now, b)
	case *message.Work:
		c.sessions.Known.Take(now, m.From, b)
	case *message.ReclaimLease:
		c.leases.TakenBack(now, b)
	case *message.AbandonClaims:
		c.dispatch.GivenUp(now, b)
	default:
		c.elections(now, m)
	}
}

// elections takes what belongs to the elections of leaders.
func (c *Core) elections(now clock.Time, m *message.FromPeer) {
	v := leadership.Voter{Machine: c.elector}
	switch b := m.Message.(type) {
	case *message.Ballots:
		v.Ballots(now, m.From, b)
	case *message.Votes:
		v.Votes(now, m.From, b)
	case *message.Pushes:
		v.Pushes(now, m.From, b)
	case *message.PushesTaken:
		for i := range b.Votes {
			c.elector.Runs.Pushed(now, m.From, b.Votes[i])
			c.elector.Runs.Hopeless(b.Votes[i].Partition, c.standing.Disk.Stands)
		}
	case *message.Elect:
		v.Stand(now, m.From, b)
	case *message.Beat:
		c.standing.Clocks.Asked(now, m.From, b)
	case *message.Beaten:
		c.standing.Clocks.Beaten(now, m.From, b)
		c.stand()
	}
}
