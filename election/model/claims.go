package model

// leader makes the steps of the leader of slot k.
func (m *machine) leader(s *state, k int) {
	if !s.leads(k) {
		return
	}
	who := int(s.slot[k].who)
	v := &s.node[who]
	if v.flags&(present|done) == present && m.claimCohort(s, k) != 0 {
		m.grants(s, k, who)
	}
	for c := range claims {
		if s.granted>>(4*c)&15 == 0 {
			continue
		}
		if v.flags&(present|done) == present {
			m.handOut(s, k, c)
		}
		if m.cfg.Release && v.flags&done == 0 {
			m.releases(s, k, who, c)
		}
	}
	if m.cfg.Follow {
		m.followers(s, k, who)
	}
}

// grants makes new claims and renewals of claims in doubt: the task must be
// free by the leader's own table, and the leader's own acceptor comes first.
func (m *machine) grants(s *state, k, who int) {
	v := &s.node[who]
	for g := range m.cfg.Grants {
		c := g*slots + k
		if s.granted>>(4*c)&15 != 0 {
			continue
		}
		if s.blocking(v.k, c) == 0 && !m.stale(s, v.k, c) {
			t := m.fork(s)
			m.stores(t, who, c, k)
			t.granted |= 1 << (4*c + who)
			m.done(step{kGrant, uint8(who), uint8(k), uint8(c)})
		}
		break // sequences are used in order
	}
	if !m.cfg.Retry {
		return
	}
	for c := range claims {
		// A claim of the own epoch needs no renewal: its grant goes on.
		if slotOf(c) == k || s.granted>>(4*c)&15 == 0 || s.renewed[k]>>(4*c)&15 != 0 ||
			(s.handed|s.over)>>c&1 != 0 || v.k.open()>>(4*c)&1 == 0 ||
			m.busy(s, v.k, c) || m.stale(s, v.k, c) {
			continue
		}
		t := m.fork(s)
		m.stores(t, who, c, k)
		t.renewed[k] |= 1 << (4*c + who)
		m.done(step{kRenew, uint8(who), uint8(k), uint8(c)})
	}
}

// stale says whether table t shows claim c to be superseded by a higher token.
func (m *rules) stale(s *state, t table, c int) bool {
	if m.has(StaleIfUnreleased) {
		return t.open()&s.higher(c) != 0
	}
	return t.known()&s.higher(c) != 0
}

// stores puts claim c, written by the leader of slot k, into the table of n.
func (m *rules) stores(s *state, n, c, k int) {
	s.node[n].p = max(s.node[n].p, s.slot[k].e)
	v := s.slot[k].e << 1
	if m.has(ReleaseWins) {
		v |= s.node[n].k.at(c) & relea
	}
	s.node[n].k = m.highest(s, s.node[n].k.raise(c, v))
}

// accepts is the acceptor's rule for grants and renewals.
func (m *rules) accepts(s *state, n, c, k int) bool {
	v := &s.node[n]
	return m.claimCohort(s, k)>>n&1 != 0 &&
		(v.p <= s.slot[k].e || m.has(UnfencedGrants)) &&
		v.flags&(present|done) == present &&
		!m.busy(s, v.k, c) && !m.stale(s, v.k, c)
}

// busy says whether another claim speaks against claim c.
func (m *rules) busy(s *state, t table, c int) bool {
	if m.has(KnownIsFree) && t.open()>>(4*c)&1 != 0 {
		return false
	}
	return s.blocking(t, c) != 0
}

// acceptors delivers grants, renewals and releases.
func (m *machine) acceptors(s *state) {
	for c := range claims {
		// A record of a claim that is over can only lead to refusals.
		if s.granted>>(4*c)&15 == 0 || s.over>>c&1 != 0 || m.lean && s.handed>>c&1 != 0 {
			continue
		}
		for n := range m.cfg.Nodes {
			if k := slotOf(c); s.granted>>(4*c+n)&1 == 0 && m.accepts(s, n, c, k) {
				t := m.fork(s)
				m.stores(t, n, c, k)
				t.granted |= 1 << (4*c + n)
				m.done(step{kAccept, uint8(n), uint8(k), uint8(c)})
			}
			for k := range slots {
				m.deliver(s, n, c, k)
			}
		}
	}
}

// deliver brings what the leader of slot k said about an earlier claim c.
func (m *machine) deliver(s *state, n, c, k int) {
	acks := s.renewed[k] >> (4 * c) & 15
	if acks != 0 && acks>>n&1 == 0 && m.accepts(s, n, c, k) {
		t := m.fork(s)
		m.stores(t, n, c, k)
		t.renewed[k] |= 1 << (4*c + n)
		m.done(step{kExtend, uint8(n), uint8(k), uint8(c)})
	}
	v, e := &s.node[n], s.slot[k].e
	if s.released[k]>>c&1 == 0 || m.cohort(s, k)>>n&1 == 0 ||
		v.p > e && !m.has(UnfencedReleases) || v.flags&(present|done) != present {
		return
	}
	if now := m.free(v.k, c, e); now != v.k {
		t := m.fork(s)
		t.node[n].p = max(v.p, e)
		t.node[n].k = m.highest(s, now)
		m.done(step{kFree, uint8(n), uint8(k), uint8(c)})
	}
}

// free is the table after a release of claim c by the leader of epoch e.
func (m *rules) free(t table, c int, e uint8) table {
	if m.has(ReleaseWins | UnfencedReleases) {
		return t.with(c, max(t.at(c), e<<1)|relea)
	}
	return t.raise(c, e<<1|relea)
}

// handOut gives a worker a claim whose grant or renewal has committed.
func (m *machine) handOut(s *state, k, c int) {
	acks := s.granted
	if slotOf(c) != k {
		acks = s.renewed[k]
	}
	own := s.node[s.slot[k].who].k
	if !majority(ackers(acks, c), m.claimCohort(s, k)) || (s.handed|s.over|s.released[k])>>c&1 != 0 ||
		own.open()>>(4*c)&1 == 0 && !m.has(HighestToken) {
		return
	}
	t := m.fork(s)
	m.checkHandOut(t, k, c)
	t.handed |= 1 << c
	m.done(step{kHand, s.slot[k].who, uint8(k), uint8(c)})
}

// releases frees a claim that surely never reached its worker, or that its
// worker gives back; a later leader cannot know the former.
func (m *machine) releases(s *state, k, who, c int) {
	given := s.handed>>c&1 != 0
	if s.released[k]>>c&1 != 0 || s.over>>c&1 != 0 || slotOf(c) != k && !given ||
		s.node[who].k.open()>>(4*c)&1 == 0 {
		return
	}
	t := m.fork(s)
	t.released[k] |= 1 << c
	t.node[who].k = m.free(t.node[who].k, c, s.slot[k].e)
	if given {
		t.end(c) // the worker has stopped
	}
	m.done(step{kRelease, uint8(who), uint8(k), uint8(c)})
}

// followers is claim anti-entropy: the leader's claims are added, within its
// epoch only.
func (m *machine) followers(s *state, k, who int) {
	for n := range m.cfg.Nodes {
		v := &s.node[n]
		if n == who || m.cohort(s, k)>>n&1 == 0 || v.flags&(present|done) != present {
			continue
		}
		own := s.node[who].k
		if m.has(CopyLeadersSet) {
			if v.k != own {
				t := m.fork(s)
				t.node[n].k = own
				m.done(step{kFollow, uint8(n), uint8(k), 0})
			}
			continue
		}
		if u := m.join(s, v.k, own); v.p == s.slot[k].e && u != v.k {
			t := m.fork(s)
			t.node[n].k = u
			m.done(step{kFollow, uint8(n), uint8(k), 0})
		}
	}
}

// endings lets claims end: the worker's deadline has passed, or it has stopped.
func (m *machine) endings(s *state) {
	for c := range claims {
		if s.granted>>(4*c)&15 != 0 && s.over>>c&1 == 0 {
			t := m.fork(s)
			t.end(c)
			m.done(step{kOver, 0, 0, uint8(c)})
		}
	}
}

// end marks claim c as over. Its acks matter no more: all states that differ in
// them only become one.
func (s *state) end(c int) {
	s.over |= 1 << c
	s.granted |= 15 << (4 * c)
	for k := range slots {
		s.renewed[k] &^= 15 << (4 * c)
	}
}
