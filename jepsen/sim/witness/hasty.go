package witness

import (
	"slices"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
)

// Hasty sees what leaves before the sync of its round: nothing of it may tell what is on
// this disk, or have this node lead (K4). Whether it was on the disk in the end only a
// fall in that moment would show.
func Hasty(n Node, ready *message.Ready, violation func(invariant, format string, args ...any)) {
	for i := range ready.Early {
		switch m := ready.Early[i].Message.(type) {
		case *message.Votes, *message.Pushes, *message.PushesTaken, *message.ClaimsTaken, *message.FactsTaken, *message.Fetched, *message.RepairCompleted, *message.Roots, *message.SameRoots, *message.RootsCompleted, *message.Purge, *message.Outcomes, *message.NotHeld, *message.Forwarded:
			violation(check.Lost, "%s%T leaves before what it says is on the disk", n, m)
		}
	}
	for i := range ready.Register {
		if slices.ContainsFunc(ready.Register[i].Changes, func(c register.Change) bool {
			known, alone := n.Known()
			return c.New.Leader == n.Self() && (alone || elects(known, &c.Old))
		}) {
			violation(check.Leader, "%sit asks for cells to lead before what it knows is on its disk", n)
		}
	}
}

// elects tells whether the members of a cell can elect anybody, as far as is known of the
// register. Once most of them are given up, the register names who is to stand: then a node
// asks for a cell to stand in, not to lead.
func elects(known register.State, cell *register.Cell) bool {
	view, left := placement.See(known, nil), 0
	for _, m := range cell.Cohort {
		if !view.Standing(m).Gone() {
			left++
		}
	}
	return left >= quorum.Majority(len(cell.Cohort))
}
