package message

import (
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

type (
	// Ballot asks a member for its vote.
	Ballot = election.Ballot[register.Member]
	// Vote answers a [Ballot], or a push of claims.
	Vote = election.Vote
)

// Ballots asks a node for its votes, for all partitions at once.
type Ballots struct{ Ballots []Ballot }

// Votes answers [Ballots].
type Votes struct {
	Votes []CastVote
	Mark  uint64 // see [DurabilityEpoch]
}

// CastVote is a vote with what this member knows of the partition's claims,
// read after its promise (design 7.2, step 3).
type CastVote struct {
	Vote
	Claims []byte // as vnode.AppendHeld writes them; nil unless granted, and not a pre-vote
}

// Pushes brings the claims of partitions to a member of their new cohorts.
type Pushes struct{ Pushes []Pushed }

// Pushed is what a candidate knows of a partition's claims: the union of what the
// voters of the old cohort have told it.
type Pushed struct {
	Partition    ring.Partition
	Epoch, Nonce uint64
	Claims       []byte
}

// PushesTaken answers [Pushes]: granted says that the claims are on disk.
type PushesTaken struct {
	Votes []Vote
	Mark  uint64 // see [DurabilityEpoch]
}

// Elect asks a node to stand for the election of partitions: because a cohort is
// to change, or to take over from who resigns.
type Elect struct{ Stand []Stand }

// Stand is one partition of [Elect].
type Stand struct {
	Partition    ring.Partition
	Epoch, Nonce uint64 // of the cell that the change starts from
	To           []register.Member
	Floor        uint64 // somebody has promised so much: the epoch is to be above it
}

func (*Ballots) peerMessage()     {}
func (*Votes) peerMessage()       {}
func (*Pushes) peerMessage()      {}
func (*PushesTaken) peerMessage() {}
func (*Elect) peerMessage()       {}
