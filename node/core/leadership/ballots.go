package leadership

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// maxClaimBytes is how many bytes of claims travel in one message of an election,
// unless a single partition has more: what fits through a busy connection while
// nobody loses patience.
const maxClaimBytes = 1 << 20

// Voter answers the candidates of other nodes, and of this one.
type Voter struct{ *Machine }

// Ballots answers all partitions that a candidate asks for.
// An answer has at most about [maxClaimBytes] of claims, unless one partition alone has more:
// the messages of an election share a connection with the heartbeats that it is judged by.
func (e Voter) Ballots(now clock.Time, from register.Member, m *message.Ballots) {
	answer, size := &message.Votes{}, 0
	for i := range m.Ballots {
		if int(m.Ballots[i].Partition) >= len(e.env.View.Cells) {
			continue
		}
		v := e.Vote(now, from, &m.Ballots[i])
		answer.Votes = append(answer.Votes, v)
		if size += len(v.Claims); size >= maxClaimBytes {
			e.env.Round.Send(from, answer)
			answer, size = &message.Votes{}, 0
		}
	}
	if len(answer.Votes) > 0 {
		e.env.Round.Send(from, answer)
	}
}

// Vote answers one ballot. A vote that is granted is persisted with the round,
// and with it leaves what is known of the claims by then: what is accepted later
// is of this epoch or a later one.
//
// A pre-vote promises nothing and is refused while the leader is well. A vote promises the
// epoch and is refused below an earlier promise. It returns a vote that is not granted, with
// the promise in the way, so that the candidate can stand above it.
func (e Voter) Vote(now clock.Time, from register.Member, b *message.Ballot) message.CastVote {
	a := &e.Acceptors.All[b.Partition]
	if b.Pre {
		v := a.Would(b, e.spare(from, b))
		v.Granted = v.Granted && !e.abstains(b.Partition) && (from == e.env.Self || e.Acceptors.Believes(b.Partition, b.Epoch))
		if e.env.Policy.UnpromisedVotes && v.Granted {
			return message.CastVote{Vote: v, Claims: vnode.AppendHeld(nil, vnode.SnapshotAt(e.env.Partitions.See(b.Partition), now))}
		}
		return message.CastVote{Vote: v}
	}
	if e.abstains(b.Partition) {
		return message.CastVote{Vote: message.Vote{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce, Promise: a.Promise}}
	}
	if from != e.env.Self && !e.Acceptors.Believes(b.Partition, b.Epoch) {
		return message.CastVote{Vote: message.Vote{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce, Promise: a.Promise}}
	}
	v := a.Vote(b)
	if !v.Granted {
		return message.CastVote{Vote: v}
	}
	e.Acceptors.Save(b.Partition)
	e.deferTo(now, from, b)
	if e.env.Policy.UnpromisedVotes {
		return message.CastVote{Vote: v, Claims: vnode.AppendHeld(nil, nil)}
	}
	if self := e.env.Self; e.env.Policy.EagerZombie && slices.Contains(b.From, self) && !slices.Contains(b.To, self) && !e.env.View.Deleting(b.Partition) {
		defer e.env.Others.Forget(b.Partition)
	}
	return message.CastVote{Vote: v, Claims: vnode.AppendHeld(nil, vnode.SnapshotAt(e.env.Partitions.See(b.Partition), now))}
}

// abstains tells whether this node may not vote: it is no member any more, its
// clock is off, so that it would judge leases wrongly, or it may have forgotten
// what it has promised.
func (e Voter) abstains(p ring.Partition) bool {
	return !e.env.Standing.May(p, standing.Vote)
}

// spare tells whether a partition has a leader that is well, as far as is known
// here, so that nobody is to disturb it.
func (e Voter) spare(from register.Member, b *message.Ballot) bool {
	m, ok := placement.Leading(&e.env.View.Cells[b.Partition])
	if !ok || m == from {
		return false
	}
	if m == e.env.Self {
		return e.env.Partitions.See(b.Partition).Leading() != 0
	}
	return e.env.View.Up(m)
}

// Pushes takes in what candidates know of the claims. It is bound to the ballot
// that this node may have voted for: who has promised more refuses.
func (e Voter) Pushes(now clock.Time, from register.Member, m *message.Pushes) {
	answer := &message.PushesTaken{}
	for i := range m.Pushes {
		p := &m.Pushes[i]
		if int(p.Partition) < len(e.env.View.Cells) {
			answer.Votes = append(answer.Votes, e.pushed(now, from, p))
		}
	}
	e.env.Round.Send(from, answer)
}

// pushed takes the claims of one partition from its candidate. It grants only where no other
// candidate has this node's vote in the same epoch, and what it takes is on disk before the
// answer leaves.
func (e Voter) pushed(now clock.Time, from register.Member, m *message.Pushed) message.Vote {
	a := &e.Acceptors.All[m.Partition]
	v := message.Vote{Partition: m.Partition, Epoch: m.Epoch, Nonce: m.Nonce}
	held, err := vnode.DecodeHeld(m.Claims)
	if err != nil {
		e.unread(from, m.Partition, err)
	}
	other := a.Promise == m.Epoch && a.Nonce != 0 && a.Nonce != m.Nonce // somebody else has this epoch's vote
	if err == nil && !other && !e.abstains(m.Partition) && !e.env.View.Deleting(m.Partition) && e.Acceptors.Accept(m.Partition, m.Epoch) {
		e.StepDownBelow(m.Partition, m.Epoch)
		v.Granted = e.env.Round.Check(vnode.Absorb(e.env.Partitions.Use(m.Partition), e.env.Round.Tx, held, now))
	}
	v.Promise = a.Promise
	return v
}

// Votes counts what others answer.
func (e Voter) Votes(now clock.Time, from register.Member, m *message.Votes) {
	for i := range m.Votes {
		if int(m.Votes[i].Partition) < len(e.env.View.Cells) {
			e.counted(now, from, &m.Votes[i])
		}
	}
}

// counted joins the claims of a vote with those here, if it is of those that
// make up what the new leader has to know.
func (e Voter) counted(now clock.Time, from register.Member, v *message.CastVote) {
	var held []vnode.Held
	if v.Granted && (!v.Pre || e.env.Policy.UnpromisedVotes) {
		var err error
		if held, err = vnode.DecodeHeld(v.Claims); err != nil {
			e.unread(from, v.Partition, err)
			return // who does not say what it knows has not voted
		}
	}
	if e.Runs.Vote(now, from, v.Vote) || e.env.Policy.UnpromisedVotes {
		e.env.Round.Check(vnode.Absorb(e.env.Partitions.Use(v.Partition), e.env.Round.Tx, held, now))
	}
	if !v.Granted {
		e.Runs.Hopeless(v.Partition, e.env.Standing.Disk.Stands)
	}
}

// unread notes claims that came with a vote or a push and cannot be read. The vote
// does not count then, and where it is needed nobody comes to lead: an operator has
// to hear why.
func (e Voter) unread(from register.Member, p ring.Partition, err error) {
	e.Unread++
	e.UnreadLast = Unread{Peer: from.Node, Partition: p, Why: err.Error()}
}

// Stand begins the candidacies that others have asked for.
func (e Voter) Stand(now clock.Time, from register.Member, m *message.Elect) {
	for i := range m.Stand {
		s := &m.Stand[i]
		if int(s.Partition) >= len(e.env.View.Cells) || len(s.To) > register.MaxCohort || !slices.Contains(s.To, e.env.Self) {
			continue
		}
		if cell := &e.env.View.Cells[s.Partition]; cell.Epoch == s.Epoch && cell.Nonce == s.Nonce {
			if e.resign || !e.Able(s.Partition) {
				e.refer(now, s)
				continue
			}
			e.Runs.Heard(s.Partition, from, s.Floor)
			e.start(now, s.Partition, s.To, true)
		}
	}
}
