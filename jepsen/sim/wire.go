package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
)

// link is one direction between two nodes.
type link struct {
	cut  bool
	slow time.Duration // mean, beside the delay of the network
	last int64         // when the last message arrives: order is kept, most often
}

// apart tells whether two nodes cannot hold a connection.
func (f *fleet) apart(a, b *node) bool {
	return f.links[a.index][b.index].cut || f.links[b.index][a.index].cut
}

// post carries something from node to node: it arrives once, twice or never.
func (f *fleet) post(from *node, m register.Member, twice bool, deliver func(to *node)) {
	s, to := f.s, f.find(m)
	if to == nil || to == from {
		return
	}
	l := &f.links[from.index][to.index]
	c := &s.plan.Cluster
	if l.cut || f.stormy && s.Chance(c.Loss) {
		s.stats[stats.LostMessages]++
		return
	}
	self, revision, times := from.self, from.peers.machine.State().Revision, 1
	if twice && s.Chance(c.Again) {
		times = 2
	}
	for range times {
		at := s.Now + int64(s.delay())
		if l.slow > 0 {
			at += int64(s.About(l.slow))
		}
		if !c.Disorder {
			at = max(at, l.last)
			l.last = at
		}
		s.At(at, func() {
			if to.up && to.self == m && !f.links[from.index][to.index].cut && knows(to, self, revision) {
				s.stats[stats.Messages]++
				deliver(to)
			}
		})
	}
}

// knows tells whether a node lets another one in: who is in the register, once
// there is one here, or may be in one that is newer (package node, membership).
func knows(n *node, m register.Member, revision uint64) bool {
	state := n.peers.machine.State()
	if len(state.Nodes) == 0 || revision > state.Revision {
		return true
	}
	_, known := state.Find(m)
	return known
}

// send carries a message of the core.
func (f *fleet) send(from *node, m *message.Send) {
	msg, self := m.Message, from.self
	if f.s.mutant.Send != nil && !f.s.mutant.Send(from, m) {
		return
	}
	msg = slanderer{f}.forged(from, msg)
	f.note(from, m)
	f.leaders.Polls(msg)
	if f.witness != nil {
		f.witness.Said(seenNode{from}, m)
	}
	f.post(from, m.To, again(msg), func(to *node) {
		to.put(&message.FromPeer{From: self, Message: onTheWire(msg)}, first(msg))
	})
}

// again tells what may come twice. A connection doubles nothing, but senders ask
// again; requests of clients are not among what they repeat.
func again(m message.PeerMessage) bool {
	switch m.(type) {
	case *message.Forward, *message.Forwarded:
		return false
	}
	return true
}

// first tells what goes before the rest, as in package node.
func first(m message.PeerMessage) bool {
	switch m.(type) {
	case *message.FactsTaken, *message.Forwarded, *message.QueueHeads:
		return true
	}
	return false
}

// onTheWire gives the receiver a message of its own, where it may change it.
func onTheWire(m message.PeerMessage) message.PeerMessage {
	switch m := m.(type) {
	case *message.Forward:
		out := *m
		out.Body = gproto.Clone(m.Body)
		return &out
	case *message.Forwarded:
		out := *m
		if m.Message != nil {
			out.Message = gproto.Clone(m.Message)
		}
		return &out
	}
	return m
}

// messageText is a message as people read it.
func messageText(m message.PeerMessage) string {
	switch m := m.(type) {
	case *message.Repair:
		x := m.Message
		return fmt.Sprintf("repair of partition %d, kind %d, session %x/%d, %d facts, %d pushed, reason %d", m.Partition, x.Kind, x.Session>>48, x.Seq, len(x.Facts), len(x.Push), x.Reason)
	case *message.Forward:
		return fmt.Sprintf("forward %T for partitions %v", m.Body, m.Partitions)
	case *message.Facts:
		text := "facts"
		for i := range m.Parts {
			text += fmt.Sprintf(" %d of partition %d", len(m.Parts[i].Facts), m.Parts[i].Partition)
		}
		return text
	case *message.FactsTaken:
		return fmt.Sprintf("facts taken, refused %v", m.Refused)
	}
	return fmt.Sprintf("%T", m) + electionText(m) + claimsText(m)
}

// claimsText says which partitions a message of claims is about, and what was refused.
func claimsText(m message.PeerMessage) (text string) {
	switch m := m.(type) {
	case *message.Claims:
		text = fmt.Sprintf(" %d:", m.Round&0xffff)
		for i := range m.Parts {
			c := &m.Parts[i]
			text += fmt.Sprintf(" %d/%d (%d bytes of claims)", c.Partition, c.Epoch, len(c.Claims))
		}
	case *message.ClaimsTaken:
		text = fmt.Sprintf(" %d:", m.Round&0xffff)
		for i := range m.Parts {
			c := &m.Parts[i]
			text += fmt.Sprintf(" %d %t (promised %d)", c.Partition, !c.No, c.Promise)
			for j := range c.Refused {
				text += fmt.Sprintf(" %d for %d", c.Refused[j].Index, c.Refused[j].Verdict)
			}
		}
	}
	return text
}

// electionText says which partitions a message of elections is about.
func electionText(m message.PeerMessage) (text string) {
	say := func(v *message.Vote, claims []byte) {
		text += fmt.Sprintf(" %d/%d %t (promised %d, %d bytes of claims)", v.Partition, v.Epoch, v.Granted, v.Promise, len(claims))
	}
	switch m := m.(type) {
	case *message.Ballots:
		for i := range m.Ballots {
			b := &m.Ballots[i]
			text += fmt.Sprintf(" %d/%d pre %t from %v to %v", b.Partition, b.Epoch, b.Pre, witness.Names(b.From), witness.Names(b.To))
		}
	case *message.Votes:
		for i := range m.Votes {
			say(&m.Votes[i].Vote, m.Votes[i].Claims)
		}
	case *message.Pushes:
		for i := range m.Pushes {
			text += fmt.Sprintf(" %d/%d", m.Pushes[i].Partition, m.Pushes[i].Epoch)
		}
	case *message.PushesTaken:
		for i := range m.Votes {
			say(&m.Votes[i], nil)
		}
	case *message.Elect:
		for i := range m.Stand {
			text += fmt.Sprintf(" %d after %d to %v", m.Stand[i].Partition, m.Stand[i].Epoch, witness.Names(m.Stand[i].To))
		}
	}
	return text
}

// note counts what shows that replicas heal each other.
func (f *fleet) note(from *node, m *message.Send) {
	if f.s.tracing {
		f.s.note("%s > %s: %s", from.self.Node, m.To.Node, messageText(m.Message))
	}
	if a, ok := m.Message.(*message.QuarantineFacts); ok {
		f.s.stats[stats.Old] += len(a.Tasks)
	}
	if a, ok := m.Message.(*message.Roots); ok {
		f.s.stats[stats.Comparisons] += len(a.Roots)
	}
	r, ok := m.Message.(*message.Repair)
	if !ok || r.Message == nil {
		return
	}
	n := len(r.Message.Facts) + len(r.Message.Push)
	if r.Message.Kind == antientropy.KindHello {
		f.s.stats[stats.Comparisons]++
	}
	if n == 0 {
		return
	}
	cells := from.peers.machine.State().Cells
	if int(r.Partition) >= len(cells) {
		return
	}
	cohort := cells[r.Partition].Cohort
	if slices.Contains(cohort, from.self) && slices.Contains(cohort, m.To) {
		f.s.stats[stats.Repaired] += n
	} else {
		f.s.stats[stats.Copied] += n
	}
}
