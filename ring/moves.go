package ring

import "slices"

// Move says how the cohort of a partition changes from one plan to another.
type Move struct {
	Partition Partition
	// Added and Removed are in order of [Member.Compare].
	Added, Removed []Member
}

// Moves gives the partitions whose cohorts differ between two plans, in order.
// A partition that a plan does not have has no members there. Who of a cohort
// is first makes no difference: that moves no data.
func Moves(old, new Plan) []Move {
	var out []Move
	for p := range max(old.Partitions(), new.Partitions()) {
		before, after := old.Cohort(Partition(p)), new.Cohort(Partition(p))
		m := Move{Partition: Partition(p), Added: without(after, before), Removed: without(before, after)}
		if len(m.Added)+len(m.Removed) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// without gives the members of one cohort that are not in another, in order.
func without(cohort, other []Member) []Member {
	var out []Member
	for _, m := range cohort {
		if !slices.Contains(other, m) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, Member.Compare)
	return out
}
