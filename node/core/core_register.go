package core

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/bootstrap"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// changed takes over what has changed in the register.
func (c *Core) changed(now clock.Time, e message.Changed) {
	c.view.Leads = e.Leads
	if !slices.Equal(c.view.Voters, e.Voters) || !slices.Equal(c.view.Outgoing, e.Outgoing) {
		c.view.VoterChanges++
	}
	c.view.Voters, c.view.Outgoing, c.view.Majority = e.Voters, e.Outgoing, e.Majority
	c.learn(now, &e.State)
	c.schedules.Lead(now, e.Leads)
}

// catchUpFor is how long a node waits at its start for its register to get to where
// it was: longer than an election of the register's takes, with all that comes before.
const catchUpFor = 3 * time.Second

// catchUp is what a register said that is older than what this node was shown before.
type catchUp struct {
	state *register.State // nil: nothing
	at    int64           // mono ns from when on that has to do
}

// wait tells whether a state that is behind what this node was shown before it
// started has to do: without a majority the register cannot go through its log, and
// tasks are to be taken in all the same. Whoever goes by it counts for nothing where a
// majority is asked for ([leadership.Acceptors.Blind], [standing.Disk.Trusts], [replication.Writes.unsure]).
func (c *catchUp) wait(now clock.Time, s *register.State) bool {
	if c.state == nil {
		c.at = now.Mono + int64(catchUpFor)
	}
	c.state = s
	return now.Mono >= c.at
}

// learn takes over what the register says. States may come out of order.
func (c *Core) learn(now clock.Time, s *register.State) bool {
	if len(s.Cells) != len(c.view.Cells) {
		return false // of a member that nobody has filled yet
	}
	if !c.view.Joined && c.acceptors.Ahead(s) && !c.behind.wait(now, s) {
		return false // of a register that has just been opened, and goes through its log
	}
	c.view.Joined, c.behind.state = true, nil
	if c.closed == nil && operator.Destroyed(s) {
		c.drain(refusal.Stopping()) // nothing is to be acknowledged that is about to be deleted
	}
	left := false // some partition is kept by others from now on
	before := c.view.Take(s.Cells)
	for p := range before {
		left = left || c.view.Left(ring.Partition(p), &before[p])
		if c.vnodes.Opened(ring.Partition(p)) { // of others nothing is known that a change could end
			c.retention.Tombstones.Follow(ring.Partition(p))
		}
	}
	c.standing.Disk.Changed()
	c.stand()
	c.acceptors.Registered()
	c.elector.Changed(now)
	c.view.Look()
	for p := range c.view.Cells {
		if slices.Contains(c.view.Cells[p].Cohort, c.cfg.Self) && !c.vnodes.Opened(ring.Partition(p)) {
			c.vnodes.Use(ring.Partition(p))
		}
	}
	c.replication.Writes.Changed()
	c.view.Keep(s)
	c.standing.Disk.Words.Keep(c.standing.Disk)
	c.stand()
	bootstrap.Grow(c.view, c.transfer.Replicas(), func(r register.Request) { c.register.Send(r, nil) })
	c.sharedConfig.Compare(c.view.Leads)
	c.repairs.Changed(now)
	c.transfer.Learn(now)
	if left {
		c.logs.Moved()
	}
	c.schedules.Observe(now, s)
	c.sessions.Names.Learn(now, s)
	c.ground.Tenants.Learn(s)
	if bad := c.queues.Load(s); bad != nil {
		c.round.Check(bad)
		return false
	}
	return true
}

// heard takes over who is in reach.
func (c *Core) heard(members []register.Member) {
	for _, m := range c.view.Hear(members) {
		c.repairs.Returned(m)
		c.dispatch.Returned(c.round.Now)
	}
	c.repairs.Room(c.round.Now)
	c.routes.Hear()
}
