package standing

import "github.com/norn-dev/norn/ring"

// Duty is something that a member of a cohort does for the others.
type Duty uint8

// The duties. What each asks for is the table of the package comment.
const (
	Vote   Duty = iota // for another member in an election
	Accept             // claims of a leader
	Lead               // the partition
	Renew              // claims, as its leader
	Count              // as a copy of a fact, and as an answer to a read
)

// May tells whether this node may do a duty for a partition now.
//
// It is a pure function of the view, of the clocks as last judged and of what others have said.
// So all callers of one round get the same answer, and a duty is refused before anything is
// done for it.
func (m *Machine) May(p ring.Partition, d Duty) bool {
	switch d {
	case Vote:
		return !m.env.View.Dismissed && !m.Clocks.Bad[p] && m.Disk.Trusts(p)
	case Accept, Lead:
		return m.May(p, Vote) && !m.env.View.Deleting(p)
	case Renew:
		return !m.Clocks.Doubt[p]
	case Count:
		return !m.env.View.Deleting(p) && m.Disk.Counts(p, m.env.View.Cells[p].Epoch)
	}
	return false
}
