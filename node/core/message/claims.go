package message

import (
	"time"

	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// AskKey names a claim request of a client process.
type AskKey struct {
	Session [16]byte
	Request uint64
}

// Named tells whether the request can be recognised when it comes again.
func (k AskKey) Named() bool { return k.Session != [16]byte{} }

// ReclaimLease tells a leader of claims that a leader before it has granted and that
// surely nobody has heard of: it releases them.
type ReclaimLease struct{ Parts []PartClaims }

// Claims asks the members of a cohort to keep what its leader has granted,
// renewed and released in a round (design 7.3): one message per member.
type Claims struct {
	Round uint64 // the leader's number for it, never used again by its process
	Parts []PartClaims
}

// PartClaims are claims of one partition.
type PartClaims struct {
	Partition ring.Partition
	Epoch     uint64
	Claims    []byte // as vnode.AppendHeld writes them
}

// ClaimsTaken answers [Claims], when what was accepted is on disk. All claims of
// a part are accepted but those that are refused.
type ClaimsTaken struct {
	Round uint64
	Parts []PartTaken
	Facts []PartFacts // the leader learns: of refused tasks that are finished or put off, and where the work on others got to
	Mark  uint64      // see [DurabilityEpoch]
}

// PartTaken is the answer for one partition.
type PartTaken struct {
	Partition ring.Partition
	No        bool   // nothing of it: more was promised, or the partition is not kept here
	Promise   uint64 // of this acceptor
	Refused   []Refusal
}

// Verdict is what a member says to a claim.
type Verdict = vnode.Verdict

// MaxVerdict is the greatest verdict there is.
const MaxVerdict = uint32(vnode.SkewedClock)

// Refusal says why a claim was not accepted, or that its task is not known here.
type Refusal struct {
	Index   int // into the claims of the part
	Verdict Verdict
	Claim   []byte        // that is in the way, as vnode.AppendHeld writes it; nil: none
	Left    time.Duration // for how long it is, by the acceptor's own rule
}

// AbandonClaims names claim requests whose clients have had no answer, and will take
// none any more: what they were granted is free at once.
type AbandonClaims struct{ Asks []AskKey }

// ConfirmedSince is since when a majority has been asked about some partitions.
type ConfirmedSince struct {
	At    int64 // mono ns
	Parts []ring.Partition
}

// AskOrphans asks a leader about claims that lapsed here long ago, and of which
// nothing has come that ends them: grants that never reached their majority.
type AskOrphans struct{ Parts []PartClaims }

// NotHeld answers [AskOrphans] with those that the leader does not hold.
type NotHeld struct{ Parts []PartClaims }

func (*ReclaimLease) peerMessage()  {}
func (*Claims) peerMessage()        {}
func (*ClaimsTaken) peerMessage()   {}
func (*AbandonClaims) peerMessage() {}
func (*AskOrphans) peerMessage()    {}
func (*NotHeld) peerMessage()       {}
