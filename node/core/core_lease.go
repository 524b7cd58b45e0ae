package core

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// leasing is what this node does with what becomes of leases.
type leasing struct{ *Core }

// newLeases brings the claims of a node to a majority.
func newLeases(c *Core) *lease.Machine {
	return lease.New(lease.Env{
		Policy: c.cfg.Policy.Lease,
		Self:   c.cfg.Self, Eta: c.cfg.Eta, Random: c.cfg.Rand.Uint64, View: c.view, Round: c.round, Partitions: c.vnodes,
		Standing: c.standing, Leadership: c.elector, Acceptors: c.acceptors, Others: leasing{c},
		Planned: func(p ring.Partition) []register.Member { return c.transfer.Driver.View().Planned(p) },
	})
}

// work ends a round: its claims are sent, those go on who waited for that this node still
// leads, or for a pause, and old proposals are given up.
func (c leasing) work(now clock.Time) {
	c.leases.Send(now)
	if min(c.replication.Confirms.Due(), c.leases.AskDue()) <= now.Mono {
		c.replication.Confirms.GoOn(now)
		c.leases.Ask(now)
	}
	c.leases.Reconcile(now)
	c.dispatch.Resume(now)
	c.leases.Expire(now)
}

// Ready gives the queues of which a partition has something to hand out.
func (c leasing) Ready(p ring.Partition) []string { return c.dispatch.Index.Ready(p) }

// Hide takes a partition out of what is handed out of a queue.
func (c leasing) Hide(p ring.Partition, queue string) { c.dispatch.Index.OnHead(p, queue, nil) }

// Keep merges facts of a member.
func (c leasing) Keep(now clock.Time, from register.Member, part *message.PartFacts) {
	peers(c).keep(now, from, part, false)
}

// Learned looks at a claim that this leader has just heard of.
func (c leasing) Learned(now clock.Time, p ring.Partition, task id.ID, r *claim.Record) {
	c.dispatch.Learned(now, p, task, r)
}

// Confirmed has those go on who wait for that this node still leads.
func (c leasing) Confirmed(ring.Partition) {
	c.replication.Confirms.Look, c.dependency.Unconfirmed.At = true, 0
}

// Forget leaves a grant out that was taken back.
func (c leasing) Forget(g message.GrantRef) { c.dispatch.Index.Forget(g) }
