package nodes

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

// Link is one direction between two nodes.
type Link struct {
	Cut  bool
	Slow time.Duration // mean, beside the delay of the network
	last int64         // when the last message arrives: order is kept, most often
}

// apart tells whether two nodes cannot hold a connection.
func (f *Fleet) apart(a, b *Node) bool {
	return f.Links[a.Index][b.Index].Cut || f.Links[b.Index][a.Index].Cut
}

// Post carries something from node to node: it arrives once, twice or never.
func (f *Fleet) Post(from *Node, m register.Member, twice bool, deliver func(to *Node)) {
	s, to := f.S, f.Find(m)
	if to == nil || to == from {
		return
	}
	l := &f.Links[from.Index][to.Index]
	c := &s.Plan.Cluster
	if l.Cut || f.Stormy && s.Chance(c.Loss) {
		s.Stats[stats.LostMessages]++
		return
	}
	self, revision, times := from.Self, from.Peers.Machine.State().Revision, 1
	if twice && s.Chance(c.Again) {
		times = 2
	}
	for range times {
		at := s.Now + int64(s.Delay())
		if l.Slow > 0 {
			at += int64(s.About(l.Slow))
		}
		if !c.Disorder {
			at = max(at, l.last)
			l.last = at
		}
		s.At(at, func() {
			if to.Up && to.Self == m && !f.Links[from.Index][to.Index].Cut && knows(to, self, revision) {
				s.Stats[stats.Messages]++
				deliver(to)
			}
		})
	}
}

// knows tells whether a node lets another one in: who is in the register, once
// there is one here, or may be in one that is newer (package node, membership).
func knows(n *Node, m register.Member, revision uint64) bool {
	state := n.Peers.Machine.State()
	if len(state.Nodes) == 0 || revision > state.Revision {
		return true
	}
	_, known := state.Find(m)
	return known
}

// Send carries a message of the core.
func (f *Fleet) Send(from *Node, m *message.Send) {
	msg, self := m.Message, from.Self
	if f.S.Mutant.Send != nil && !f.S.Mutant.Send(from, m) {
		return
	}
	msg = f.Harm.Forged(from, msg)
	f.note(from, m)
	f.Leaders.Polls(msg)
	if f.Witness != nil {
		f.Witness.Said(seenNode{from}, m)
	}
	f.Post(from, m.To, again(msg), func(to *Node) {
		to.Put(&message.FromPeer{From: self, Message: onTheWire(msg)}, First(msg))
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

// First tells what goes before the rest, as in package node.
func First(m message.PeerMessage) bool {
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
func (f *Fleet) note(from *Node, m *message.Send) {
	if f.S.Tracing {
		f.S.Note("%s > %s: %s", from.Self.Node, m.To.Node, messageText(m.Message))
	}
	if a, ok := m.Message.(*message.QuarantineFacts); ok {
		f.S.Stats[stats.Old] += len(a.Tasks)
	}
	if a, ok := m.Message.(*message.Roots); ok {
		f.S.Stats[stats.Comparisons] += len(a.Roots)
	}
	r, ok := m.Message.(*message.Repair)
	if !ok || r.Message == nil {
		return
	}
	n := len(r.Message.Facts) + len(r.Message.Push)
	if r.Message.Kind == antientropy.KindHello {
		f.S.Stats[stats.Comparisons]++
	}
	if n == 0 {
		return
	}
	cells := from.Peers.Machine.State().Cells
	if int(r.Partition) >= len(cells) {
		return
	}
	cohort := cells[r.Partition].Cohort
	if slices.Contains(cohort, from.Self) && slices.Contains(cohort, m.To) {
		f.S.Stats[stats.Repaired] += n
	} else {
		f.S.Stats[stats.Copied] += n
	}
}
