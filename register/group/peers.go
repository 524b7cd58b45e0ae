package group

import (
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
)

// maxPeers is how many members are known that are not in the register: the
// leader that fills a newcomer, and some who came and went.
const maxPeers = 64

// generation is that of the register here; a newcomer has none and takes what
// it hears.
func (m *Machine) generation() (uint64, bool) {
	return m.rep.state.Generation, m.applied > 0
}

// receive takes a message of a peer, or says why not.
func (m *Machine) receive(b []byte) {
	e, err := decodeEnvelope(b)
	if err != nil || e.from.Incarnation.ID() == m.id {
		return
	}
	if e.kind == kindRefuse {
		m.wasRefused(&e)
		return
	}
	if why := m.refusal(&e); why != 0 {
		m.send(e.from, e.cluster, e.generation, kindRefuse, e.life.refuse(why))
		return
	}
	if _, filled := m.generation(); !filled {
		m.heardGen = e.generation
	}
	if _, known := m.rep.state.Find(e.from); !known {
		if len(m.peers) >= maxPeers {
			clear(m.peers)
		}
		m.peers[e.from.Incarnation.ID()] = e.from
	}
	m.heard(e.from.Incarnation.ID())
	switch e.kind {
	case kindRaft:
		msg := &pb.Message{}
		if proto.Unmarshal(e.body, msg) == nil {
			m.receiveRaft(&e, msg)
		}
	case kindChunk:
		m.receiveChunk(&e)
	case kindHave:
		m.receiveHave(&e)
	case kindStart:
		receiveStart(m, &e)
	case kindKnown:
		m.start.hear(m, &e)
	}
}

// votes tells whether a node has a vote. One that was removed may have it for a
// while yet, and the change that takes it away may need it.
func (m *Machine) votes(id uint64) bool {
	return slices.Contains(m.conf.Voters, id) || slices.Contains(m.conf.VotersOutgoing, id)
}

func (m *Machine) refusal(e *envelope) Refusal {
	gen, filled := m.generation()
	id := e.from.Incarnation.ID()
	if n, ok := m.rep.state.Find(e.from); ok && n.Status == register.Removed && e.cluster == m.meta.cluster && !m.votes(id) {
		// What the removed node says of a later life than ours is for an operator.
		return RemovedNode
	}
	switch {
	case e.cluster != m.meta.cluster:
		return OtherCluster
	case e.to != m.cfg.Self.Incarnation:
		return OtherNode
	case filled && e.generation != gen:
		return OtherGeneration
	}
	known := m.known[id]
	if known == nil {
		if len(m.known) > register.MaxNodes {
			clear(m.known)
		}
		known = &peer{}
		m.known[id] = known
	}
	switch {
	case e.life.boot > max(known.life.boot, m.life.boot)+maxBootJump:
		return OldLife // nobody was started so often: it is not remembered
	case known.anew && e.life != known.life:
		known.anew = false // it was found at its address since: whoever said more was another one
		if e.life.boot < known.life.boot {
			// Or this is a message of its start before that is late. What the later one has shown
			// says nothing of earlier starts.
			known.now = shown{}
		}
	case e.life.boot < known.life.boot:
		return OldLife
	case e.life.boot == known.life.boot && e.life != known.life:
		return TwinLife
	}
	known.meet(e.life, e.generation)
	return 0
}

// wasRefused notes why a message of ours was not taken. That a copy of our
// directory is in use ends this member, if it was a message of this start and
// not one that was on its way for long.
func (m *Machine) wasRefused(e *envelope) {
	why, l, err := decodeRefusal(e.body)
	if err != nil || e.to != m.cfg.Self.Incarnation {
		return
	}
	if why == OldLife || why == TwinLife {
		if l != m.life || e.cluster != m.meta.cluster {
			return
		}
		if m.twins.say(m, e.from, m.cfg.patience()) {
			m.failed = fmt.Errorf("%w, says %s", ErrTwin, e.from.Node)
		}
	}
	if why == RemovedNode && e.cluster == m.meta.cluster && !m.removed {
		m.removed = m.removers.say(m, e.from, 0)
	}
	m.refused, m.refusedBy = why, e.from
}

// twins are those that say that another process is this member, or that it was removed, and
// since when. One of them may lie, or have been lied to.
type twins map[uint64]spell

type spell struct{ since, last int64 }

// say tells whether enough have said so for long enough: two, or the only other one.
func (t twins) say(m *Machine, by register.Member, long int64) bool {
	id, others, enough := by.Incarnation.ID(), 0, 0
	t.recent(m)
	s, said := t[id]
	if !said {
		s.since = m.now
	}
	for i := range m.rep.state.Nodes {
		n := &m.rep.state.Nodes[i]
		if n.Status == register.Removed || n.Incarnation == m.cfg.Self.Incarnation {
			continue
		}
		others++
		if m.now-s.last >= int64(m.cfg.Heartbeat) && n.Member != by {
			m.sendHome(n.Member, kindStart, nil) // do they say so, too?
		}
	}
	s.last = m.now
	t[id] = s
	for _, s := range t { // Any order: they are counted.
		if s.last-s.since >= long {
			enough++
		}
	}
	return enough >= min(2, max(others, 1))
}

// recent tells whether somebody says so now.
func (t twins) recent(m *Machine) bool {
	maps.DeleteFunc(t, func(_ uint64, s spell) bool { return m.now-s.last > m.cfg.patience() })
	return len(t) > 0
}

// fresh tells whether somebody has come to say so only lately. Who is asked says so within the
// time that one has to; where no second one does for twice as long, the others know of no other
// process: the only one who does may have met it before this disk was set back, and this member
// would wait for a second word for ever ([TestWhoIsTakenForATwinByTheLeaderAloneHasForgotten]).
func (t twins) fresh(m *Machine) bool {
	t.recent(m)
	for _, s := range t { // Any order: one is enough.
		if m.now-s.since < 2*m.cfg.patience() {
			return true
		}
	}
	return false
}

// receiveRaft hands a message to raft if a peer may send such a one.
func (m *Machine) receiveRaft(e *envelope, msg *pb.Message) {
	if msg.GetFrom() != e.from.Incarnation.ID() || msg.GetTo() != m.id || foreign(msg) {
		return
	}
	if !sane(m, msg) {
		return
	}
	comeDown(m, msg)
	st := m.node.BasicStatus()
	switch msg.GetType() {
	case pb.MsgTransferLeader, pb.MsgForgetLeader: // a leader decides this by itself
		return
	case pb.MsgReadIndex:
		if st.RaftState == raft.StateLeader && !m.mayAnswer() {
			m.requests.keep(msg)
			return
		}
	case pb.MsgProp:
		m.requests.offered(msg)
		m.timers.changed(m)
		return
	case pb.MsgHeartbeat:
		// The leader sends no more than what we have acknowledged to it, or another process
		// in our name, of which somebody has begun to speak.
		if m.twins.fresh(m) && msg.GetCommit() > m.disk.last() {
			return
		}
		if msg.GetTerm() >= st.GetTerm() && msg.GetCommit() > m.disk.last() {
			forgot(m, e.from, msg.GetTerm(), msg.GetCommit(), "the log ends at %d, and %s knows it up to %d", m.disk.last(), e.from.Node, msg.GetCommit())
			return
		}
	}
	known := m.known[e.from.Incarnation.ID()]
	known.now = known.now.with(shownBy(msg))
	if outvoted(m, e, msg, st.GetTerm()) || tooEarly(m, msg) {
		return
	}
	m.step(msg)
	m.timers.followed(m, msg)
}

// outvoted ends the only voter of a group that hears of another leader, or of a log
// that goes on where its own ends. Without it there is neither: its disk was set back
// to when it was alone, and it must not be a majority by itself any more.
func outvoted(m *Machine, e *envelope, msg *pb.Message, term uint64) bool {
	if !alone(m) {
		return false
	}
	switch msg.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat:
		if msg.GetTerm() < term {
			return false // of before the others lost their votes
		}
	case pb.MsgVote, pb.MsgPreVote:
		last, err := m.disk.Term(m.disk.last())
		if err != nil || msg.GetLogTerm() < last || msg.GetLogTerm() == last && msg.GetIndex() <= m.disk.last() {
			return false // it does not know yet that it has no vote any more
		}
	default:
		return false
	}
	known := msg.GetTerm()
	if t := msg.GetType(); t == pb.MsgVote || t == pb.MsgPreVote {
		known = msg.GetLogTerm() // nobody may be in the other one yet
	}
	forgot(m, e.from, known, 0, "it was alone in its group when the log ended at %d, and %s knows of others in term %d", m.disk.last(), e.from.Node, msg.GetTerm())
	return true
}

// alone tells whether this member is the only voter, and nothing in its log says that
// others are to be.
func alone(m *Machine) bool {
	if len(m.conf.Voters) != 1 || m.conf.Voters[0] != m.id || len(m.conf.VotersOutgoing) > 0 {
		return false
	}
	return !joins(m)
}

// joins tells whether a change of the members of the group is in the log that is not
// applied.
func joins(m *Machine) bool {
	return slices.ContainsFunc(m.disk.entries[m.applied-m.disk.base:], func(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal })
}

// tooEarly drops what asks for a vote, or to lead, right after a start: the others
// are to be heard first, because they may know that this disk has lost what it had
// acknowledged. Who waits for an election waits as long for each of its tries.
func tooEarly(m *Machine, msg *pb.Message) bool {
	switch msg.GetType() {
	case pb.MsgVote, pb.MsgPreVote, pb.MsgTimeoutNow:
		return !m.start.over(m)
	}
	return false
}

// name finds the member behind a number.
func (m *Machine) name(id uint64) (register.Member, bool) {
	for i := range m.rep.state.Nodes {
		if n := &m.rep.state.Nodes[i]; n.Incarnation.ID() == id {
			return n.Member, true
		}
	}
	p, ok := m.peers[id]
	return p, ok
}

// post sends a message of raft's.
func (m *Machine) post(msg *pb.Message) error {
	to, ok := m.name(msg.GetTo())
	if !ok {
		return nil // removed meanwhile
	}
	if msg.GetType() == pb.MsgSnap {
		return m.transfer(to, msg)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	m.sendHome(to, kindRaft, b)
	return nil
}

// sendHome sends to a member of our own cluster and generation.
func (m *Machine) sendHome(to register.Member, k kind, body []byte) {
	gen, filled := m.generation()
	if !filled {
		gen = m.heardGen
	}
	m.send(to, m.meta.cluster, gen, k, body)
}

func (m *Machine) send(to register.Member, cluster register.UUID, gen uint64, k kind, body []byte) {
	e := envelope{cluster: cluster, generation: gen, from: m.cfg.Self, life: m.life, to: to.Incarnation, kind: k, body: body}
	m.out.Messages = append(m.out.Messages, Message{To: to, Data: e.encode(), Bulk: k == kindChunk})
}
