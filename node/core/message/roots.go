package message

import (
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/ring"
)

// Roots asks which of some partitions, of whose cohorts the sender and the receiver are
// members, have the same facts on both sides: one message for all that two nodes share.
type Roots struct {
	told
	Session uint64 // of these comparisons
	Hash    uint8  // of facts, see [antientropy.HashVersion]
	Roots   []Root
}

// Root is the sum over the facts of a partition.
type Root struct {
	Partition ring.Partition
	Sum       crdt.Sum
}

// SameRoots answers [Roots]: these have the sums that the sender of the question has. Of all
// others it says nothing.
type SameRoots struct {
	told
	Session    uint64
	Partitions []ring.Partition
}

// RootsCompleted says of several partitions what [RepairCompleted] says of one.
type RootsCompleted struct {
	told
	Session    uint64
	Age        time.Duration
	Partitions []ring.Partition
}

// told is in what nodes tell each other.
type told struct{}

func (told) peerMessage() {}
