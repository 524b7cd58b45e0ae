package model

// Invariant names what a counterexample breaks, a set of bits.
type Invariant uint8

// The invariants of design 7.
const (
	// K1: at most one leader per epoch, epochs in the cell strictly increase.
	K1 Invariant = 1 << iota
	// K2: the new leader, and a majority of its cohort, hold every claim that
	// was committed in an earlier epoch and has not ended.
	K2
	// K6: at most one valid claim of the task; tokens of grants increase.
	K6
	// K7: an acknowledged completion is never granted again.
	K7
)

// String is the invariant's name.
func (i Invariant) String() string {
	names, out := [...]string{"K1", "K2", "K6", "K7"}, ""
	for b, n := range names {
		if i>>b&1 != 0 {
			if out != "" {
				out += "+"
			}
			out += n
		}
	}
	return out
}

// checkRegistered is called before the cell moves to slot k.
func (m *machine) checkRegistered(s *state, k int) {
	if s.slot[k].e <= s.slot[s.cell].e {
		m.broke |= K1
	}
	m.checkLeaders(s)
	m.checkComplete(s, k)
}

// checkLeaders finds two leaders of one epoch.
func (m *machine) checkLeaders(s *state) {
	for k := range slots {
		for j := range k {
			if s.slot[k].phase == leading && s.slot[j].phase == leading && s.slot[k].e == s.slot[j].e {
				m.broke |= K1
			}
		}
	}
}

// checkComplete is leader completeness (E4) for the leader of slot k. A
// completion anywhere has ended all claims of the task.
func (m *machine) checkComplete(s *state, k int) {
	holders := [MaxNodes]table{}
	for n := range m.cfg.Nodes {
		if s.node[n].flags&done != 0 {
			return
		}
		holders[n] = s.node[n].k.known()
	}
	for c := range claims {
		if s.over>>c&1 != 0 || s.slot[slotOf(c)].e >= s.slot[k].e || !m.committed(s, c, s.slot[k].e) || m.given(s, c) || m.lean && s.handed>>c&1 == 0 && !s.leads(slotOf(c)) {
			continue
		}
		held := uint8(0)
		for n := range m.cfg.Nodes {
			held |= uint8(holders[n]>>(4*c)&1) << n
		}
		if s.slot[k].pushed.known()>>(4*c)&1 == 0 || !majority(held, m.cohort(s, k)) {
			m.broke |= K2
		}
	}
}

// given says whether a leader has taken claim c back: it is handed out by that
// leader no more.
func (m *rules) given(s *state, c int) bool {
	for k := range slots {
		if s.released[k]>>c&1 != 0 {
			return true
		}
	}
	return false
}

// committed says whether a majority of its leader's registered cohort has
// stored claim c, or a renewal of it, in an epoch below e.
func (m *rules) committed(s *state, c int, e uint8) bool {
	if majority(ackers(s.granted, c), m.cohort(s, slotOf(c))) {
		return true
	}
	for k := range slots {
		if s.slot[k].e < e && majority(ackers(s.renewed[k], c), m.cohort(s, k)) {
			return true
		}
	}
	return false
}

// checkHandOut is called before the leader of slot k hands out claim c.
func (m *machine) checkHandOut(s *state, k, c int) {
	if s.handed&^s.over&^(1<<c) != 0 {
		m.broke |= K6 // two workers at once
	}
	if uint32(s.higher(c))&uint32(spread(s.handed)) != 0 {
		m.broke |= K6 // a store has seen a higher token
	}
	early := s.earlyGranted
	if slotOf(c) != k {
		early = s.earlyRenewed[k]
	}
	if s.flags&acknowledged != 0 && early>>c&1 == 0 {
		m.broke |= K7
	}
}
