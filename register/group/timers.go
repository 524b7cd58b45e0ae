package group

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/norn-dev/norn/clock"
)

// timers are the time-outs of raft. Raft draws its own from the system's
// randomness, so it gets ticks only while it leads, where it uses none; as a
// follower it is told to forget its leader and to campaign.
type timers struct {
	tickAt     int64 // leading: the next tick
	forgetAt   int64 // following: from then on another may be elected
	campaignAt int64 // following: then we want to be
	role       raft.StateType
	lead       uint64
	vote       uint64
	term       uint64
	barren     int   // terms in a row without a leader that lasted, fewer after a while with one
	ledAt      int64 // since when this leader is known
	lasted     bool  // the one before did
	calmAt     int64 // when there is one less of them
	late       int64 // how late this process was lately, ns
}

// Of terms in a row without a leader that lasted the first may be chance: two stood at
// once, or one died. From the second on members are more patient, up to eight times as
// much: where most disks take so long for a vote that the next one stands before, nobody
// would ever lead, nor stay leader while the others write. Who leads then is as patient
// with them, and speaks more rarely. With a leader it is less again, a half at a time.
const (
	chanceTerms = 1
	mostDoubled = 3
	lastsFor    = 3  // time-outs
	calmFor     = 10 // time-outs

	// ticksOfBeat is how often raft ticks between two heartbeats: each time that
	// patience doubles the leader gives it half of them.
	ticksOfBeat = 1 << mostDoubled
)

// doubled is how often patience is doubled.
func (t *timers) doubled() int { return max(t.barren-chanceTerms, 0) }

// A learner hears one heartbeat in so many. A process that runs late by so many parts of the
// patience waits for so much longer, up to so many times.
const (
	learnerBeats = 8
	latePart     = 10
	lateMost     = 3
)

// learnerBeat is the time between two heartbeats that a learner hears, ns.
func learnerBeat(m *Machine) int64 { return learnerBeats * int64(m.cfg.Heartbeat) }

// patience is how long this member waits for a leader, or for votes, in ns. Where this process
// runs late others do, too: they share its machine, or its load.
func (t *timers) patience(m *Machine) int64 {
	d := m.cfg.patience() << t.doubled()
	if late := min(latePart*t.late, lateMost*m.cfg.patience()); late > m.cfg.patience()/2 {
		d += late
	}
	if !m.votes(m.id) {
		d += learnerBeat(m)
	}
	return d
}

// behind notes how late this process is: what it was to do was due some time ago. What others
// have said in that time waits to be heard, so that it does not count.
func (t *timers) behind(m *Machine, now clock.Time) {
	due := t.campaignAt
	switch {
	case t.role == raft.StateLeader:
		due = t.tickAt
	case t.lead != raft.None:
		due = t.forgetAt
	}
	late := int64(0)
	if due > m.now && due < now.Mono {
		late = now.Mono - due
	}
	t.late = max(late, t.late-t.late/16)
	if late > int64(m.cfg.Heartbeat) && t.role != raft.StateLeader {
		late = min(late, m.cfg.patience())
		t.forgetAt, t.campaignAt = t.forgetAt+late, t.campaignAt+late
	}
}

// counts sees what a term has come to.
func (t *timers) counts(m *Machine, lead, term uint64) {
	timeout := m.cfg.patience()
	if t.lead != raft.None && (lead != t.lead || term > t.term) {
		t.lasted = m.now-t.ledAt >= lastsFor*timeout
	}
	switch {
	case term <= t.term:
	case t.lasted && t.doubled() == 0:
		t.barren, t.lasted = 0, false
	default:
		t.barren, t.lasted = min(t.barren+1, chanceTerms+mostDoubled), false
	}
	switch {
	case lead == raft.None:
	case lead != t.lead || term > t.term:
		t.ledAt, t.calmAt = m.now, m.now+calmFor*timeout
	case t.barren > 0 && m.now >= t.calmAt:
		t.barren--
		t.calmAt = m.now + calmFor*timeout
	}
}

// draw waits for the leader for a time-out, then for a random part of another.
func (t *timers) draw(m *Machine) {
	d := t.patience(m)
	t.forgetAt = m.now + d
	t.campaignAt = t.forgetAt + m.rand.Int64N(d)
}

// deaf has the time not count that the last Ready took: what was sent to this member
// while its disk was busy waits to be heard.
func (t *timers) deaf(m *Machine, now clock.Time) {
	d := max(now.Mono-m.now, 0)
	m.now += d
	t.forgetAt, t.campaignAt = t.forgetAt+d, t.campaignAt+d
	m.requests.deaf(d)
}

// lost has another leader elected soon, if a member leads that has gone. The
// short random part keeps two from standing at once.
func (t *timers) lost(m *Machine, peer uint64) {
	if t.role == raft.StateLeader || t.lead != peer || peer == raft.None {
		return
	}
	t.forgetAt = m.now
	t.campaignAt = min(t.campaignAt, m.now+m.rand.Int64N(m.cfg.patience()/8))
}

// found has a member that has no leader be as patient as if its terms had never come to
// nothing: that was for want of those who were out of reach, and not of their disks. If
// it was the disks, some more such terms tell so again.
func (t *timers) found(m *Machine, peer uint64) {
	if t.role == raft.StateLeader || t.lead != raft.None || t.doubled() == 0 || !m.votes(peer) {
		return
	}
	t.barren = chanceTerms
	d := t.patience(m)
	t.forgetAt, t.campaignAt = min(t.forgetAt, m.now+d), min(t.campaignAt, m.now+d+m.rand.Int64N(d))
}

func (t *timers) init(m *Machine) {
	t.draw(m)
	st := m.node.BasicStatus()
	t.role, t.lead, t.vote, t.term = st.RaftState, st.Lead, st.GetVote(), st.GetTerm()
	if len(m.conf.Voters) == 1 && m.conf.Voters[0] == m.id && len(m.conf.VotersOutgoing) == 0 && !m.cfg.NoCampaign {
		t.campaignAt = m.now // there is nobody to wait for
	}
}

// followed notes that a leader was heard.
func (t *timers) followed(m *Machine, msg *pb.Message) {
	switch msg.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		if st := m.node.BasicStatus(); m.failed == nil && st.Lead == msg.GetFrom() && st.GetTerm() == msg.GetTerm() {
			t.draw(m)
		}
	}
	t.changed(m)
}

// changed looks whether raft's role has changed.
func (t *timers) changed(m *Machine) {
	if m.failed != nil {
		return
	}
	st := m.node.BasicStatus()
	t.counts(m, st.Lead, st.GetTerm())
	if st.RaftState != t.role || st.GetVote() != t.vote || st.GetTerm() != t.term {
		// A vote for another gives it time to begin; a lost one as well.
		t.draw(m)
	}
	if st.RaftState == raft.StateLeader && t.role != raft.StateLeader {
		t.tickAt = m.now + int64(m.cfg.Heartbeat)
	}
	found := st.Lead != t.lead && st.Lead != raft.None
	t.role, t.lead, t.vote, t.term = st.RaftState, st.Lead, st.GetVote(), st.GetTerm()
	if found {
		m.requests.urge()
	}
}

func (m *Machine) campaign() {
	if !m.votes(m.id) || !m.start.over(m) {
		return
	}
	m.guard(func() error { return m.node.Campaign() })
	m.timers.changed(m)
	m.timers.draw(m)
	// Whoever stood is ready to stand again after the random part alone.
	m.timers.campaignAt -= m.timers.patience(m) / 2
}

// tick does what raft's ticks would.
func (m *Machine) tick() {
	if m.failed != nil {
		return
	}
	t := &m.timers
	if t.role == raft.StateLeader {
		if m.now >= t.tickAt {
			t.tickAt = m.now + int64(m.cfg.Heartbeat)
			m.guard(func() error {
				for range ticksOfBeat >> t.doubled() {
					m.node.Tick()
				}
				return nil
			})
			t.changed(m)
		}
		return
	}
	if m.now >= t.forgetAt && t.lead != raft.None {
		m.guard(m.node.ForgetLeader)
		t.changed(m)
	}
	if m.now >= max(t.campaignAt, m.start.until) && !m.cfg.NoCampaign && m.votes(m.id) {
		m.campaign()
	}
}

// Wake is the monotonic time at which the machine wants a [Tick]; it is
// [clock.Never] when there is nothing to wait for.
func (m *Machine) Wake() int64 {
	if m.failed != nil {
		return clock.Never
	}
	t, at := &m.timers, m.start.askAt
	if t.role == raft.StateLeader {
		at = t.tickAt
	} else {
		if t.lead != raft.None {
			at = t.forgetAt
		}
		if !m.cfg.NoCampaign && m.votes(m.id) {
			at = min(at, max(t.campaignAt, m.start.until))
		}
	}
	q := &m.requests
	for _, p := range q.open { // Any order: the least is looked for.
		at = min(at, p.retryAt, p.endAt)
	}
	for _, p := range q.queue {
		at = min(at, p.endAt)
	}
	if q.fresh != nil {
		for _, end := range q.fresh.ends {
			at = min(at, end)
		}
	}
	for _, r := range q.asked {
		if !r.known {
			at = min(at, r.retryAt)
		}
		for _, end := range r.ends {
			at = min(at, end)
		}
	}
	for _, s := range m.sending { // Any order: the least is looked for.
		at = min(at, s.retryAt)
	}
	return at
}
