package message

import (
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// MaxFence bounds the cohorts of a [Fence].
const MaxFence = election.MaxOpen + 1

// Send is a message to another node. Like a reply it leaves when what was
// persisted with it is durable. It may get lost, come twice or late.
type Send struct {
	To      register.Member
	Message PeerMessage
	After   uint64 // as [Reply.After], in [Ready.Send]
}

// FromPeer is a message from another node.
type FromPeer struct {
	From    register.Member
	Message PeerMessage
}

// PeerMessage is what nodes say to each other.
type PeerMessage interface{ peerMessage() }

// Facts asks a replica to keep facts, whatever its epoch (design 5: acks are
// fenced by votes, storage is not).
type Facts struct {
	Write uint64 // the sender's number for it, never used again by its process
	Aside bool   // the sender kept them aside and is about to delete them: who lacks them keeps them
	Parts []PartFacts
}

// PartFacts are facts of one partition.
type PartFacts struct {
	Partition ring.Partition
	Epoch     uint64 // of the cell whose cohort the sender writes to
	Facts     []crdt.Fact
}

// FactsTaken says that the facts of a write are on this node's disk, but for
// those of the partitions named.
type FactsTaken struct {
	Write   uint64
	Refused []ring.Partition // malformed, or not kept here
	Fences  []Fence
	Mark    uint64 // see [DurabilityEpoch]
}

// Fence goes with an ack where the sender may write to a cohort that is, or is
// about to be, another one: it needs a quorum in each of these too (design 5:
// acks are fenced by votes, storage is not).
type Fence struct {
	Partition ring.Partition
	Cohorts   [][]register.Member // the newest registered one known, and of all open proposals
}

func (*Facts) peerMessage()      {}
func (*FactsTaken) peerMessage() {}
