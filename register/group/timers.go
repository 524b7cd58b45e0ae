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
}

// draw waits for the leader for a time-out, then for a random part of another.
func (t *timers) draw(m *Machine) {
	t.forgetAt = m.now + m.cfg.patience()
	t.campaignAt = t.forgetAt + m.rand.Int64N(m.cfg.patience())
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
	m.timers.campaignAt -= m.cfg.patience() / 2
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
				m.node.Tick()
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
