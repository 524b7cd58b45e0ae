package repair

import (
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair/roots"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Every is the interval in which each partition is compared with each other member of
	// its cohort; 0: never. Scrub is the pause between two looks of the scrubber; 0: a second.
	Every, Scrub time.Duration
	// Moving is how partitions are compared that are copied or handed over.
	Moving antientropy.Config
	// Proofs hear of all comparisons, those of sums too.
	Proofs roots.Proofs
	// Others are told of what happens here, and asked for what is theirs to do.
	Others Others
}

// Others is the rest of a node.
type Others interface {
	// Keep merges facts of a peer, and tells how many were new and how many are here now.
	Keep(now clock.Time, from register.Member, part *message.PartFacts) (changed, taken int)
	// Compared hears how a comparison has ended that this node began, and tells whether the
	// next one of the two begins from nothing.
	Compared(now clock.Time, k message.Pair, r *antientropy.Result) (anew bool)
	// Awaits tells whether a move or an election waits for a comparison.
	Awaits(k message.Pair) bool
	// Proposed tells whether this node is to be of the cohort of an open proposal.
	Proposed(p ring.Partition) bool
}
