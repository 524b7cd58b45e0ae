package group

import (
	"errors"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// screen is what a leader knows of the commands in its log that it has not applied. A
// leader decides which command follows which, so what it keeps out of the log is kept
// out for good, and members of older builds need not know why.
type screen struct {
	term    uint64
	leaving map[proposed][]register.Member // whom a command in the log would remove
}

// proposed names a proposal.
type proposed struct{ session, seq uint64 }

// verdict is what a leader makes of a proposal.
type verdict uint8

const (
	accepted verdict = iota + 1 // on its way, or in the log
	early                       // not before an entry of the leader's term is applied
	declined                    // nobody leads, or the leader has enough
	barred                      // never: this build could not read it
)

// look decides about the command of a proposal, and gives what may be in the log in its
// place.
func (s *screen) look(m *Machine, b []byte) (c command, data []byte, v verdict) {
	c, err := decodeCommand(b)
	switch {
	case errors.Is(err, wire.ErrNewer):
		// Members of this build stop at what they cannot read (see apply): nothing of
		// the kind gets into the log while one of them leads.
		return c, nil, barred
	case err != nil:
		return command{}, b, accepted // it will decide nothing, whatever could be read of it
	}
	term := m.node.BasicStatus().GetTerm()
	if s.term != term {
		s.term, s.leaving = term, map[proposed][]register.Member{}
	}
	if len(c.request.Changes) == 0 {
		return c, b, accepted
	}
	if m.appliedTerm != term {
		// Commands of earlier terms are in the log that this leader has not looked at.
		return c, nil, early
	}
	if m.rep.state.Void(&c.request, s.leaves) {
		return c, c.encode(), accepted
	}
	return c, b, accepted
}

// leaves says that a command in the log would remove a member.
func (s *screen) leaves(who register.Member) bool {
	for _, gone := range s.leaving { // Any order: one is enough.
		if slices.Contains(gone, who) {
			return true
		}
	}
	return false
}

// logged notes a command that is in the log now.
func (s *screen) logged(c *command) {
	if gone := c.request.Leaving(); len(gone) > 0 {
		s.leaving[proposed{c.session, c.seq}] = gone
	}
}

// applied forgets a command: the state says what came of it.
func (s *screen) applied(c *command) { delete(s.leaving, proposed{c.session, c.seq}) }

// propose hands raft a proposal: a leader puts it in its log, others send it to the
// leader.
func (s *screen) propose(m *Machine, msg *pb.Message) verdict {
	var c command
	e := msg.GetEntries()[0]
	leads := m.node.BasicStatus().RaftState == raft.StateLeader
	if leads {
		var data []byte
		var v verdict
		if c, data, v = s.look(m, e.GetData()); v != accepted {
			return v
		}
		msg = &pb.Message{Type: msg.Type, To: msg.To, From: msg.From, Term: msg.Term, Entries: []*pb.Entry{{Data: data}}}
	}
	v := declined
	m.guard(func() error {
		if m.node.Step(msg) == nil {
			v = accepted
		}
		return nil
	})
	if leads && v == accepted {
		s.logged(&c)
	}
	return v
}
