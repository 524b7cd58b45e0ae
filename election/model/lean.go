package model

// Reductions. A state dominates another when it is the same but for promises
// that are lower, proposals that are fewer, or records of claims that are
// missing where nobody could hand them out or renew them: all of these do
// nothing but refuse. Every step of the dominated state is then a step of the
// other, to states of which again one dominates, and breaks what it broke. So
//
//   - a step to a state that the one before dominates need not be taken
//     (skip): a vote nobody waits for, a push that is stored already;
//   - a state may be replaced by one that dominates it and can be reached
//     (lean), where claims of earlier epochs are never handed out again: a
//     claim of a deposed leader that no worker was given can only refuse others
//     until it lapses, and to have lapsed is always possible.
//
// Epochs are chosen among all those above the candidate's promise up to one
// above the highest promise, which no skipped step changes: a candidate's own
// promise is there from the start.
//
// Lean searches check K2 for the claims that a worker may hold or still get
// only. None of it holds for omissions under which less refusal is not more
// freedom; these are searched in full.

const (
	// plainOmissions only take refusals or knowledge away.
	plainOmissions = NoNewMajority | NoOldMajority | UnfencedPush | NoTerminalFacts | FactsToLeaderOnly | ProposalsNotNamed |
		LoseProposals | StartFromProposed | KeepFactsToYourself |
		HandOverToLeaderOnly | HandOverToCohortOnly
	// With tableOmissions a record may displace another, so that fewer are not
	// more freedom; lower promises still are.
	tableOmissions = UnpromisedSnapshots | NoUnion | NoPush | UnfencedGrants | LoseClaims | CopyLeadersSet | RingsCohort |
		HighestToken | ReleaseWins | StaleIfUnreleased | UnfencedReleases | KnownIsFree
)

func newRules(cfg *Config, omit Omission) rules {
	return rules{
		cfg: cfg, omit: omit,
		skip: !cfg.Full && omit&^(plainOmissions|tableOmissions) == 0,
		lean: !cfg.Full && !cfg.Retry && omit&^plainOmissions == 0,
	}
}

// lost says that slot k can never be registered any more: the cell has moved.
func (s *state) lost(k int) bool {
	c := &s.slot[k]
	return c.phase != leading && c.old != s.cell
}

// idleVote: the vote only raises the promise and names a proposal.
func (m *rules) idleVote(s *state, k, n int) bool {
	return m.skip && s.node[n].flags&present != 0 && (s.slot[k].phase != voting || s.lost(k))
}

// idleUnion: the candidate's pushes could only add records.
func (m *rules) idleUnion(s *state, k int) bool {
	return m.lean && s.lost(k) && m.allPresent(s, m.cohort(s, k))
}

// idlePush: the push is stored already, or (lean) is stored for nothing.
func (m *rules) idlePush(s *state, k, n int) bool {
	c, v := &s.slot[k], &s.node[n]
	if !m.skip || v.flags&present == 0 || c.phase != leading && !s.lost(k) {
		return false
	}
	if m.lean { // facts reach present nodes by the AP path as well
		return true
	}
	if v.flags&done != 0 {
		return true
	}
	return c.facts == 0 && m.join(s, v.k, c.pushed) == v.k
}

func (m *rules) allPresent(s *state, set uint8) bool {
	for n := range m.cfg.Nodes {
		if set>>n&1 != 0 && s.node[n].flags&present == 0 {
			return false
		}
	}
	return true
}

// settle replaces s by a state that dominates it.
func (m *rules) settle(s *state) {
	for c := range claims {
		if s.granted>>(4*c)&15 == 0 {
			continue
		}
		if s.handed>>c&1 == 0 && !s.leads(slotOf(c)) {
			s.end(c)
		}
		if s.over>>c&1 != 0 {
			s.forget(c)
		} else if s.handed>>c&1 != 0 {
			s.granted |= 15 << (4 * c) // its acks have been counted
		}
	}
	for k := 1; k < slots; k++ {
		c := &s.slot[k]
		if c.phase == unused || c.phase == voting && !s.lost(k) || c.phase == pushing && !s.lost(k) {
			continue
		}
		if !m.allPresent(s, m.cohort(s, k)) {
			continue
		}
		// Nobody waits for votes, acks or pushes.
		c.votes, c.acks, c.facts, c.pushed = 0, 0, 0, 0
		c.snap = [MaxNodes]table{}
		if c.phase != leading {
			c.phase = pushing
		}
	}
	if !m.asked(s) {
		for n := range s.node {
			s.node[n].props = 0
		}
	}
}

// forget removes the records of claim c, which is over, from everywhere: it
// could only supersede tokens that are not granted any more.
func (s *state) forget(c int) {
	for n := range s.node {
		s.node[n].k = s.node[n].k.with(c, 0)
	}
	for k := range s.slot {
		s.slot[k].pushed = s.slot[k].pushed.with(c, 0)
		for n := range s.node {
			s.slot[k].snap[n] = s.slot[k].snap[n].with(c, 0)
		}
	}
}
