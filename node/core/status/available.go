package status

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
	// Led has a bit for each of those that this node leads; nil: it leads none.
	Led []byte

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
// the given Seen. closed: no requests are taken any more.
func (c *Machine) Available(seen Sight, closed bool) *Available {
	if !c.filling.done && (seen.revision != c.View.State.Revision || seen.current != c.View.Current || seen.voters != c.View.VoterChanges || seen.routes != c.View.Changes) {
		c.filling.look(&c.Env)
	}
	now := Sight{c.View.Changes, c.View.State.Revision, c.Partitions.Led(), c.Majority(), closed, c.View.Dismissed, c.View.Current, c.filling.done, c.View.VoterChanges}
	if seen == now {
		return nil
	}
	bits := (len(c.View.Cells) + 7) / 8
	a := &Available{Seen: now, Enqueueable: make([]byte, bits), Majority: now.majority, Removed: now.removed, Filled: now.filled}
	a.Needed, a.Voter = c.needs(c.Self)
	for i := range c.View.State.Nodes {
		switch n := &c.View.State.Nodes[i]; n.Status {
		case register.Active, register.Leaving:
			if a.Nodes++; !c.View.Up(n.Member) {
				a.Down++
			}
		}
	}
	if c.View.Joined && c.View.Young == 0 && !c.View.Dismissed {
		a.Replicas, a.Copies = c.Transfer.Replicas(), c.Transfer.Replicas()
		for i := range c.View.Cells {
			a.Copies = min(a.Copies, len(c.View.Cells[i].Cohort))
		}
	}
	takes, led, whole := 0, 0, min(c.Transfer.Replicas(), max(1, a.Nodes))
	for p := range c.View.Cells {
		p := ring.Partition(p)
		if c.copies(p) < whole {
			a.Short++
		}
		if c.View.Joined && !c.View.Dismissed && c.Routes.Leads(p) {
			led++
			if !now.closed && c.Routes.Takes(p) {
				takes++
				a.Enqueueable[p/8] |= 1 << (p % 8)
				if m, _ := c.Routes.Leader(p); m == c.Self {
					if a.Led == nil {
						a.Led = make([]byte, bits)
					}
					a.Led[p/8] |= 1 << (p % 8)
				}
			}
		}
	}
	a.Unled = len(c.View.Cells) - led
	a.CutOff = led == 0 && !c.View.Alone
	if c.View.Alone {
		a.Enqueue, a.Claim = takes == len(c.View.Cells), led == len(c.View.Cells) && !now.closed
	} else {
		a.Enqueue, a.Claim = takes > 0, led > 0 && !now.closed
	}
	return a
}

// copies is how many members of a partition's cohort are in reach, with copies that count.
func (c *Machine) copies(p ring.Partition) (n int) {
	for _, m := range c.View.Cells[p].Cohort {
		if c.Standing.Disk.Stands(m) {
			n++
		}
	}
	return n
}
