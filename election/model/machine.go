package model

// rules are the protocol's decisions, with what is left out of them.
type rules struct {
	cfg  *Config
	omit Omission
	// Reductions that are on: see lean.go.
	skip, lean bool
}

// machine makes the successors of states.
type machine struct {
	rules
	next state
	// visit takes each successor, the step that led there and what the step
	// broke. The state is overwritten by the next one.
	visit func(next *state, by step, broke Invariant)
	broke Invariant
}

// step names what happened, for traces.
type step struct {
	kind    kind
	a, b, c uint8
}

type kind uint8

const (
	kStart   kind = iota // a: node, b: slot, c: cohort
	kVote                // a: node, b: slot
	kFetch               // a: node, b: slot
	kUnion               // b: slot, c: voters
	kPush                // a: node, b: slot
	kCAS                 // b: slot
	kAssume              // b: slot
	kGrant               // b: slot, c: claim
	kAccept              // a: node, c: claim
	kRenew               // b: slot, c: claim
	kExtend              // a: node, b: slot, c: claim
	kHand                // b: slot, c: claim
	kRelease             // b: slot, c: claim
	kFree                // a: node, b: slot, c: claim
	kOver                // c: claim
	kFact                // a: node
	kDrop                // a: node, b: slot of the epoch read
	kFollow              // a: node, b: slot
	kRestart             // a: node
)

func (m *rules) has(o Omission) bool { return m.omit&o != 0 }

// fork begins a successor of s.
func (m *machine) fork(s *state) *state {
	m.next, m.broke = *s, 0
	return &m.next
}

func (m *machine) done(by step) {
	if m.lean {
		m.settle(&m.next)
	}
	m.visit(&m.next, by, m.broke)
}

// initial has the states in which an initial leader has just been registered.
// n is its node.
func (m *rules) initial(n int) state {
	var s state
	s.slot[0] = slot{who: uint8(n), e: 1, phase: leading}
	for i := range m.cfg.Nodes {
		if m.cohort(&s, 0)>>i&1 != 0 {
			s.node[i] = node{p: 1, flags: present}
		}
	}
	return s
}

// cohort is the cohort of a slot.
func (m *rules) cohort(s *state, k int) uint8 { return m.cfg.Cohorts[s.slot[k].target] }

// voters are the nodes that a vote for slot k goes to.
func (m *rules) voters(s *state, k int) uint8 {
	return m.cohort(s, k) | m.cohort(s, int(s.slot[k].old))
}

// claimCohort is where the leader of slot k has its claims stored.
func (m *rules) claimCohort(s *state, k int) uint8 {
	if m.has(RingsCohort) { // the ring has moved on: to another cohort
		return m.cfg.Cohorts[(int(s.slot[k].target)+1)%len(m.cfg.Cohorts)]
	}
	return m.cohort(s, k)
}

// candidate says whether slot k's node still goes on with its candidacy: a
// promise to another ends it.
func (s *state) candidate(k int) bool {
	c := &s.slot[k]
	return c.dead == 0 && s.node[c.who].p == c.e
}

// leads says whether slot k's node acts as leader.
func (s *state) leads(k int) bool { return s.slot[k].phase == leading && s.candidate(k) }

// blocking are the claims other than claim that table t of a node shows as
// neither released nor over: the node lapses only what has really ended.
func (s *state) blocking(t table, claim int) table {
	return t.open() &^ spread(s.over) &^ (1 << (4 * claim))
}

// store joins claims into the table of node n, which has none when it holds
// the completion.
func (m *rules) store(s *state, n int, t table) {
	if s.node[n].flags&done == 0 {
		s.node[n].k = m.join(s, s.node[n].k, t)
	}
}

// join is the union of two tables.
func (m *rules) join(s *state, a, b table) table {
	if a == b || b == 0 {
		return m.highest(s, a)
	}
	for c := range claims {
		v, w := b.at(c), a.at(c)
		switch {
		case m.has(ReleaseWins) && v != 0 && w != 0:
			a = a.with(c, max(v, w)|(v|w)&relea)
		case v > w:
			a = a.with(c, v)
		}
	}
	return m.highest(s, a)
}

// highest is the omission that keeps one claim of a task only.
func (m *rules) highest(s *state, t table) table {
	if !m.has(HighestToken) || t == 0 {
		return t
	}
	best := -1
	for c := range claims {
		if t.at(c) != 0 && (best < 0 || s.token(c) > s.token(best)) {
			best = c
		}
	}
	return table(0).with(best, t.at(best))
}

// expand makes all successors of s.
func (m *machine) expand(s *state) {
	for k := 1; k < slots; k++ {
		switch s.slot[k].phase {
		case unused:
			if k <= m.cfg.Candidacies {
				m.starts(s, k)
			}
			k = slots // slots are used in order
		default:
			m.election(s, k)
		}
	}
	for k := range slots {
		if s.slot[k].phase == leading {
			m.leader(s, k)
		}
	}
	m.acceptors(s)
	if m.cfg.Over {
		m.endings(s)
	}
	m.facts(s)
	if m.has(LosePromise|LoseClaims|LoseProposals) && s.flags&restarted == 0 {
		m.restarts(s)
	}
}
