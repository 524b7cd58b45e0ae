package core

import (
	"slices"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// filling tells when a node holds every copy that was planned for it when its process began,
// or, for one that joins, by the first plan that counts with it. Whoever stops nodes one by
// one waits for that: a node that serves requests and has no copies yet is none that others
// can be spared for. What is planned later does not matter any more: it takes nothing back.
type filling struct {
	c     *Core
	known bool             // what was planned
	left  []ring.Partition // of that, what is not here yet
	done  bool
}

// look looks anew at what the register says.
func (f *filling) look() {
	c := f.c
	if f.done || !c.joined || !c.current {
		return
	}
	own, member := c.moves.state.Find(c.cfg.Self)
	if !member || own.Status == register.Joining || own.Status == register.Removed {
		return
	}
	view := c.moves.driver.View()
	if !f.known {
		plan, err := view.Foresee(false)
		if own.Status == register.Active && err == nil && !plan.Equal(view.Plan()) {
			return // the plan that counts with it is still to come
		}
		f.known = true
		for p := range c.cells {
			f.left = append(f.left, ring.Partition(p))
		}
	}
	f.left = slices.DeleteFunc(f.left, func(p ring.Partition) bool {
		return slices.Contains(c.cells[p].Cohort, c.cfg.Self) || !slices.Contains(view.Planned(p), c.cfg.Self)
	})
	f.done = len(f.left) == 0
}

// needs is how many partitions have no majority in reach without a node of their cohort, and
// whether the register has none without it.
func (c observer) needs(who register.Member) (partitions int, voter bool) {
	for p := range c.cells {
		if cohort := c.cells[p].Cohort; slices.Contains(cohort, who) && c.without(who, cohort) < quorum.Majority(len(cohort)) {
			partitions++
		}
	}
	if c.lone() {
		return partitions, who == c.cfg.Self
	}
	for _, voters := range [][]register.Member{c.sight.voters, c.sight.outgoing} {
		voter = voter || slices.Contains(voters, who) && c.without(who, voters) < quorum.Majority(len(voters))
	}
	return partitions, voter
}

// without counts those of some nodes that are in reach and intact, but for one.
func (c observer) without(who register.Member, of []register.Member) (n int) {
	for _, o := range of {
		if o != who && c.marks.stands(o) {
			n++
		}
	}
	return n
}
