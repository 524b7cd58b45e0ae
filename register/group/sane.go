package group

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
)

// By how much a message of one member may be ahead of what is known here. Members that
// speak the truth get nowhere near: a group has a term per election, and a member is
// behind by what its disk has missed. A term or an index from the end of what a number can
// be would leave no greater one for the next leader.
const (
	maxTermJump = 1 << 20
	maxBootJump = 1 << 16
	maxLogJump  = 1 << 32
	maxNumber   = 1 << 62
)

// theirs are the messages of raft that come from other members.
var theirs = []pb.MessageType{
	pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp,
	pb.MsgTimeoutNow, pb.MsgReadIndex, pb.MsgReadIndexResp, pb.MsgProp,
}

// sane tells whether a message may be handed to raft, which takes members at their word:
// it ends where they break its rules, and one of them must not end the others.
func sane(m *Machine, msg *pb.Message) bool {
	st := m.node.BasicStatus()
	if !slices.Contains(theirs, msg.GetType()) || len(msg.GetResponses()) > 0 || msg.GetSnapshot() != nil {
		return false
	}
	if msg.GetTerm() > maxNumber || msg.GetIndex() > maxNumber || msg.GetCommit() > maxNumber || msg.GetLogTerm() > maxNumber || msg.GetRejectHint() > maxNumber {
		return false
	}
	if !nearTerm(m, msg.GetTerm()) {
		return false
	}
	switch msg.GetType() {
	case pb.MsgApp:
		return follows(m, msg, st.GetCommit())
	case pb.MsgAppResp:
		return msg.GetTerm() != st.GetTerm() || msg.GetReject() || msg.GetIndex() <= m.disk.last()
	case pb.MsgReadIndexResp:
		return msg.GetFrom() == st.Lead && st.Lead != raft.None && len(msg.GetEntries()) == 1
	case pb.MsgProp, pb.MsgReadIndex: // see foreign
		return true
	case pb.MsgHeartbeat:
		if msg.GetCommit() > m.disk.last()+maxLogJump {
			return false // this disk has not lost so much
		}
	}
	return len(msg.GetEntries()) == 0
}

// nearTerm tells whether a group can have got to a term by now.
func nearTerm(m *Machine, term uint64) bool {
	_, filled := m.generation()
	return term <= maxNumber && (!filled || term <= m.node.BasicStatus().GetTerm()+maxTermJump)
}

// comeDown takes a term back that cannot be. A member without a register has nothing by which
// to judge one, and takes over whatever a member says; nobody would follow it there, and from
// there it follows nobody. What a leader says is enough to leave it: with an empty log it has
// acknowledged nothing to anybody, and its vote counts nowhere.
func comeDown(m *Machine, msg *pb.Message) {
	leads := msg.GetType() == pb.MsgApp || msg.GetType() == pb.MsgHeartbeat
	_, filled := m.generation()
	if filled || m.disk.last() > 0 || m.taken != nil || !leads || msg.GetTerm() == 0 || m.node.BasicStatus().GetTerm() <= msg.GetTerm()+maxTermJump {
		return
	}
	m.disk.hard = &pb.HardState{Term: new(uint64(0)), Vote: new(uint64(0)), Commit: new(uint64(0))} // it is written with the message's term
	rebuild(m)
}

// saneSnapshot tells whether a snapshot can be of this group's log.
func saneSnapshot(m *Machine, c *chunk, msg *pb.Message) bool {
	at := msg.GetSnapshot().GetMetadata()
	_, filled := m.generation()
	return msg.GetTerm() == c.term && at.GetTerm() <= c.term && at.GetIndex() > 0 && at.GetIndex() <= maxNumber &&
		(!filled || at.GetIndex() <= m.disk.last()+maxLogJump)
}

// goesOn tells whether the register of a snapshot can be what this one has become: a
// generation begins in another group, and each entry makes one revision at most.
func goesOn(m *Machine, s *register.State, index uint64) bool {
	have, filled := m.generation()
	if !filled {
		return s.Generation == m.heardGen
	}
	now := &m.rep.state
	return s.Generation == have && s.Revision >= now.Revision && s.Revision-now.Revision <= index-min(index, m.applied)
}

// follows tells whether the entries of a message are some of a log: in order, readable, and
// not other ones than those that are decided here.
func follows(m *Machine, msg *pb.Message, commit uint64) bool {
	index, term := msg.GetIndex(), msg.GetLogTerm()
	if term > msg.GetTerm() || (index == 0) != (term == 0) {
		return false
	}
	for _, e := range msg.GetEntries() {
		index++
		if e.GetIndex() != index || e.GetTerm() < max(term, 1) || e.GetTerm() > msg.GetTerm() || !readable(e) {
			return false
		}
		term = e.GetTerm()
		if have, err := m.disk.Term(index); err == nil && index <= commit && have != term {
			return false
		}
	}
	return true
}

// readable tells whether an entry can be applied. What a command decides, or does not, is
// up to the register.
func readable(e *pb.Entry) bool {
	switch e.GetType() {
	case pb.EntryNormal:
		return len(e.GetData()) <= maxCommand
	case pb.EntryConfChangeV2:
		cc := &pb.ConfChangeV2{}
		if proto.Unmarshal(e.GetData(), cc) != nil {
			return false
		}
		return !slices.ContainsFunc(cc.GetChanges(), func(c *pb.ConfChangeSingle) bool {
			_, known := pb.ConfChangeType_name[int32(c.GetType())]
			return !known || c.GetNodeId() == 0
		})
	}
	return false
}

// rebuild begins raft anew from what is on disk, as a start would: a message had it break
// its own rules, and what it has in memory since its last Ready counts no more. Nothing of
// that was said to anybody.
func rebuild(m *Machine) {
	m.failed = nil
	m.guard(func() error { return begin(m) })
	m.timers.changed(m)
}

// begin makes raft of what is on disk.
func begin(m *Machine) error {
	node, err := raft.NewRawNode(&raft.Config{
		ID: m.id, ElectionTick: ticksOfBeat * m.cfg.Election, HeartbeatTick: ticksOfBeat, Storage: m.disk, Applied: m.applied,
		MaxSizePerMsg: 256 << 10, MaxCommittedSizePerReady: 4 << 20, MaxUncommittedEntriesSize: 16 << 20,
		MaxInflightMsgs: 64, CheckQuorum: true, PreVote: true, StepDownOnRemoval: true, Logger: quiet{},
	})
	if err == nil {
		m.node = node
	}
	return err
}
