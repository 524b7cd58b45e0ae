package group

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/norn-dev/norn/register"
)

// Status is how a member sees the group, for people and for tests.
type Status struct {
	// Leader is who leads; the zero Member when that is not known here.
	Leader register.Member
	Leads  bool
	Term   uint64
	// Applied is how much of the log this member has applied, Commit how much it
	// knows to be decided.
	Applied, Commit uint64
	// Last is how much of the log this member has itself.
	Last uint64
	// Voters, Learners and, during a change, Outgoing are the configuration.
	Voters, Learners, Outgoing []register.Member
	// Waiting, on the leader, are newcomers that have caught up and whose name
	// or address is that of a member that lives.
	Waiting []register.Member
	// Refused is why RefusedBy did not take a message of ours; 0: nobody did.
	Refused   Refusal
	RefusedBy register.Member
	// Removed: two others, or the only one, say that this member was removed.
	Removed bool
	// Newer is who leads and has sent a register that this build cannot read.
	Newer register.Member
}

// Status is the member's view now.
func (m *Machine) Status() Status {
	st := m.node.BasicStatus()
	s := Status{
		Term: st.GetTerm(), Applied: m.applied, Commit: st.GetCommit(), Last: m.disk.last(),
		Refused: m.refused, RefusedBy: m.refusedBy, Removed: m.removed, Newer: m.newer.by,
	}
	s.Voters, s.Learners, s.Outgoing = configured(m)
	s.Leader, s.Leads = leader(m, &st)
	if m.leading != nil {
		s.Waiting = slices.Clone(m.leading.waiting)
	}
	return s
}

// Applied is the last entry of the log that a member has applied.
func Applied(m *Machine) (index, term uint64) { return m.applied, m.appliedTerm }

// Leader is the part of Status that changes most: it costs next to nothing.
func (m *Machine) Leader() (who register.Member, leads bool) {
	st := m.node.BasicStatus()
	return leader(m, &st)
}

func leader(m *Machine, st *raft.BasicStatus) (who register.Member, leads bool) {
	if st.Lead == m.id {
		who = m.cfg.Self
	} else if st.Lead != raft.None {
		who, _ = m.name(st.Lead)
	}
	return who, st.RaftState == raft.StateLeader
}

// roll are the members of a configuration by their names. Status is asked for after each turn,
// and they change seldom.
type roll struct {
	conf                       *pb.ConfState
	generation, revision       uint64
	voters, learners, outgoing []register.Member
}

// configured gives the members of the configuration; nobody changes the lists.
func configured(m *Machine) (voters, learners, outgoing []register.Member) {
	r, s := &m.roll, &m.rep.state
	if r.conf == m.conf && r.generation == s.Generation && r.revision == s.Revision {
		return r.voters, r.learners, r.outgoing
	}
	c := m.conf
	voters, learners, outgoing = m.named(c.Voters), m.named(c.Learners), m.named(c.VotersOutgoing)
	*r = roll{c, s.Generation, s.Revision, voters, learners, outgoing}
	if len(voters)+len(learners)+len(outgoing) < len(c.Voters)+len(c.Learners)+len(c.VotersOutgoing) {
		r.conf = nil // some name is not known yet
	}
	return voters, learners, outgoing
}

func (m *Machine) named(ids []uint64) []register.Member {
	var out []register.Member
	for _, id := range sorted(ids) {
		n, ok := m.name(id)
		if !ok && id == m.id {
			n, ok = m.cfg.Self, true
		}
		if ok {
			out = append(out, n)
		}
	}
	return out
}

// State is the register as far as it is applied here. It may be behind: for
// what is decided, ask.
func (m *Machine) State() register.State { return m.rep.state }

// Err is what has stopped the machine, nil while it goes on.
func (m *Machine) Err() error { return m.failed }
