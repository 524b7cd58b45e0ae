package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// errand is what a request to the register is for.
type errand struct {
	changes []register.Change
	set     *setQueue                         // nil: none
	then    func(clock.Time, register.Result) // hears the answer; nil: nobody
}

// askAgain is the pause after the register has failed.
const askAgain = 100 * time.Millisecond

// ask sends a request to the register: a read when there are no changes.
func (c *Core) ask(changes []register.Change) {
	c.send(errand{changes: changes}, register.Request{Changes: changes})
}

func (c *Core) send(e errand, r register.Request) {
	c.tag++
	r.Tag = c.tag
	c.pending[r.Tag] = e
	c.ready.Register = append(c.ready.Register, r)
}

// registered takes the register's answer: what was won is led, what is without
// a leader in this incarnation is asked for.
func (c *Core) registered(now clock.Time, r register.Result) {
	e, ok := c.pending[r.Tag]
	if !ok {
		return
	}
	delete(c.pending, r.Tag)
	if r.Err != nil && e.set != nil {
		c.queues.changed(now, e.set, r)
	}
	if r.Err != nil {
		c.askAt = now.Mono + int64(askAgain) // unknown is not failed: read what came of it
		if e.then != nil {
			e.then(now, r)
		}
		return
	}
	if !c.learn(now, &r.State) {
		return
	}
	if e.set != nil && r.Err == nil {
		c.queues.changed(now, e.set, r)
	}
	if e.then != nil {
		e.then(now, r)
	}
	for _, change := range e.changes {
		// The nonce decides, not the answer: a lost answer may have been a win.
		cell, v := &c.cells[change.Partition], c.vnodes[change.Partition]
		if cell.Same(&change.New) && v.Leading() != cell.Epoch {
			v.Lead(cell.Epoch)
			c.links.began(change.Partition)
			v.Announce()
		}
	}
	c.campaign()
}

// changed takes over what has changed in the register.
func (c *Core) changed(now clock.Time, e Changed) {
	c.moves.leads = e.Leads
	c.sight.voters, c.sight.majority = e.Voters, e.Majority
	if c.learn(now, &e.State) {
		c.campaign()
	}
}

// learn takes over what the register says. States may come out of order.
func (c *Core) learn(now clock.Time, s *register.State) bool {
	if len(s.Cells) != len(c.cells) {
		return false // of a member that nobody has filled yet
	}
	c.joined = true
	if c.closed == nil && Destroyed(s) {
		c.drain(stopping()) // nothing is to be acknowledged that is about to be deleted
	}
	for p := range s.Cells {
		if s.Cells[p].Epoch >= c.cells[p].Epoch {
			c.cells[p] = s.Cells[p]
			c.collect.purges.follow(ring.Partition(p))
		}
	}
	c.routes.changed()
	c.writes.changed()
	if s.Revision >= c.moves.state.Revision || s.Generation > c.moves.state.Generation {
		c.moves.state = *s
	}
	c.trees.changed()
	c.scrubs.changed(now)
	c.repairs.changed(now)
	c.moves.learn(now)
	if bad := c.queues.load(s.Queues); bad != nil {
		c.check(bad)
		return false
	}
	return true
}

// stands tells whether this node is the one to lead a partition. Until there are
// elections that is the node named in the cell, and where none is named yet the
// first of the cohort; with others in the cohort its claims are neither
// replicated nor fenced.
func (c *Core) stands(cell *register.Cell) bool {
	m, ok := placement.Leading(cell)
	return ok && m == c.cfg.Self && !c.moves.dismissed
}

// campaign asks for every partition of ours that this process does not lead. A
// cohort of one is its own majority, so the vote is its own promise and the
// cell is all there is to win.
func (c *Core) campaign() {
	asked := make(map[ring.Partition]bool)
	for _, e := range c.pending { // Any order: all are noted.
		for _, change := range e.changes {
			asked[change.Partition] = true
		}
	}
	var changes []register.Change
	for p := range c.cells {
		cell := &c.cells[p]
		if c.vnodes[p].Leading() == cell.Epoch && cell.Epoch != 0 {
			continue
		}
		if c.vnodes[p].Leading() != 0 {
			c.vnodes[p].Follow()
			c.vnodes[p].Announce()
		}
		if !c.stands(cell) || asked[ring.Partition(p)] {
			continue // its answer says more
		}
		changes = append(changes, register.Change{
			Partition: ring.Partition(p), Old: *cell,
			New: register.Cell{
				Epoch: cell.Epoch + 1, Cohort: cell.Cohort,
				Leader: c.cfg.Self, Nonce: c.cfg.Rand.Uint64(),
			},
		})
	}
	if len(changes) > 0 {
		c.ask(changes)
	}
}
