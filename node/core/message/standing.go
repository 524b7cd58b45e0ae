package message

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
)

// Beat asks a member what its wall clock says.
type Beat struct {
	Sent   clock.Time
	Prompt bool // it is to answer at once, not with its own next question
}

// Beaten answers a [Beat].
type Beaten struct {
	Sent               clock.Time // as it came
	Boot               uint64     // names the process that answers
	Received, Answered int64      // wall ns of who answers
	Seen               uint64     // how far the disk of who asked was, as far as who answers has heard
	Whole, Sound       bool       // what who answers says of its own disk
}

// DurabilityEpoch tells how far this node's disk is, when that is durable.
type DurabilityEpoch struct{ Mark uint64 }

// DurabilityIn is where an acknowledgement says how far the disk is; nil for others.
func DurabilityIn(m PeerMessage) *uint64 {
	switch m := m.(type) {
	case *Votes:
		return &m.Mark
	case *PushesTaken:
		return &m.Mark
	case *ClaimsTaken:
		return &m.Mark
	case *FactsTaken:
		return &m.Mark
	case *DurabilityEpoch:
		return &m.Mark
	}
	return nil
}

// OwnCopyCounts tells whether a message asks for what counts together with what its sender writes
// itself: facts, claims, and votes. Whoever gets it is to know how far the sender's disk is.
func OwnCopyCounts(m PeerMessage) bool {
	switch m := m.(type) {
	case *Facts:
		return true
	case *Claims:
		return true
	case *Pushes:
		return true
	case *Ballots:
		return len(m.Ballots) > 0 && !m.Ballots[0].Pre
	}
	return false
}

// Forgot says that this disk has lost what it had acknowledged, as the register's group has
// found or another node has said. From then on the node neither votes nor takes claims.
// As it may be in reach of nobody, whoever runs it asks whether it can be spared (MayRetire of package core).
type Forgot struct {
	Why   string
	Asked bool // one member says so, and the others are asked whether it is: the core only stands aside
}

// MayRetire is what a node says to another one that has lost what it had acknowledged, does not
// know any more how the cluster is, and is refused everything else.
type MayRetire struct {
	// Sound: this one has lost nothing. Else it does
	// not count, and neither does what follows.
	Sound bool
	// Revision is of the register from which the rest is.
	Revision uint64
	// Needs are those of whom a majority is needed: the cohorts with the one who asks, and the
	// register's voters.
	Needs [][]register.Member
}

func (*Beat) peerMessage()            {}
func (*Beaten) peerMessage()          {}
func (*DurabilityEpoch) peerMessage() {}
