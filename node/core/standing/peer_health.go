package standing

import (
	"slices"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// health is what another node has last said of its disk, with its clock.
type health struct {
	Asked        int64 // when it was asked, mono ns: answers may overtake each other
	ClaimsIntact bool  // it knows of nothing that its disk has lost
	sound        bool  // and neither do the others of the cohorts that it shares with this node
}

// peerHealth tells a node that has forgotten something from one that has not: others that
// have forgotten, too, are no majority for which it may end (K4). They would be counted by
// each other, all of them would end, and nobody would be left who knows anything for
// certain. Nothing of this is kept: after a start each asks anew.
type peerHealth struct {
	m *Disk
	// Invariant: Of has members in reach only, each with its newest answer. One that was out of
	// reach may have come back on another disk (Audit).
	Of       map[register.Member]health // those in reach
	unproven []ring.Partition           // of those kept here: not enough others have said that this disk is as they know it
	Look     bool                       // which these are has to be found out anew
}

// Hears takes what another node says of its disk.
func (s *peerHealth) Hears(from register.Member, m *message.Beaten) {
	old, known := s.Of[from]
	if !s.m.env.View.Up(from) || known && m.Sent.Mono < old.Asked || m.Sent.Mono < s.m.since {
		return
	}
	s.Of[from] = health{Asked: m.Sent.Mono, ClaimsIntact: m.Whole, sound: m.Whole && m.Sound}
	s.Look = s.Look || m.Whole != old.ClaimsIntact
	if was := known && !old.ClaimsIntact; was == m.Whole {
		s.m.env.View.Changes++
		s.m.env.say(Review, 0)
	}
}

// Forgotten tells whether a node, this one or another, has lost what it had acknowledged, as
// it says itself. Nodes are asked with each beat by those that share a cohort with them.
func (m *Disk) Forgotten(o register.Member) bool {
	if o == m.env.Self {
		return m.Lost != 0 && (m.env.View.Company() || m.By.Incarnation != register.Incarnation{})
	}
	said, known := m.Peers.Of[o]
	return known && !said.ClaimsIntact
}

// Stands tells whether a node is in reach and its disk has all that it acknowledged, as far as
// it has said: another one neither votes nor leads, and its copies do not count.
func (m *Disk) Stands(o register.Member) bool { return m.env.View.Up(o) && !m.Forgotten(o) }

// Reach drops what those have said who are not in reach any more: they may come back on
// another disk.
func (s *peerHealth) Reach() {
	for o := range s.Of { // Any order: all that are gone.
		if !s.m.env.View.Up(o) {
			delete(s.Of, o)
			s.m.env.View.Changes++
		}
	}
	s.Look = true
}

// Counts tells whether another node is one that this one, which has forgotten something,
// may leave what they share to.
func (s *peerHealth) Counts(o register.Member) bool {
	return o != s.m.env.Self && s.m.env.View.Up(o) && s.m.ConfirmedBy[o] && s.Of[o].sound
}

// Towards is what this node says of itself to another one: that it has lost nothing that
// it knows of, and that enough others have said so too in each cohort they share. In those
// where others are missing it does not matter here.
func (s *peerHealth) Towards(o register.Member) bool {
	if !s.m.env.View.Current || s.m.Lost != 0 {
		return false
	}
	s.prove()
	return !slices.ContainsFunc(s.unproven, func(p ring.Partition) bool { return slices.Contains(s.m.env.View.Cells[p].Cohort, o) })
}

// prove finds the partitions for which too few others go by this disk.
func (s *peerHealth) prove() {
	if !s.Look {
		return
	}
	s.Look, s.unproven = false, s.unproven[:0]
	for p := range s.m.env.View.Cells {
		if cohort := s.m.env.View.Cells[p].Cohort; slices.Contains(cohort, s.m.env.Self) && !s.proven(cohort) {
			s.unproven = append(s.unproven, ring.Partition(p))
		}
	}
}

// proven tells whether a majority of a cohort, this node among them, goes by its disk: who
// has forgotten something knows no better. And all in reach have told what they know. That
// asks for no more than there is where somebody can be spared: a majority without it of
// those who have forgotten nothing tell each other so, also when all have just started.
func (s *peerHealth) proven(cohort []register.Member) bool {
	n := 0
	for _, o := range cohort {
		told := o == s.m.env.Self || s.m.ConfirmedBy[o]
		if !told && s.m.env.View.Up(o) {
			return false
		}
		if o == s.m.env.Self || told && s.Of[o].ClaimsIntact {
			n++
		}
	}
	return n >= quorum.Majority(len(cohort))
}

// asks are the nodes to be asked with each beat: those that share a cohort with this one,
// and, when it has forgotten something, those that vote in the register, which it is not
// to leave without a majority either.
func (s *peerHealth) asks(company []register.Member) []register.Member {
	if s.m.Lost == 0 {
		return company
	}
	all := slices.Concat(company, s.m.env.View.Voters, s.m.env.View.Outgoing)
	slices.SortFunc(all, register.Member.Compare)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(o register.Member) bool { return o == s.m.env.Self })
}
