package status

import (
	"slices"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// filling tells when a node holds every copy that was planned for it when its process began,
// or, for one that joins, by the first plan that counts with it. Whoever stops nodes one by
// one waits for that: a node that serves requests and has no copies yet is none that others
// can be spared for, and neither is one without its vote in the register. What is planned later does not matter any more: it takes nothing back.
type filling struct {
	known bool             // what was planned
	left  []ring.Partition // of that, what is not here yet
	done  bool
}

// look looks anew at what the register says.
func (f *filling) look(c *Env) {
	if f.done || !c.View.Joined || !c.View.Current {
		return
	}
	own, member := c.View.State.Find(c.Self)
	if !member || own.Status == register.Joining || own.Status == register.Removed {
		return
	}
	view := c.Transfer.Driver.View()
	if !f.known {
		plan, err := view.Foresee(false)
		if own.Status == register.Active && err == nil && !plan.Equal(view.Plan()) {
			return // the plan that counts with it is still to come
		}
		f.known = true
		for p := range c.View.Cells {
			f.left = append(f.left, ring.Partition(p))
		}
	}
	f.left = slices.DeleteFunc(f.left, func(p ring.Partition) bool {
		return slices.Contains(c.View.Cells[p].Cohort, c.Self) || !slices.Contains(view.Planned(p), c.Self)
	})
	f.done = len(f.left) == 0 && f.votes(c)
}

// maxVoters is how many nodes vote in the register at most.
const maxVoters = 5

// votes tells whether the register needs nothing of this node either: who is removed votes no
// more, so that this one has its place, and the next one may be stopped for it. It has a vote,
// or there are as many voters as those in reach can be; an odd number.
func (f *filling) votes(c *Env) bool {
	able := 0
	if len(c.View.Voters) == 0 || len(c.View.Outgoing) > 0 {
		return !c.View.Company()
	}
	for i := range c.View.State.Nodes {
		n := &c.View.State.Nodes[i]
		if n.Status == register.Active && c.View.Up(n.Member) {
			able++
		}
	}
	for _, v := range c.View.Voters {
		if n, member := c.View.State.Find(v); !member || n.Status == register.Removed {
			return false
		}
	}
	wanted := min(maxVoters, able)
	return slices.Contains(c.View.Voters, c.Self) || len(c.View.Voters) >= wanted-(1-wanted%2)
}

// needs is how many partitions have no majority in reach without a node of their cohort, and
// whether the register has none without it.
func (c *Machine) needs(who register.Member) (partitions int, voter bool) {
	for p := range c.View.Cells {
		if cohort := c.View.Cells[p].Cohort; slices.Contains(cohort, who) && c.without(who, cohort) < quorum.Majority(len(cohort)) {
			partitions++
		}
	}
	if c.lone() {
		return partitions, who == c.Self
	}
	for _, voters := range [][]register.Member{c.View.Voters, c.View.Outgoing} {
		voter = voter || slices.Contains(voters, who) && c.without(who, voters) < quorum.Majority(len(voters))
	}
	return partitions, voter
}

// without counts those of some nodes that are in reach and intact, but for one.
func (c *Machine) without(who register.Member, of []register.Member) (n int) {
	for _, o := range of {
		if o != who && c.Standing.Disk.Stands(o) {
			n++
		}
	}
	return n
}
