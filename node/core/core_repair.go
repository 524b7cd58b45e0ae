package core

import (
	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// repairing is what this node does with what comparisons bring and find.
type repairing struct{ *Core }

// newRepairs compares the partitions of a node.
func newRepairs(c *Core) *repair.Machine {
	return repair.New(repair.Env{
		Self: c.cfg.Self, Every: c.cfg.Repair, Scrub: c.cfg.Scrub, Moving: transfer.Comparisons(),
		View: c.view, Round: c.round, Partitions: c.vnodes, Random: c.cfg.Rand.Uint64,
		Proofs: c.retention.Tombstones, Others: repairing{c},
	})
}

// Keep merges facts of a peer.
func (c repairing) Keep(now clock.Time, from register.Member, part *message.PartFacts) (changed, taken int) {
	n, _, _ := peers(c).keep(now, from, part, false)
	return n.changed, n.taken
}

// Compared passes on how a comparison has ended.
func (c repairing) Compared(now clock.Time, k message.Pair, r *antientropy.Result) (anew bool) {
	c.retention.Tombstones.Ended(now, k, r)
	elected := c.elector.Compared(k, c.cfg.Policy.Retention.Agreed(r))
	return c.transfer.Compared(now, k, r) || elected
}

// Awaits tells whether a move or an election waits for a comparison.
func (c repairing) Awaits(k message.Pair) bool { return c.transfer.Busy[k] || c.elector.Compares(k) }

// Proposed tells whether this node is to be of the cohort of an open proposal.
func (c repairing) Proposed(p ring.Partition) bool { return c.acceptors.Proposed(p) }
