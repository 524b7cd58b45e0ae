package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
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

// voter answers the candidates of other nodes, and of this one.
type voter struct{ *Core }

// ballots answers all partitions that a candidate asks for.
func (c voter) ballots(now clock.Time, from register.Member, m *message.Ballots) {
	answer, size := &message.Votes{}, 0
	for i := range m.Ballots {
		if int(m.Ballots[i].Partition) >= len(c.view.Cells) {
			continue
		}
		v := c.vote(now, from, &m.Ballots[i])
		answer.Votes = append(answer.Votes, v)
		if size += len(v.Claims); size >= maxClaimBytes {
			c.round.Send(from, answer)
			answer, size = &message.Votes{}, 0
		}
	}
	if len(answer.Votes) > 0 {
		c.round.Send(from, answer)
	}
}

// vote answers one ballot. A vote that is granted is persisted with the round,
// and with it leaves what is known of the claims by then: what is accepted later
// is of this epoch or a later one.
func (c voter) vote(now clock.Time, from register.Member, b *message.Ballot) message.CastVote {
	a := &c.acceptors.all[b.Partition]
	if b.Pre {
		v := a.Would(b, c.spare(from, b))
		v.Granted = v.Granted && !c.abstains(b.Partition) && (from == c.cfg.Self || c.acceptors.believes(b.Partition, b.Epoch))
		if mutant.UnpromisedVotes.On() && v.Granted {
			return message.CastVote{Vote: v, Claims: vnode.AppendHeld(nil, vnode.SnapshotAt(c.vnodes.See(b.Partition), now))}
		}
		return message.CastVote{Vote: v}
	}
	if c.abstains(b.Partition) {
		return message.CastVote{Vote: message.Vote{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce, Promise: a.Promise}}
	}
	if from != c.cfg.Self && !c.acceptors.believes(b.Partition, b.Epoch) {
		return message.CastVote{Vote: message.Vote{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce, Promise: a.Promise}}
	}
	v := a.Vote(b)
	if !v.Granted {
		return message.CastVote{Vote: v}
	}
	c.acceptors.save(b.Partition)
	c.elector.deferTo(now, from, b)
	if mutant.UnpromisedVotes.On() {
		return message.CastVote{Vote: v, Claims: vnode.AppendHeld(nil, nil)}
	}
	if self := c.cfg.Self; mutant.EagerZombie.On() && slices.Contains(b.From, self) && !slices.Contains(b.To, self) && !c.view.Deleting(b.Partition) {
		defer c.transfer.forget(b.Partition)
	}
	return message.CastVote{Vote: v, Claims: vnode.AppendHeld(nil, vnode.SnapshotAt(c.vnodes.See(b.Partition), now))}
}

// abstains tells whether this node may not vote: it is no member any more, its
// clock is off, so that it would judge leases wrongly, or it may have forgotten
// what it has promised.
func (c voter) abstains(p ring.Partition) bool {
	return !c.standing.May(p, standing.Vote)
}

// spare tells whether a partition has a leader that is well, as far as is known
// here, so that nobody is to disturb it.
func (c voter) spare(from register.Member, b *message.Ballot) bool {
	m, ok := placement.Leading(&c.view.Cells[b.Partition])
	if !ok || m == from {
		return false
	}
	if m == c.cfg.Self {
		return c.vnodes.See(b.Partition).Leading() != 0
	}
	return c.view.Up(m)
}

// pushes takes in what candidates know of the claims. It is bound to the ballot
// that this node may have voted for: who has promised more refuses.
func (c voter) pushes(now clock.Time, from register.Member, m *message.Pushes) {
	answer := &message.PushesTaken{}
	for i := range m.Pushes {
		p := &m.Pushes[i]
		if int(p.Partition) < len(c.view.Cells) {
			answer.Votes = append(answer.Votes, c.push(now, from, p))
		}
	}
	c.round.Send(from, answer)
}

func (c voter) push(now clock.Time, from register.Member, m *message.Pushed) message.Vote {
	a := &c.acceptors.all[m.Partition]
	v := message.Vote{Partition: m.Partition, Epoch: m.Epoch, Nonce: m.Nonce}
	held, err := vnode.DecodeHeld(m.Claims)
	if err != nil {
		c.unread(from, m.Partition, err)
	}
	other := a.Promise == m.Epoch && a.Nonce != 0 && a.Nonce != m.Nonce // somebody else has this epoch's vote
	if err == nil && !other && !c.abstains(m.Partition) && !c.view.Deleting(m.Partition) && c.acceptors.accept(m.Partition, m.Epoch) {
		c.elector.stepDownBelow(m.Partition, m.Epoch)
		v.Granted = c.round.Check(vnode.Absorb(c.vnodes.Use(m.Partition), c.round.Tx, held, now))
	}
	v.Promise = a.Promise
	return v
}

// votes counts what others answer.
func (c voter) votes(now clock.Time, from register.Member, m *message.Votes) {
	for i := range m.Votes {
		if int(m.Votes[i].Partition) < len(c.view.Cells) {
			c.counted(now, from, &m.Votes[i])
		}
	}
}

// counted joins the claims of a vote with those here, if it is of those that
// make up what the new leader has to know.
func (c voter) counted(now clock.Time, from register.Member, v *message.CastVote) {
	var held []vnode.Held
	if v.Granted && (!v.Pre || mutant.UnpromisedVotes.On()) {
		var err error
		if held, err = vnode.DecodeHeld(v.Claims); err != nil {
			c.unread(from, v.Partition, err)
			return // who does not say what it knows has not voted
		}
	}
	if c.elector.runs.Vote(now, from, v.Vote) || mutant.UnpromisedVotes.On() {
		c.round.Check(vnode.Absorb(c.vnodes.Use(v.Partition), c.round.Tx, held, now))
	}
	if !v.Granted {
		c.elector.runs.Hopeless(v.Partition, c.standing.Disk.Stands)
	}
}

// unread notes claims that came with a vote or a push and cannot be read. The vote
// does not count then, and where it is needed nobody comes to lead: an operator has
// to hear why.
func (c voter) unread(from register.Member, p ring.Partition, err error) {
	c.stats.Unread++
	c.stats.UnreadLast = Unread{Peer: from.Node, Partition: p, Why: err.Error()}
}

// stand begins the candidacies that others have asked for.
func (c voter) stand(now clock.Time, from register.Member, m *message.Elect) {
	for i := range m.Stand {
		s := &m.Stand[i]
		if int(s.Partition) >= len(c.view.Cells) || len(s.To) > register.MaxCohort || !slices.Contains(s.To, c.cfg.Self) {
			continue
		}
		if cell := &c.view.Cells[s.Partition]; cell.Epoch == s.Epoch && cell.Nonce == s.Nonce {
			if c.elector.resign || !c.elector.able(s.Partition) {
				c.elector.refer(now, s)
				continue
			}
			c.elector.runs.Heard(s.Partition, from, s.Floor)
			c.elector.start(now, s.Partition, s.To, true)
		}
	}
}
