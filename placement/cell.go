package placement

import (
	"slices"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Enough is how many of n members meet every majority of them: whoever has
// compared with so many holds whatever a majority has acknowledged.
func Enough(n int) int { return n - quorum.Majority(n) + 1 }

// Leading gives the member that is to lead: the one named, or the first of the
// cohort where the cell names none of it. ok is false without a cohort.
func Leading(cell *register.Cell) (leader register.Member, ok bool) {
	if len(cell.Cohort) == 0 {
		return register.Member{}, false
	}
	if slices.Contains(cell.Cohort, cell.Leader) {
		return cell.Leader, true
	}
	return cell.Cohort[0], true
}

// Zombie says that a member which has data of the partition is to hand it over
// and may delete it then: the partition has a cohort, and the member is neither
// in it nor planned.
func Zombie(cell *register.Cell, planned []register.Member, self register.Member) bool {
	return len(cell.Cohort) > 0 && !slices.Contains(cell.Cohort, self) && !slices.Contains(planned, self)
}

// Zombie is [Zombie] for a partition of the view.
func (v *View) Zombie(p ring.Partition, self register.Member) bool {
	return Zombie(v.cell(p), v.Planned(p), self)
}

// Admit gives the cell with a newcomer that has copied everything, see
// [View.Copied]. It takes the place of a member that is not planned, if there
// is one and the cohort is as large as planned and the rule of cohorts allows
// it: one that is gone first, then a dead one, one that is leaving, any other,
// the leader last. ok is false when the newcomer is not planned, is no active
// node, is in the cohort already, or too few are left to have copied from.
//
// The leader stays if it is still in the cohort and not gone. Otherwise it is
// the preferred one, or else the first living one in the order of the plan.
func Admit(cell *register.Cell, planned []register.Member, newcomer register.Member,
	standing func(register.Member) Standing, nonce uint64,
) (next register.Cell, ok bool) {
	if !slices.Contains(planned, newcomer) || slices.Contains(cell.Cohort, newcomer) ||
		standing(newcomer).Status != register.Active {
		return register.Cell{}, false
	}
	n, left := holders(cell.Cohort, standing)
	if n == 0 || left < Enough(n) {
		return register.Cell{}, false
	}
	stay := slices.Clone(cell.Cohort)
	if out, found := dispensable(cell, planned, standing); found && len(stay) >= len(planned) && mayLose(cell, out, standing, false) {
		stay = without(stay, out)
	}
	if len(stay) >= register.MaxCohort {
		return register.Cell{}, false
	}
	next = register.Cell{Epoch: cell.Epoch + 1, Cohort: append(stay, newcomer), Nonce: nonce}
	next.Leader = heir(next.Cohort, cell.Leader, planned, standing)
	return next, true
}

// Admit asks for a newcomer's admission to a partition; see [Admit].
func (v *View) Admit(p ring.Partition, newcomer register.Member, nonce uint64) (c register.Change, ok bool) {
	cell := v.cell(p)
	next, ok := Admit(cell, v.Planned(p), newcomer, v.Standing, nonce)
	return register.Change{Partition: p, Old: *cell, New: next}, ok
}

// holders counts the cohort without those that were given up, and of them those
// that are not gone.
func holders(cohort []register.Member, standing func(register.Member) Standing) (n, left int) {
	for _, m := range cohort {
		s := standing(m)
		if s.Lost {
			continue
		}
		n++
		if !s.Gone() {
			left++
		}
	}
	return n, left
}

// mayLose says whether those that stay without a member meet every majority;
// living says that only living ones count.
func mayLose(cell *register.Cell, out register.Member, standing func(register.Member) Standing, living bool) bool {
	n, stay := 0, 0
	for _, m := range cell.Cohort {
		s := standing(m)
		if s.Lost {
			continue
		}
		n++
		if m != out && !s.Gone() && (s.Alive || !living) {
			stay++
		}
	}
	return n > 0 && stay >= Enough(n)
}

// dispensable finds the member that is not planned and the least use.
func dispensable(cell *register.Cell, planned []register.Member, standing func(register.Member) Standing) (out register.Member, found bool) {
	leader, _ := Leading(cell)
	best := 0
	for _, m := range cell.Cohort {
		if slices.Contains(planned, m) {
			continue
		}
		use, s := 5, standing(m)
		switch {
		case s.Lost:
			use = 1
		case s.Gone():
			use = 2
		case !s.Alive:
			use = 3
		case m == leader:
			use = 6
		case s.Status == register.Leaving:
			use = 4
		}
		if !found || use < best {
			out, best, found = m, use, true
		}
	}
	return out, found
}

// heir is who leads a cohort that has changed.
func heir(cohort []register.Member, leader register.Member, planned []register.Member, standing func(register.Member) Standing) register.Member {
	if slices.Contains(cohort, leader) && !standing(leader).Gone() {
		return leader
	}
	for _, living := range []bool{true, false} {
		for _, m := range slices.Concat(planned, cohort) {
			if slices.Contains(cohort, m) && !standing(m).Gone() && (standing(m).Alive || !living) {
				return m
			}
		}
	}
	return cohort[0]
}

// Enqueueable gives the partitions that take new tasks: their leader lives and
// a majority of their cohort.
func Enqueueable(cells []register.Cell, alive []register.Member) *ring.Bitmap {
	living := make(map[register.Member]bool, len(alive))
	for _, m := range alive {
		living[m] = true
	}
	return enqueueable(cells, func(m register.Member) bool { return living[m] })
}

// Enqueueable is [Enqueueable] for the view.
func (v *View) Enqueueable() *ring.Bitmap { return enqueueable(v.state.Cells, v.isAlive) }

func enqueueable(cells []register.Cell, alive func(register.Member) bool) *ring.Bitmap {
	out, err := ring.NewBitmap(len(cells))
	if err != nil {
		return &ring.Bitmap{}
	}
	for p := range cells {
		out.Set(ring.Partition(p), Takes(&cells[p], alive))
	}
	return out
}

// Takes says that a partition takes new tasks: its leader lives and a majority
// of its cohort.
func Takes(cell *register.Cell, alive func(register.Member) bool) bool {
	leader, ok := Leading(cell)
	if !ok || !alive(leader) {
		return false
	}
	n := 0
	for _, m := range cell.Cohort {
		if alive(m) {
			n++
		}
	}
	return n >= quorum.Majority(len(cell.Cohort))
}
