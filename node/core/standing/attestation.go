package standing

import (
	"slices"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// without tells whether a majority of these is there and intact without a node.
//
// counts says which of the others are there with all that they have acknowledged. A cohort that
// does not have this node in it can always do without it.
func without(self register.Member, needs []register.Member, counts func(register.Member) bool) bool {
	if !slices.Contains(needs, self) {
		return true // it is nothing to them
	}
	others := 0
	for _, o := range needs {
		if o != self && counts(o) {
			others++
		}
	}
	return others >= quorum.Majority(len(needs))
}

// MayEnd tells whether a node that has lost what it had acknowledged may end, by what the
// others in reach have said: the same question as [Disk.MayRetire], by their register. least is
// how many of them have to say so. Who is needed is not one's word either: one who lies could
// name a register that is newer than all, in which nobody needs this node.
func MayEnd(self register.Member, said map[register.Member]message.MayRetire, least int) bool {
	var revisions []uint64
	for _, s := range said { // Any order: they are sorted.
		if s.Sound {
			revisions = append(revisions, s.Revision)
		}
	}
	if len(revisions) < max(1, least) {
		return false
	}
	slices.Sort(revisions)
	known := revisions[max(0, len(revisions)-2)] // by one more, unless there is none
	for _, s := range said {                     // Any order: all count.
		if s.Sound && s.Revision >= known && slices.ContainsFunc(s.Needs, func(needs []register.Member) bool {
			return !without(self, needs, func(o register.Member) bool { return said[o].Sound })
		}) {
			return false
		}
	}
	return true
}

// Attestation is what a node can say of itself and the register when it is asked whether another
// one can be spared. It does not change.
type Attestation struct {
	sound    bool
	self     register.Member
	revision uint64
	cells    []register.Cell
	unproven []ring.Partition
	voters   [2][]register.Member // and the outgoing ones
}

// Attest gives the witness as it is now; nil: as it was.
//
// It returns nil as long as nothing has changed: the caller publishes the value to other
// goroutines, and most rounds change nothing.
func (m *Machine) Attest(was *Attestation) *Attestation {
	s, sight := &m.Disk.Peers, m.env.View
	now := Attestation{
		sound: sight.Current && m.Disk.Lost == 0 && len(sight.Voters) > 0 && len(sight.State.Cells) == len(sight.Cells),
		self:  m.env.Self, revision: sight.State.Revision, cells: sight.State.Cells,
		voters: [2][]register.Member{sight.Voters, sight.Outgoing},
	}
	if now.sound {
		s.prove()
	}
	if was != nil && was.sound == now.sound && was.revision == now.revision && len(was.cells) == len(now.cells) && slices.Equal(was.unproven, s.unproven) &&
		slices.Equal(was.voters[0], now.voters[0]) && slices.Equal(was.voters[1], now.voters[1]) {
		return nil
	}
	next := now // only this one outlives the call
	next.unproven = slices.Clone(s.unproven)
	return &next
}

// For is what a witness says to one who asks; nil is none, and says that it does not count.
//
// Needs names each cohort and each set of the register's voters that the asker is in. The asker
// ends only where a majority of each of them says Sound without it.
func (w *Attestation) For(who register.Member) (s message.MayRetire) {
	if w == nil || !w.sound || who == w.self {
		return s
	}
	for _, p := range w.unproven {
		if slices.Contains(w.cells[p].Cohort, who) {
			return s
		}
	}
	s.Sound, s.Revision = true, w.revision
	known := make(map[string]bool)
	need := func(of []register.Member) {
		if key := view.CohortKey(of); slices.Contains(of, who) && !known[key] {
			known[key] = true
			s.Needs = append(s.Needs, of)
		}
	}
	for p := range w.cells {
		need(w.cells[p].Cohort)
	}
	for _, voters := range w.voters {
		need(voters)
	}
	return s
}
