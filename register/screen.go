package register

import "slices"

// Void makes those changes of cells lose that would give a partition to a node
// that is no member any more: the cohort newly names a removed one, or one that
// leaving says is about to be. A cohort that had the node before may keep it: who leads
// it moves away from there step by step. It reports whether there was one.
//
// It is for whoever orders the requests, before they are written to a log: what a
// logged request does is the same in all builds.
func (s *State) Void(r *Request, leaving func(Member) bool) (voided bool) {
	for i := range r.Changes {
		c := &r.Changes[i]
		if int(c.Partition) >= len(s.Cells) {
			continue
		}
		was := s.Cells[c.Partition].Cohort
		gone := func(m Member) bool {
			n, _ := s.Find(m)
			return !slices.Contains(was, m) && (n.Status == Removed || leaving(m))
		}
		if slices.ContainsFunc(c.New.Cohort, gone) {
			c.New, voided = Cell{}, true // no epoch is lower than that of a cell
		}
	}
	return voided
}

// Leaving are the members that a request would remove.
func (r *Request) Leaving() []Member {
	var out []Member
	for i := range r.Nodes {
		if n := &r.Nodes[i].New; n.Status == Removed {
			out = append(out, n.Member)
		}
	}
	return out
}
