package core

import (
	"slices"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// health is what another node has last said of its disk, with its clock.
type health struct {
	asked        int64 // when it was asked, mono ns: answers may overtake each other
	claimsIntact bool  // it knows of nothing that its disk has lost
	sound        bool  // and neither do the others of the cohorts that it shares with this node
}

// peerHealth tells a node that has forgotten something from one that has not: others that
// have forgotten, too, are no majority for which it may end (K4). They would be counted by
// each other, all of them would end, and nobody would be left who knows anything for
// certain. Nothing of this is kept: after a start each asks anew.
type peerHealth struct {
	m        *durability
	of       map[register.Member]health // those in reach
	unproven []ring.Partition           // of those kept here: not enough others have said that this disk is as they know it
	look     bool                       // which these are has to be found out anew
}

// hears takes what another node says of its disk. One of a build that says nothing is
// never counted, and whoever has forgotten something waits.
func (s *peerHealth) hears(from register.Member, m *message.Beaten) {
	old, known := s.of[from]
	if !s.m.c.view.Up(from) || known && m.Sent.Mono < old.asked || m.Sent.Mono < s.m.since {
		return
	}
	s.of[from] = health{asked: m.Sent.Mono, claimsIntact: m.Whole, sound: m.Whole && m.Sound}
	s.look = s.look || m.Whole != old.claimsIntact
	if was := known && !old.claimsIntact; was == m.Whole {
		s.m.c.view.Changes++
		s.m.c.elector.look()
	}
}

// forgotten tells whether a node, this one or another, has lost what it had acknowledged, as
// it says itself. Nodes are asked with each beat by those that share a cohort with them.
func (m *durability) forgotten(o register.Member) bool {
	if o == m.c.cfg.Self {
		return m.lost != 0 && (m.c.view.Company() || m.by.Incarnation != register.Incarnation{})
	}
	said, known := m.peers.of[o]
	return known && !said.claimsIntact
}

// stands tells whether a node is in reach and its disk has all that it acknowledged, as far as
// it has said: another one neither votes nor leads, and its copies do not count.
func (m *durability) stands(o register.Member) bool { return m.c.view.Up(o) && !m.forgotten(o) }

// reach drops what those have said who are not in reach any more: they may come back on
// another disk.
func (s *peerHealth) reach() {
	for o := range s.of { // Any order: all that are gone.
		if !s.m.c.view.Up(o) {
			delete(s.of, o)
			s.m.c.view.Changes++
		}
	}
	s.look = true
}

// counts tells whether another node is one that this one, which has forgotten something,
// may leave what they share to.
func (s *peerHealth) counts(o register.Member) bool {
	return o != s.m.c.cfg.Self && s.m.c.view.Up(o) && s.m.confirmedBy[o] && s.of[o].sound
}

// towards is what this node says of itself to another one: that it has lost nothing that
// it knows of, and that enough others have said so too in each cohort they share. In those
// where others are missing it does not matter here.
func (s *peerHealth) towards(o register.Member) bool {
	if !s.m.c.view.Current || s.m.lost != 0 {
		return false
	}
	s.prove()
	return !slices.ContainsFunc(s.unproven, func(p ring.Partition) bool { return slices.Contains(s.m.c.view.Cells[p].Cohort, o) })
}

// prove finds the partitions for which too few others go by this disk.
func (s *peerHealth) prove() {
	if !s.look {
		return
	}
	s.look, s.unproven = false, s.unproven[:0]
	for p := range s.m.c.view.Cells {
		if cohort := s.m.c.view.Cells[p].Cohort; slices.Contains(cohort, s.m.c.cfg.Self) && !s.proven(cohort) {
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
		told := o == s.m.c.cfg.Self || s.m.confirmedBy[o]
		if !told && s.m.c.view.Up(o) {
			return false
		}
		if o == s.m.c.cfg.Self || told && s.of[o].claimsIntact {
			n++
		}
	}
	return n >= quorum.Majority(len(cohort))
}

// asks are the nodes to be asked with each beat: those that share a cohort with this one,
// and, when it has forgotten something, those that vote in the register, which it is not
// to leave without a majority either.
func (s *peerHealth) asks(company []register.Member) []register.Member {
	if s.m.lost == 0 {
		return company
	}
	all := slices.Concat(company, s.m.c.view.Voters, s.m.c.view.Outgoing)
	slices.SortFunc(all, register.Member.Compare)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(o register.Member) bool { return o == s.m.c.cfg.Self })
}
