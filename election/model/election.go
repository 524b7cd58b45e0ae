package model

// starts is step 1: a node reads the cell, chooses an epoch above it and its
// own promise, and votes for itself.
func (m *machine) starts(s *state, k int) {
	old := int(s.cell)
	for _, target := range m.cfg.Moves[s.slot[old].target] {
		for n := range m.cfg.Nodes {
			if m.cfg.Cohorts[target]>>n&1 == 0 {
				continue // a leader is a member
			}
			top := s.slot[old].e
			for i := range m.cfg.Nodes {
				top = max(top, s.node[i].p) // rejects may have told it
			}
			for e := max(s.slot[old].e, s.node[n].p) + 1; e <= top+1; e++ {
				t := m.fork(s)
				t.slot[k] = slot{who: uint8(n), e: e, old: uint8(old), target: uint8(target), phase: voting}
				m.promise(t, k, n)
				m.done(step{kStart, uint8(n), uint8(k), uint8(target)})
			}
		}
	}
}

// promise is what a granted vote does: promise and proposal are on disk before
// the snapshot is taken.
func (m *rules) promise(s *state, k, n int) {
	v, c := &s.node[n], &s.slot[k]
	v.p = c.e
	v.flags |= present
	if m.cfg.Complete || m.has(DropBeforeCAS) { // nobody else asks for proposals
		if m.has(LatestProposalOnly) {
			v.props = 0
		}
		v.props |= 1 << k
	}
	if c.phase != voting {
		return
	}
	c.votes |= 1 << n
	if !m.has(UnpromisedSnapshots) {
		m.snapshot(s, k, n)
	}
}

// snapshot notes what node n answers to the candidate of slot k.
func (m *rules) snapshot(s *state, k, n int) {
	c := &s.slot[k]
	if m.cohort(s, int(c.old))>>n&1 == 0 {
		return // exactly those of voters in C are united
	}
	c.snap[n] = s.node[n].k
	c.facts &^= 1 << n
	if s.node[n].flags&done != 0 {
		c.facts |= 1 << n
	}
}

// election makes the steps of one candidacy.
func (m *machine) election(s *state, k int) {
	c := &s.slot[k]
	for n := range m.cfg.Nodes {
		if m.voters(s, k)>>n&1 != 0 && m.mayVote(s, k, n) && !m.idleVote(s, k, n) {
			t := m.fork(s)
			m.promise(t, k, n)
			m.done(step{kVote, uint8(n), uint8(k), 0})
		}
		if m.has(UnpromisedSnapshots) && c.phase == voting && (m.cohort(s, int(c.old))>>n)&1 != 0 {
			t := m.fork(s)
			m.snapshot(t, k, n)
			t.slot[k].fetched |= 1 << n
			m.done(step{kFetch, uint8(n), uint8(k), 0})
		}
	}
	switch c.phase {
	case voting:
		if s.candidate(k) && !m.idleUnion(s, k) {
			m.unions(s, k)
		}
	default:
		m.pushes(s, k)
		m.registers(s, k)
	}
}

func (m *rules) mayVote(s *state, k, n int) bool {
	c, p := &s.slot[k], s.node[n].p
	if m.has(VoteTwice) && p == c.e && c.phase == voting && c.votes>>n&1 == 0 {
		return true
	}
	return p < c.e
}

// unions is steps 4 to 6: with majorities of both cohorts the candidate unites
// the snapshots of the voters in C. Any of the voters may not have been heard.
func (m *machine) unions(s *state, k int) {
	c := &s.slot[k]
	from, to := m.cohort(s, int(c.old)), m.cohort(s, k)
	var seen [16]struct {
		t table
		d uint8
	}
	variants := 0
	for v := uint8(1); v < 1<<m.cfg.Nodes; v++ {
		if v&^c.votes != 0 || v>>c.who&1 == 0 ||
			!majority(v, from) && !m.has(NoOldMajority) || !majority(v, to) && !m.has(NoNewMajority) {
			continue
		}
		set := v & from
		if m.has(UnpromisedSnapshots) {
			if !majority(c.fetched, from) {
				continue
			}
			set = c.fetched
		}
		t := m.fork(s)
		u, d := m.unite(t, k, set)
		known := false
		for i := range variants {
			known = known || seen[i].t == u && seen[i].d == d
		}
		if known {
			continue // the same union: the same successor
		}
		seen[variants].t, seen[variants].d = u, d
		variants++
		m.done(step{kUnion, c.who, uint8(k), v})
	}
}

// unite fixes the union of the snapshots of set, and stores it at the
// candidate.
func (m *rules) unite(s *state, k int, set uint8) (table, uint8) {
	c := &s.slot[k]
	who := int(c.who)
	u, d := table(0), uint8(0)
	if m.has(NoUnion) {
		set = 0
		u, d = s.node[who].k, s.node[who].flags&done
	}
	for n := range m.cfg.Nodes {
		if set>>n&1 != 0 {
			u = m.join(s, u, c.snap[n])
			d |= c.facts >> n & 1
		}
	}
	c.snap, c.votes, c.fetched, c.facts = [MaxNodes]table{}, 0, 0, 0
	c.phase, c.pushed, c.acks = pushing, u, 1<<who
	// Terminal facts may stay away where the cohort does not change.
	if d != 0 && m.cohort(s, k) != m.cohort(s, int(c.old)) && !m.has(NoTerminalFacts) {
		c.facts = unionDone
	}
	m.store(s, who, u)
	if c.facts != 0 {
		finish(s, who)
	}
	return u, c.facts
}

// finish stores the completion at n; claims go with it.
func finish(s *state, n int) {
	s.node[n].flags |= done
	s.node[n].k = 0
}

// pushes is step 7's first half, the hand-off; late pushes are taken too.
func (m *machine) pushes(s *state, k int) {
	c := &s.slot[k]
	if m.has(NoPush) {
		return
	}
	for n := range m.cfg.Nodes {
		v := &s.node[n]
		if m.cohort(s, k)>>n&1 == 0 || c.acks>>n&1 != 0 || v.p > c.e && !m.has(UnfencedPush) || m.idlePush(s, k, n) {
			continue
		}
		t := m.fork(s)
		t.node[n].p = max(v.p, c.e)
		t.node[n].flags |= present
		m.store(t, n, c.pushed)
		if c.facts != 0 && !m.has(FactsToLeaderOnly) {
			finish(t, n)
		}
		t.slot[k].acks |= 1 << n
		m.done(step{kPush, uint8(n), uint8(k), 0})
	}
}

// registers is step 7's second half and step 8: the compare-and-set may reach
// the register late, also after the candidate has given up.
func (m *machine) registers(s *state, k int) {
	c := &s.slot[k]
	if !majority(c.acks, m.cohort(s, k)) && !m.has(NoPush) || int(s.cell) == k {
		return
	}
	cell := &s.slot[s.cell]
	switch {
	case s.cell == c.old, m.has(WriteIfGreater) && c.e > cell.e:
		t := m.fork(s)
		t.slot[k].phase = leading
		m.checkRegistered(t, k)
		t.cell = uint8(k)
		m.done(step{kCAS, c.who, uint8(k), 0})
	case m.has(CompareEpochAndCohort) && c.phase == pushing && cell.e == c.e && cell.target == c.target:
		m.assume(s, k)
	}
	if m.has(GrantBeforeCAS) && c.phase == pushing {
		m.assume(s, k)
	}
}

// assume makes the candidate of slot k lead without being registered.
func (m *machine) assume(s *state, k int) {
	t := m.fork(s)
	t.slot[k].phase = leading
	m.checkLeaders(t)
	m.done(step{kAssume, s.slot[k].who, uint8(k), 0})
}
