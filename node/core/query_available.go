package core

import (
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Available is what this node can do for clients, as far as it knows, and what is
// missing that a cluster should have.
type Available struct {
	// Seen is another one whenever the rest may have changed.
	Seen Sight
	// Enqueue and Claim tell whether tasks can be added, and handed out: through a
	// node that is alone all of them, else some. Through one that stops none can.
	Enqueue, Claim bool
	// CutOff tells that the leader of no partition is in reach: other nodes may do what this
	// one cannot.
	CutOff bool
	// Enqueueable has a bit for each partition that takes enqueues now, in the
	// order of nornv1.Placement.
	Enqueueable []byte

	// Filled: this node holds every copy that was planned for it when it started, see
	// [filling].
	Filled bool
	// Needed are the partitions that have no majority in reach without this node, and Voter
	// tells that the register has none.
	Needed int
	Voter  bool

	// Unled are the partitions without a leader in reach, Short those of which fewer
	// copies are in reach than there are to be, as far as there are nodes for them.
	Unled, Short int
	// Replicas is how many copies of each partition there are to be, Copies how many members
	// the cohort with the fewest has: a quorum is one of those. 0: not known yet, or tasks are
	// not taken before they are as many as is expected.
	Replicas, Copies int
	// Nodes are the members of the cluster, Down those of them out of reach.
	Nodes, Down int
	// Majority tells whether a majority of those that keep the register is in reach.
	Majority bool
	// Removed tells that this node is no member any more: what it knows of the cluster
	// grows old.
	Removed bool
}

// Sight stands for what a node knew at a moment.
type Sight struct {
	routes, revision uint64
	leading          int
	majority         bool
	closed, removed  bool
	current, filled  bool
	voters           uint64
}

// Available gives what this node can do now, nil when that is what it was at
// the given Seen.
func (c *Core) Available(seen Sight) *Available {
	if !c.filling.done && (seen.revision != c.view.State.Revision || seen.current != c.view.Current || seen.voters != c.view.VoterChanges || seen.routes != c.view.Changes) {
		c.filling.look()
	}
	now := Sight{c.view.Changes, c.view.State.Revision, c.Leading(), observer{c}.majority(), c.closed != nil, c.view.Dismissed, c.view.Current, c.filling.done, c.view.VoterChanges}
	if seen == now {
		return nil
	}
	a := &Available{Seen: now, Enqueueable: make([]byte, (len(c.view.Cells)+7)/8), Majority: now.majority, Removed: now.removed, Filled: now.filled}
	a.Needed, a.Voter = observer{c}.needs(c.cfg.Self)
	for i := range c.view.State.Nodes {
		switch n := &c.view.State.Nodes[i]; n.Status {
		case register.Active, register.Leaving:
			if a.Nodes++; !c.view.Up(n.Member) {
				a.Down++
			}
		}
	}
	if c.view.Joined && c.view.Young == 0 && !c.view.Dismissed {
		a.Replicas, a.Copies = c.transfer.Replicas(), c.transfer.Replicas()
		for i := range c.view.Cells {
			a.Copies = min(a.Copies, len(c.view.Cells[i].Cohort))
		}
	}
	takes, led, whole := 0, 0, min(c.transfer.Replicas(), max(1, a.Nodes))
	for p := range c.view.Cells {
		p := ring.Partition(p)
		if c.copies(p) < whole {
			a.Short++
		}
		if c.view.Joined && !c.view.Dismissed && c.routes.Leads(p) {
			led++
			if !now.closed && c.routes.Takes(p) {
				takes++
				a.Enqueueable[p/8] |= 1 << (p % 8)
			}
		}
	}
	a.Unled = len(c.view.Cells) - led
	a.CutOff = led == 0 && !c.view.Alone
	if c.view.Alone {
		a.Enqueue, a.Claim = takes == len(c.view.Cells), led == len(c.view.Cells) && !now.closed
	} else {
		a.Enqueue, a.Claim = takes > 0, led > 0 && !now.closed
	}
	return a
}

// copies is how many members of a partition's cohort are in reach, with copies that count.
func (c *Core) copies(p ring.Partition) (n int) {
	for _, m := range c.view.Cells[p].Cohort {
		if c.standing.Disk.Stands(m) {
			n++
		}
	}
	return n
}
