package placement

import (
	"slices"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// survey is one look of the driver at all cells.
type survey struct {
	*Driver
	now int64
	// unsettled says that the plan is about to change: cohorts stay as they
	// are, and leaders where they live.
	unsettled bool
	// leads is how many cells each member leads, as far as the survey has come
	// with what it has changed.
	leads map[register.Member]int
	room  int // cells that may return now, beside those on their way
}

func (d *Driver) survey(now int64, unsettled bool) *survey {
	s := &survey{Driver: d, now: now, unsettled: unsettled, leads: map[register.Member]int{}}
	for p := range d.view.state.Cells {
		if leader, ok := Leading(&d.view.state.Cells[p]); ok {
			s.leads[leader]++
		}
	}
	if now >= d.refill {
		d.credit = d.returns()
	}
	s.room = d.atOnce() - d.arrived(now)
	return s
}

// next gives the cohort and leader that a cell shall have; ok is false when it
// is to stay as it is.
func (s *survey) next(p ring.Partition, cell *register.Cell) (next register.Cell, ok bool) {
	planned := s.view.Planned(p)
	if n, _ := holders(cell.Cohort, s.view.Standing); n == 0 {
		return s.begins(cell, planned)
	}
	leader, _ := Leading(cell)
	dead := s.health.deadAt(leader)
	if dead <= s.now {
		delete(s.returning, p)
		return s.succeed(cell, leader, planned)
	}
	s.at(dead)
	if s.unsettled {
		return register.Cell{}, false
	}
	if next, ok = s.shrink(p, cell, planned); ok {
		delete(s.returning, p)
		return next, true
	}
	return s.handBack(p, cell, leader, planned)
}

// begins gives a cell its first cohort. One whose members are all given up
// begins again, with nothing.
func (s *survey) begins(cell *register.Cell, planned []register.Member) (register.Cell, bool) {
	if len(planned) == 0 || s.unsettled || cell.Epoch != 0 && len(cell.Cohort) == 0 {
		return register.Cell{}, false
	}
	cohort := slices.Clone(planned)
	return register.Cell{Cohort: cohort, Leader: heir(cohort, register.Member{}, planned, s.view.Standing)}, true
}

// succeed gives the cells of a dead leader to a living member.
func (s *survey) succeed(cell *register.Cell, leader register.Member, planned []register.Member) (register.Cell, bool) {
	to, ok := s.best(cell, leader, planned, s.view.isAlive)
	if !ok {
		return register.Cell{}, false // nobody lives: it is left alone
	}
	return s.led(cell, leader, to), true
}

// best finds the member of a cohort that shall lead instead of another: the
// preferred leader, or who leads least; one that leaves only if nobody else
// fits.
func (s *survey) best(cell *register.Cell, leader register.Member, planned []register.Member, fits func(register.Member) bool) (to register.Member, ok bool) {
	for _, m := range cell.Cohort {
		st := s.view.standing[m]
		if m == leader || !fits(m) {
			continue
		}
		if len(planned) > 0 && m == planned[0] && st.Status == register.Active {
			return m, true
		}
		better := s.leads[m] < s.leads[to]
		if was := s.view.standing[to].Status; ok && was != st.Status {
			better = st.Status == register.Active
		}
		if !ok || better {
			to, ok = m, true
		}
	}
	return to, ok
}

// led gives a cell with another leader.
func (s *survey) led(cell *register.Cell, from, to register.Member) register.Cell {
	s.leads[from]--
	s.leads[to]++
	return register.Cell{Cohort: cell.Cohort, Leader: to}
}

// shrink takes out a member that is not planned, when everybody who is planned
// is in and a majority of those that stay lives.
func (s *survey) shrink(p ring.Partition, cell *register.Cell, planned []register.Member) (register.Cell, bool) {
	if len(planned) == 0 || len(cell.Cohort) <= len(planned) {
		return register.Cell{}, false
	}
	for _, m := range planned {
		if !slices.Contains(cell.Cohort, m) {
			return register.Cell{}, false // a newcomer will take its place
		}
	}
	out, found := dispensable(cell, planned, s.view.Standing)
	if !found || !mayLose(cell, out, s.view.Standing, true) {
		return register.Cell{}, false
	}
	cohort := without(cell.Cohort, out)
	whole := s.whole[p]
	for _, m := range cohort {
		whole = max(whole, s.health.upSince(m))
	}
	// Where one or two are left but for those that were given up, these are a majority only
	// together: none has anything alone that the others could miss.
	if ripe := whole + int64(s.cfg.Settle); ripe > s.now && !(s.view.Standing(out).Lost && s.kept(cell) <= 2) {
		s.at(ripe)
		return register.Cell{}, false
	}
	leader, _ := Leading(cell)
	return register.Cell{Cohort: cohort, Leader: heir(cohort, leader, planned, s.view.Standing)}, true
}

// kept is how many of a cohort were not given up.
func (s *survey) kept(cell *register.Cell) int {
	n, _ := holders(cell.Cohort, s.view.Standing)
	return n
}

// handBack returns a cell to its preferred leader, or takes it from a leader
// that is leaving.
func (s *survey) handBack(p ring.Partition, cell *register.Cell, leader register.Member, planned []register.Member) (register.Cell, bool) {
	fits := func(m register.Member) bool {
		if s.view.standing[m].Status != register.Active {
			return false
		}
		at := s.health.stableAt(m)
		if at > s.now {
			s.at(at)
		}
		return at <= s.now
	}
	to, ok := leader, false
	switch {
	case s.view.standing[leader].Status == register.Leaving:
		to, ok = s.best(cell, leader, planned, fits)
	case len(planned) > 0 && planned[0] != leader && slices.Contains(cell.Cohort, planned[0]):
		to, ok = planned[0], fits(planned[0])
	}
	if !ok {
		return register.Cell{}, false
	}
	if _, asked := s.returning[p]; asked || s.room <= 0 {
		return register.Cell{}, false // looked at again with the next state, or when one is lost
	}
	if s.credit == 0 {
		s.at(s.refill)
		return register.Cell{}, false
	}
	if s.credit == s.returns() {
		s.refill = s.now + int64(s.cfg.ReturnEvery)
	}
	s.credit--
	s.room--
	s.returning[p] = returning{cell: *cell, busy: s.now + int64(returnPatience), lost: s.now + int64(s.cfg.Retry)}
	s.at(s.returning[p].busy)
	s.from = int(p) + 1
	return s.led(cell, leader, to), true
}
