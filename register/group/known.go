package group

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// shown is what a member's messages say of its disk, as all of it is durable before
// they leave: that it was in a term, had voted in it, and had in it a log that reached
// index. In one term a log that a leader sends, or that a follower has acknowledged,
// does not become shorter.
type shown struct {
	term  uint64
	voted bool
	index uint64
}

// with is what two of them say together.
func (s shown) with(o shown) shown {
	switch {
	case s.term > o.term:
		return s
	case o.term > s.term:
		return o
	}
	return shown{s.term, s.voted || o.voted, max(s.index, o.index)}
}

// beyond tells whether a disk that is as o says has lost something of s.
func (s shown) beyond(o shown) bool { return o.with(s) != o }

// shownBy reads it from a message of raft's. Votes that are not meant yet (PreVote)
// have a term that nobody is in.
func shownBy(msg *pb.Message) shown {
	s := shown{term: msg.GetTerm()}
	switch msg.GetType() {
	case pb.MsgApp:
		s.index = msg.GetIndex() + uint64(len(msg.GetEntries()))
	case pb.MsgHeartbeat:
		s.index = msg.GetCommit()
	case pb.MsgAppResp:
		if !msg.GetReject() {
			s.index = msg.GetIndex()
		}
	case pb.MsgVoteResp:
		s.voted = !msg.GetReject()
	case pb.MsgVote:
		s.voted = true // for itself
	case pb.MsgHeartbeatResp, pb.MsgTimeoutNow:
	default:
		return shown{}
	}
	return s
}

// peer is what is remembered of another member, in memory alone.
type peer struct {
	life       life // its newest start
	generation uint64
	anew       bool // it was found at its address since it was last heard of
	// before is what it has shown in earlier starts, now in this one.
	before, now shown
}

// meet notes the start, and the register, that a member writes from.
func (p *peer) meet(l life, generation uint64) {
	if p.generation != generation {
		*p = peer{generation: generation}
	}
	if p.life != l {
		p.life, p.before, p.now = l, p.before.with(p.now), shown{}
	}
}

// start is how a member gets to know whether its disk was set back. A disk that lost
// what it had acknowledged looks like any other; the others remember what they have
// seen of it. So it asks all of them, and votes for nobody and does not lead before
// they have answered. Who does not answer in time is taken for dead: with those that
// are left the group has to go on.
type start struct {
	disk     shown           // what this start found
	decided  uint64          // what it knew to be decided
	until    int64           // from then on it votes, whoever has not answered
	answered map[uint64]bool // by member
	askAt    int64
	revision uint64 // of the register, when somebody was asked last
}

func (s *start) init(m *Machine) {
	hard := m.disk.hard
	s.disk = shown{hard.GetTerm(), hard.GetVote() != 0, m.disk.last()}
	s.decided = hard.GetCommit()
	s.until, s.askAt = m.now+m.cfg.patience(), m.now
	s.answered = map[uint64]bool{}
}

// unasked are the members that have not answered yet, in the order of the register.
func (s *start) unasked(m *Machine) (out []register.Member) {
	for i := range m.rep.state.Nodes {
		n := &m.rep.state.Nodes[i]
		if id := n.Incarnation.ID(); id != m.id && n.Status != register.Removed && !s.answered[id] {
			out = append(out, n.Member)
		}
	}
	return out
}

// told notes when nobody is left to ask. Who the others are stands in the log: it has
// to be gone through first, and what it does not know to be decided may name more.
func (s *start) told(m *Machine) bool {
	if m.applied == 0 || m.applied < s.decided || joins(m) || len(s.unasked(m)) > 0 {
		return false
	}
	s.until = min(s.until, m.now)
	return true
}

// over tells whether this member may vote and lead.
func (s *start) over(m *Machine) bool { return m.now >= s.until }

// ask asks who has not answered: often while it waits for them, and then as rarely as
// it does not disturb. Who answers late may still know that this disk was set back.
func (s *start) ask(m *Machine) {
	if m.failed != nil || m.now < s.askAt && m.rep.state.Revision == s.revision {
		return
	}
	s.revision = m.rep.state.Revision
	if s.told(m) {
		s.askAt = clock.Never
		return
	}
	for _, to := range s.unasked(m) {
		m.sendHome(to, kindStart, nil)
	}
	s.askAt = m.now + int64(m.cfg.Heartbeat)
	if s.over(m) {
		s.askAt = m.now + m.cfg.patience()
	}
}

// receiveStart answers a member that has just started.
func receiveStart(m *Machine, e *envelope) {
	a := answer{life: e.life, before: m.known[e.from.Incarnation.ID()].before, commit: m.node.BasicStatus().GetCommit()}
	m.sendHome(e.from, kindKnown, a.encode())
}

// hear takes what another member remembers of this one.
func (s *start) hear(m *Machine, e *envelope) {
	a, err := decodeAnswer(e.body)
	if err != nil || a.life != m.life {
		return
	}
	if a.before.beyond(s.disk) {
		forgot(m, e.from, a.before.term, a.before.index, "in term %d the log reached %d (voted: %t), and %s has seen it in term %d at %d (voted: %t)",
			s.disk.term, s.disk.index, s.disk.voted, e.from.Node, a.before.term, a.before.index, a.before.voted)
		return
	}
	// What was decided is in the log of the only one who decides.
	if alone(m) && m.disk.last() < a.commit {
		forgot(m, e.from, 0, a.commit, "the log of the only voter ends at %d, and %s knows of decisions up to %d", m.disk.last(), e.from.Node, a.commit)
		return
	}
	s.answered[e.from.Incarnation.ID()] = true
	if s.told(m) {
		s.askAt = clock.Never
	}
}

// answer is what a member is told about itself.
type answer struct {
	life   life // that has asked
	before shown
	commit uint64 // what the one who answers knows to be decided
}

func (a *answer) encode() []byte {
	var w wire.Writer
	w.Uint(a.life.boot)
	w.Uint(a.life.tag)
	w.Uint(a.before.term)
	w.Bool(a.before.voted)
	w.Uint(a.before.index)
	w.Uint(a.commit)
	return w.B
}

func decodeAnswer(b []byte) (a answer, err error) {
	r := wire.NewReader(b)
	a.life = life{r.Uint(), r.Uint()}
	a.before = shown{r.Uint(), r.Bool(), r.Uint()}
	a.commit = r.Uint()
	return a, r.End()
}
