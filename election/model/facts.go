package model

// facts makes the steps of the AP path and of zombies.
func (m *machine) facts(s *state) {
	for n := range m.cfg.Nodes {
		v := &s.node[n]
		if v.flags&present == 0 {
			continue // without the vnode facts are refused
		}
		if m.cfg.Complete && (v.flags&done == 0 || s.named[n] == 0 && m.asked(s)) {
			m.completes(s, n)
		}
		if m.cfg.Zombies {
			m.drops(s, n)
		}
	}
}

// completes delivers the completion to n, whatever its epoch, and sees whether
// some coordinator can acknowledge it now. Acks may be lost: a coordinator
// counts any of those that were sent. A later ack of n would name no fewer
// proposals, so that the first is the one to count.
func (m *machine) completes(s *state, n int) {
	t := m.fork(s)
	finish(t, n)
	if m.asked(s) && t.named[n] == 0 {
		t.named[n] = 1 | m.open(s, n)
	}
	if s.flags&acknowledged == 0 && m.quorate(t) {
		t.flags |= acknowledged
		m.noteCommits(t)
		if !m.asked(t) {
			t.named = [MaxNodes]uint8{}
		}
	}
	m.done(step{kFact, uint8(n), 0, 0})
}

// asked says whether anybody still counts acks: a coordinator, or a zombie that
// hands over.
func (m *rules) asked(s *state) bool { return s.flags&acknowledged == 0 || m.cfg.Zombies }

// open are the proposals an ack of n names.
func (m *rules) open(s *state, n int) uint8 {
	if m.has(ProposalsNotNamed) {
		return 0
	}
	return s.node[n].props
}

// quorate says whether there is a set of acks and a registered epoch, the
// newest one or a stale one, with which a coordinator acknowledges: a quorum in
// its cohort, and in that of each proposal named that can still win over it.
//
// Here a coordinator learns of no newer registered epoch from acks, and nodes
// keep naming proposals that a read of the register would have closed: it may
// start from that newer epoch, to which closed proposals are of no concern.
func (m *rules) quorate(s *state) bool {
	for base := range slots {
		if !s.registered(base) && (!m.has(StartFromProposed) || s.slot[base].phase == unused) {
			continue
		}
		for set := uint8(1); set < 1<<m.cfg.Nodes; set++ {
			if m.enough(s, base, set) {
				return true
			}
		}
	}
	return false
}

func (m *rules) enough(s *state, base int, set uint8) bool {
	needs := uint8(0)
	for n := range m.cfg.Nodes {
		if set>>n&1 == 0 {
			continue
		}
		if s.named[n] == 0 {
			return false
		}
		needs |= s.named[n]
	}
	if !majority(set, m.cohort(s, base)) {
		return false
	}
	for k := 1; k < slots; k++ {
		if needs>>k&1 != 0 && s.slot[s.slot[k].old].e >= s.slot[base].e && !majority(set, m.cohort(s, k)) {
			return false
		}
	}
	return true
}

// registered says whether slot k is in the chain that ends with the cell.
func (s *state) registered(k int) bool {
	for i := int(s.cell); ; i = int(s.slot[i].old) {
		if i == k {
			return true
		}
		if i == 0 {
			return false
		}
	}
}

// noteCommits remembers which claims have committed by now.
func (m *rules) noteCommits(s *state) {
	for c := range claims {
		if majority(ackers(s.granted, c), m.claimCohort(s, slotOf(c))) {
			s.earlyGranted |= 1 << c
		}
		for k := range slots {
			if majority(ackers(s.renewed[k], c), m.claimCohort(s, k)) {
				s.earlyRenewed[k] |= 1 << c
			}
		}
	}
}

// drops makes a zombie hand over its facts and delete what it holds: only when
// the epoch it has read itself is at least its promise, and it is no member. It
// may have read the register at any time before.
func (m *machine) drops(s *state, n int) {
	for cell := range slots {
		switch {
		case m.has(DropBeforeCAS) && m.leftOut(s, n) && cell == int(s.cell):
		case !s.registered(cell), m.cohort(s, cell)>>n&1 != 0:
			continue
		case s.slot[cell].e < s.node[n].p && !m.has(DropBelowPromise):
			continue
		}
		if s.node[n].flags&done != 0 && !m.handedOver(s, n, cell) {
			continue
		}
		t := m.fork(s)
		t.node[n].k = 0
		t.node[n].flags = 0
		if m.has(ForgetPromise) {
			t.node[n] = node{}
		}
		m.done(step{kDrop, uint8(n), uint8(cell), 0})
		return // which epoch it was leaves no trace
	}
}

// leftOut is the omission: a vote for a cohort without n is taken for the end
// of n's membership.
func (m *rules) leftOut(s *state, n int) bool {
	for k := 1; k < slots; k++ {
		if s.node[n].props>>k&1 != 0 && s.slot[k].e == s.node[n].p && m.cohort(s, k)>>n&1 == 0 {
			return true
		}
	}
	return false
}

// handedOver says whether n may delete the completion. Its hand-over is a
// write like a coordinator's: a quorum of the cohort it has read, and of each
// open proposal that the acks name, in which its own copy counts for nothing.
func (m *rules) handedOver(s *state, n, cell int) bool {
	acked := uint8(0)
	for i := range m.cfg.Nodes {
		if s.named[i] != 0 && i != n {
			acked |= 1 << i
		}
	}
	switch {
	case m.has(KeepFactsToYourself):
		return true
	case m.has(HandOverToLeaderOnly):
		return acked>>s.slot[cell].who&1 != 0
	case m.has(HandOverToCohortOnly):
		return majority(acked, m.cohort(s, cell))
	}
	for set := uint8(1); set < 1<<m.cfg.Nodes; set++ {
		if set&^acked == 0 && m.enough(s, cell, set) {
			return true
		}
	}
	return false
}

// restarts is what an omission makes of a restart. One that loses nothing is
// no step: to lose a role is never to act in it again, which is always possible.
func (m *machine) restarts(s *state) {
	for n := range m.cfg.Nodes {
		if s.node[n].flags&present == 0 {
			continue
		}
		t := m.fork(s)
		v := &t.node[n]
		if m.has(LosePromise) {
			v.p = 1
		}
		if m.has(LoseClaims) {
			v.k = 0
		}
		if m.has(LoseProposals) {
			v.props = 0
		}
		for k := range slots {
			if t.slot[k].phase != unused && int(t.slot[k].who) == n {
				t.slot[k].dead = 1
			}
		}
		t.flags |= restarted
		m.done(step{kRestart, uint8(n), 0, 0})
	}
}
