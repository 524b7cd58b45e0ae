package placement

import (
	"slices"

	"github.com/norn-dev/norn/register"
)

// LostValue is the name of the register's value that lists the removed members
// whose data an operator has given up.
const LostValue = "placement.lost"

// Lost gives the request by which an operator gives up what removed members
// alone held: from then on they count in no cohort, so that partitions of which
// too few holders are left move on with what there is. Members that are not
// removed are left out; those without a record were, long ago. ok is false when there
// is nothing to ask for.
func Lost(s register.State, members ...register.Member) (r register.Request, ok bool) {
	old := s.Values[LostValue]
	data := slices.Clone(old.Data)
	for _, m := range members {
		if n, known := s.Find(m); (!known || n.Status == register.Removed) && !lists(data, m.Incarnation) {
			data = append(data, m.Incarnation[:]...)
			ok = true
		}
	}
	return register.Request{Values: []register.ValueChange{{Name: LostValue, Old: old.Version, Data: data}}}, ok
}

func lists(data []byte, i register.Incarnation) bool {
	for len(data) >= len(i) {
		if register.Incarnation(data[:len(i)]) == i {
			return true
		}
		data = data[len(i):]
	}
	return false
}

// readLost marks the removed members that were given up. The register forgets those that
// were removed first; a cell may name them all the same.
func (v *View) readLost() {
	data := v.state.Values[LostValue].Data
	if len(data) == 0 {
		return
	}
	mark := func(m register.Member) {
		if st := v.standing[m]; st.Gone() && !st.Lost && lists(data, m.Incarnation) {
			st.Lost = true
			v.standing[m] = st
		}
	}
	for i := range v.state.Nodes {
		mark(v.state.Nodes[i].Member)
	}
	for p := range v.state.Cells {
		for _, m := range v.state.Cells[p].Cohort {
			mark(m)
		}
	}
}
